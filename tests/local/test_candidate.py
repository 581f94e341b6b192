"""One growing answer, fed by hand: characters cut between tokens, stops, and what may be shown when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.local.candidate import Candidate, Text


def grown(pieces, stops=()):
    """Feed pieces until the candidate stops; return it and what was shown after each."""
    candidate, shown = Candidate(0, 0, stops), []
    for token, piece in enumerate(pieces):
        candidate.add(token, piece, -1.0, {})
        shown.append(candidate.ready())
        if candidate.finish_reason is not None:
            return candidate, shown
    candidate.end("length")
    return candidate, [*shown, candidate.ready()]


def test_plain_tokens_are_shown_as_they_come():
    candidate, shown = grown([b"Once", b" upon", b" a"])
    assert (candidate.text, candidate.kept, candidate.finish_reason) == ("Once upon a", 3, "length")
    assert shown == [(4, 1), (9, 2), (11, 3), (11, 3)]
    assert list(candidate.starts) == [0, 4, 9]


def test_half_a_character_is_held_back():
    candidate, shown = grown([b"a", b"\xf0\x9f", b"\x98", b"\x80b"])
    assert candidate.text == "a😀b"
    assert shown[:4] == [(1, 1), (1, 1), (1, 1), (3, 4)]
    assert list(candidate.starts) == [0, 1, 1, 1]


def test_half_a_character_at_the_end_is_a_replacement_character():
    candidate, _ = grown([b"a", b"\xf0\x9f"])
    assert (candidate.text, candidate.kept) == ("a\ufffd", 2)


def test_what_never_becomes_a_character_is_shown_as_one_replacement():
    candidate, shown = grown([b"\xf0\x9f", b"x", b"\x80", b"y"])
    assert candidate.text == "\ufffdx\ufffdy"
    assert shown == [(0, 0), (2, 2), (3, 3), (4, 4), (4, 4)]


@pytest.mark.parametrize(
    ("pieces", "stops", "text", "kept"),
    [
        ([b"Hello", b" wor", b"ld"], ["wor"], "Hello ", 1),  # inside a token
        ([b"Hello", b" wor", b"ld", b"!"], ["rld"], "Hello wo", 1),  # across tokens
        ([b"Hello", b" world"], ["Hello"], "", 0),  # at once
        ([b"Hello", b" world"], [" "], "Hello", 1),  # at a token's start
        ([b"abcdef"], ["f", "cd", "e"], "ab", 0),  # the earliest, not the first named
        ([b"a", b"\xf0\x9f", b"\x98\x80", b"b"], ["😀"], "a", 1),  # a character cut between tokens
        ([b"a\xf0\x9f", b"\x98\x80", b"b"], ["😀"], "a", 0),  # whose first half shares its token
        ([b"aab"], ["ab"], "a", 0),  # after a false start
        ([b"a", b"\xf0\x9f"], ["\ufffd"], "a", 1),  # in what only the end makes a character
    ],
)
def test_the_text_ends_before_the_earliest_stop(pieces, stops, text, kept):
    candidate, _ = grown(pieces, stops)
    assert (candidate.text, candidate.kept, candidate.finish_reason) == (text, kept, "stop")


def test_what_may_become_a_stop_is_held_back_and_then_shown():
    candidate, shown = grown([b"one ", b"ST", b"OR", b"Y"], ["STOP"])
    assert shown == [(4, 1), (4, 1), (8, 3), (9, 4), (9, 4)]
    assert candidate.finish_reason == "length"


def test_the_end_token_is_counted_and_not_told():
    candidate = Candidate(0, 0)
    candidate.add(5, b"a", -1.0, {})
    candidate.end("stop")
    assert (candidate.sampled, candidate.ids, candidate.text) == (2, [5], "a")
    assert candidate.counts == {5: 1}


def test_the_mean_is_of_the_kept_tokens():
    candidate = Candidate(0, 0, ["!"])
    for logprob, piece in ((-1.0, b"a"), (-3.0, b"b"), (-50.0, b"c!")):
        candidate.add(0, piece, logprob, None)
    assert candidate.mean_logprob() == -2
    assert Candidate(0, 0).mean_logprob() == float("-inf")


pieces = st.lists(
    st.one_of(st.text("ab😀é ", min_size=1, max_size=4).map(str.encode), st.binary(min_size=1, max_size=3)),
    max_size=12,
)


@given(pieces)
def test_the_text_is_the_bytes_decoded(found):
    text = Text()
    for piece in found:
        text.add(piece)
    text.close()
    assert text.text == b"".join(found).decode("utf-8", "replace")
    assert text.starts == sorted(text.starts)
    assert text.ends == sorted(text.ends)
    assert all(end <= len(text.text) for end in text.ends)


@given(pieces, st.lists(st.text("ab😀é ", min_size=1, max_size=3), max_size=3))
def test_what_is_shown_is_never_taken_back(found, stops):
    candidate, shown = grown(found, stops)
    whole, _ = grown(found)
    assert shown == sorted(shown)
    assert whole.text.startswith(candidate.text)
    assert not any(stop in candidate.text for stop in stops)
    assert shown[-1] == (len(candidate.text), candidate.kept)
    if candidate.text != whole.text:
        assert candidate.finish_reason == "stop"
