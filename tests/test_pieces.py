"""Tokens laid along the text: nothing of it is lost or invented, whatever the tokens are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import chat, choice

from oai_nb.completion import Choice
from oai_nb.pieces import Piece, pieces


def cut(one):
    return [(piece.text, [token.text for token in piece.tokens]) for piece in pieces(one)]


def test_each_token_is_a_piece():
    assert cut(choice(["a", " b", ""])) == [("a", ["a"]), (" b", [" b"]), ("", [""])]


def test_d14_halves_of_a_character_share_a_piece():
    halves = ["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"]
    assert cut(choice(["a", *halves, "b"], text="a😀b")) == [("a", ["a"]), ("😀", halves), ("b", ["b"])]


def test_d14_a_count_that_does_not_match_shifts_nothing():
    entries = [(1, "a", b"a", -0.1), (2, "👍", "👍".encode(), -0.2), (3, "b", b"b", -0.3)]
    assert cut(chat(entries, "a👍b")) == [("a", ["a"]), ("👍", ["👍"]), ("b", ["b"])]


def test_tokens_of_unknown_bytes_lie_before_the_next_known_one():
    lost = ["\ufffd", "\ufffd"]
    assert cut(choice(["a", *lost, " b"], text="a😀 b")) == [("a", ["a"]), ("😀", lost), (" b", [" b"])]


@pytest.mark.parametrize(
    "sign",
    ["👩|\u200d|👧", "❤|\ufe0f", "👍|🏽", "🇩|🇪", "e|\u0301", "न|म|स|\u094d|त|\u0947", "می|\u200c|خواهم"],
)
def test_what_is_drawn_as_one_sign_is_never_torn(sign):
    found = cut(choice(["a", *sign.split("|"), "b"]))
    assert found[0] == ("a", ["a"]) and found[-1] == ("b", ["b"])
    assert not any(text.startswith(JOINING) for text, _ in found)


JOINING = ("\u200d", "\u200c", "\ufe0f", "🏽", "🇪", "\u0301", "\u094d", "\u0947")


@pytest.mark.parametrize("count", [1, 9, 20])
def test_flags_in_a_row_are_signs_of_two_letters_each(count):
    letters = ["🇩", "🇪", "🇫", "🇷"] * count
    assert [text for text, _ in cut(choice(letters))] == ["🇩🇪", "🇫🇷"] * count
    assert [text for text, _ in cut(choice(["a", *letters]))] == ["a", *["🇩🇪", "🇫🇷"] * count]


def test_text_without_tokens_is_kept():
    assert cut(choice(["a"], text="a and more")) == [("a", ["a"]), (" and more", [])]
    assert cut(choice(["token_id:7"], text="word")) == [("word", ["token_id:7"])]
    assert cut(Choice(0, "text")) == [("text", [])]


def test_a_token_cut_by_a_stop_stays_in_the_list():
    assert cut(choice(["a", " User:"], text="a")) == [("a", ["a"]), ("", [" User:"])]


def test_a_piece_is_as_surprising_as_its_least_likely_token():
    tokens = choice(["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"], [-0.1, -3.0], text="😀").tokens
    assert Piece("😀", tokens).token is tokens[1]
    assert Piece("").token is None


TOKEN = st.one_of(st.text(max_size=4), st.sampled_from(["\ufffd", "bytes:\\xf0", "bytes:\\x9f\\x98\\x80"]))


@given(st.lists(TOKEN, max_size=12), st.text(max_size=20), st.booleans())
def test_the_pieces_are_the_text_and_all_the_tokens(tokens, text, joined):
    one = choice(tokens, text="".join(tokens) if joined else text)
    found = list(pieces(one))
    assert "".join(piece.text for piece in found) == one.text
    assert [token for piece in found for token in piece.tokens] == list(one.tokens)
