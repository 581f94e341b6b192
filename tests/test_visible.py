"""Every token looks different, and none looks like nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.visible import visible

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
        ("bytes:\\xf0\\x9f", "\\xf0\\x9f"),
    ],
)
def test_shows(text, shown):
    assert visible(text) == shown


def test_half_a_character_is_shown_as_bytes():
    assert visible("\ufffd", b"\x8d") == "\\x8d" and visible("é", "é".encode()) == "é"


@given(st.text(), st.text())
def test_two_texts_never_look_alike(one, other):
    if (
        one != other
        and "⟨U+" not in one + other
        and not one.startswith("bytes:")
        and not other.startswith("bytes:")
    ):
        assert visible(one) != visible(other)


@given(st.text(min_size=1))
def test_what_is_shown_is_printable(text):
    assert visible(text).isprintable()
