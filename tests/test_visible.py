"""Every token looks different, and none looks like nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.visible import cut, half_character, one_line, padded, printable, visible, width

SCOTLAND = "\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
ODD = [" the", "the", "\n", "\\n", "", "\t", "<b>x</b>", "<script>alert(1)</script>", "&lt;", "\u00a0"]


def test_ten_odd_tokens_are_all_distinct():
    """D26."""
    shown = [visible(text) for text in ODD]
    assert shown[:6] == ["␣the", "the", "⏎", "\\n", "∅", "⇥"] and len(set(shown)) == len(ODD)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("\x7f", "␡"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("\u202e", "⟨U+202E⟩"),
        ("é🙂שלום", "é🙂שלום"),
        ("⏎", "⟨U+23CE⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("❤\ufe0f", "❤⟨U+FE0F⟩"),
        ("bytes:\\xf0\\x9f", "\\xf0\\x9f"),
    ],
)
def test_shows(text, shown):
    assert visible(text) == shown


def test_half_a_character_is_shown_as_bytes():
    assert visible("\ufffd", b"\x8d") == "\\x8d" and visible("é", "é".encode()) == "é"


LOOKS = st.sampled_from(["\0", "␀", "\r", "␍", "\x7f", "␡", "⟨", "U+", "\\x", "9f", "0", "bytes:", " ", "␣"])
TOKENS = st.text() | st.lists(LOOKS, max_size=5).map("".join) | st.from_regex(r"(bytes:)?(\\x[0-9a-f]{2})+")


@given(TOKENS, TOKENS)
def test_two_tokens_never_look_alike(one, other):
    """The API has several spellings of the same bytes; those are one token."""
    if (half_character(one) or one) != (half_character(other) or other):
        assert visible(one) != visible(other)


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_no_control_looks_like_the_picture_of_one(code):
    assert visible(chr(code)) not in {visible(chr(picture)) for picture in range(0x2400, 0x2440)}


def test_half_a_character_never_looks_like_a_text():
    assert visible("bytes:\\xf0\\x9f") == visible("\ufffd", b"\xf0\x9f") == "\\xf0\\x9f"
    assert visible("\\xf0\\x9f") == "⟨U+005C⟩xf0⟨U+005C⟩x9f" and visible("\\x1b[") == "\\x1b["


def test_a_message_is_one_line_on_which_nothing_acts():
    assert one_line("a\n\tb\x1b[0m \u2028c") == "a b␛[0m c"


@given(st.text(min_size=1))
def test_what_is_shown_is_printable(text):
    assert visible(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext, é 日本語 שלום\u00a0", "plain\n\ttext, é 日本語 שלום\u00a0"),
        ("\x1b[31m\x07\r\n", "␛[31m␇␍\n"),
        ("a\u202eb\u200b\ufeff", "a⟨U+202E⟩b⟨U+200B⟩⟨U+FEFF⟩"),
        ("a\u2028b\x85", "a⟨U+2028⟩b⟨U+0085⟩"),
        ("👩\u200d👧 می\u200cخواهم", "👩\u200d👧 می\u200cخواهم"),
        ("a\u200db \u200d", "a⟨U+200D⟩b ⟨U+200D⟩"),
        ("❤\ufe0f 1\ufe0f\u20e3 👍🏽", "❤\ufe0f 1\ufe0f\u20e3 👍🏽"),
        ("a\ufe0f\ufe01 \ufe0f", "a\ufe0f⟨U+FE01⟩ ⟨U+FE0F⟩"),
        ("\U0001f3f4" + SCOTLAND, "\U0001f3f4" + SCOTLAND),
        ("é" + SCOTLAND[:1], "é⟨U+E0067⟩"),
        ("é\u3164\ud800", "é⟨U+3164⟩⟨U+D800⟩"),
    ],
)
def test_running_text_keeps_what_is_drawn_and_shows_what_would_act(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_printable_text_is_printable_again(text):
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("👍", 2), ("⏎␣▸★", 4), ("", 0)]
)
def test_width_counts_the_columns_of_a_terminal(text, columns):
    assert width(text) == columns
    assert padded(text, 8) == text + " " * (8 - columns)
    assert padded(text, 8, right=True) == " " * (8 - columns) + text


def test_a_cut_text_fits_and_says_so():
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abcde…"
    assert (
        cut("日本語", 6) == "日本語"
        and cut("日本語文", 6) == "日本…"
        and cut("e\u0301e\u0301e", 2) == "e\u0301…"
    )


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_is_never_wider_than_asked(text, columns):
    assert width(cut(text, columns)) <= columns
