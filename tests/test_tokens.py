"""Tokens out of every server's logprobs."""

import json
import math

import pytest

from oai_nb.decode import decode
from oai_nb.fold import fold
from oai_nb.request import Request
from oai_nb.tokens import Token, echoed, token_bytes


def choice_of(text="ab", asked=None, **logprobs):
    body = {"choices": [{"index": 0, "text": text, "finish_reason": "length", "logprobs": logprobs}]}
    request = None if asked is None else Request("x", logprobs=asked)
    return fold([decode(json.dumps(body).encode())], request).choices[0]


def entry(token_id, token, data, logprob, top=()):
    return {"id": token_id, "token": token, "bytes": data, "logprob": logprob, "top_logprobs": list(top)}


def test_the_apis_columns_become_tokens():
    choice = choice_of(
        tokens=["a", "b"],
        token_logprobs=[-0.5, -2.0],
        top_logprobs=[{"a": -0.5, "c": -1.0}, {"d": -0.1, "c": -1.0, "b": -2.0}],
        text_offset=[3, 4],
        asked=2,
    )
    first, second = choice.tokens
    assert (first.text, first.bytes, first.logprob, first.rank, first.offset) == ("a", b"a", -0.5, 1, 3)
    assert [(one.text, one.chosen) for one in first.top] == [("a", True), ("c", False)]
    assert second.rank is None, "the third of three when two were asked for may be of any rank below"
    assert [one.text for one in second.top] == ["d", "c", "b"]


def test_a_chosen_token_that_the_list_left_out_is_added_and_not_ranked():
    token = choice_of(
        tokens=["z"], token_logprobs=[-9.0], top_logprobs=[{"a": -0.1, "b": -2.0}], asked=2
    ).tokens[0]
    assert [(one.text, one.chosen) for one in token.top] == [("a", False), ("b", False), ("z", True)]
    assert token.rank is None


def test_two_tokens_with_the_same_text_stay_apart():
    """D13: the chosen one keeps its own logprob, and nothing is invented."""
    token = choice_of(
        tokens=["true"], token_logprobs=[-2.4], top_logprobs=[{"true": -0.3, "false": -1.9}], asked=3
    ).tokens[0]
    assert token.logprob == -2.4
    assert [(one.text, one.logprob, one.chosen) for one in token.top] == [
        ("true", -0.3, False),
        ("false", -1.9, False),
        ("true", -2.4, True),
    ]


def test_rounding_does_not_make_two_tokens_of_one():
    token = choice_of(tokens=["a"], token_logprobs=[-0.50004], top_logprobs=[{"a": -0.5, "b": -2}]).tokens[0]
    assert len(token.top) == 2 and token.rank == 1


def test_half_characters_are_bytes():
    r"""D14: the API's form ``bytes:\xf0\x9f``."""
    choice = choice_of(
        "😀",
        tokens=["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"],
        token_logprobs=[-1, -2],
        top_logprobs=[None, None],
    )
    assert choice.text == "😀"
    assert [token.bytes for token in choice.tokens] == [b"\xf0\x9f", b"\x98\x80"]
    assert [token.shown for token in choice.tokens] == ["\\xf0\\x9f", "\\x98\\x80"]


def test_the_chats_form_gives_the_same_tokens():
    """D18, D14: merged entries shift nothing, and alternatives with one text but other bytes stay two."""
    top = [entry(231, "\ufffd", [141], -0.5), entry(118, "\ufffd", [168], -2.0)]
    choice = choice_of(
        "👍'", content=[entry(231, "👍", [240, 159, 145, 141], -0.5, top), entry(6, "'", [39], -1.5)]
    )
    thumb, quote = choice.tokens
    assert (thumb.text, thumb.bytes, thumb.id, thumb.rank) == ("👍", "👍".encode(), 231, 1)
    assert [one.shown for one in thumb.top] == ["\\x8d", "\\xa8"]
    assert (quote.id, quote.logprob, quote.top) == (6, -1.5, ())
    columns = choice.to_dict()["logprobs"]
    assert columns["tokens"] == ["👍", "'"] and columns["text_offset"] == [0, 1]


def test_a_first_token_without_logprob_is_kept_empty():
    """D15."""
    choice = choice_of(
        tokens=["The", " step"],
        token_logprobs=[None, -8.8],
        top_logprobs=[None, {" step": -8.8, " is": -0.7}],
        text_offset=[0, 3],
    )
    assert [token.logprob for token in choice.tokens] == [None, -8.8]
    assert choice.tokens[0].prob is None and choice.tokens[0].top == ()
    assert choice.mean_logprob == -8.8 and math.isclose(choice.perplexity, math.exp(8.8))
    assert choice.to_dict()["logprobs"]["token_logprobs"] == [None, -8.8]


def test_impossible_alternatives_have_probability_zero_and_valid_json():
    """D16."""
    columns = b'{"tokens":["a"],"token_logprobs":[0.0],"top_logprobs":[{"a":0.0,"s":-Infinity,"x":NaN}]}'
    raw = b'{"choices":[{"text":"a","logprobs":' + columns + b"}]}"
    choice = fold([decode(raw)]).choices[0]
    assert [math.exp(one.logprob) for one in choice.tokens[0].top] == [1.0, 0.0, 0.0]
    written = json.dumps(choice.to_dict(), allow_nan=False)
    assert json.loads(written)["logprobs"]["top_logprobs"] == [{"a": 0.0, "s": -9999.0, "x": -9999.0}]


def test_columns_of_unequal_length_shift_nothing():
    choice = choice_of(tokens=["a", "b"], token_logprobs=[-1.0], top_logprobs=[])
    assert [(token.text, token.logprob) for token in choice.tokens] == [("a", -1.0), ("b", None)]


@pytest.mark.parametrize("offset", [-1, None])
def test_an_offset_that_is_none_is_unknown(offset):
    assert choice_of(tokens=["a"], token_logprobs=[-1.0], text_offset=[offset]).tokens[0].offset is None


def test_a_token_with_the_sign_for_undecodable_has_no_known_bytes():
    assert token_bytes("a\ufffd") is None and token_bytes("é") == "é".encode()


def laid(*texts, offsets=None, ids=None):
    places, numbers = offsets or [None] * len(texts), ids or [None] * len(texts)
    return [
        Token(text, token_bytes(text), number, -1.0, None, (), offset)
        for text, offset, number in zip(texts, places, numbers)
    ]


@pytest.mark.parametrize(
    ("texts", "text", "prompt", "count"),
    [
        (["On", "ce", " x"], "Once x", "Once", 2),
        (["<s>", "On", "ce", " x"], "Once x", "Once", 3),  # a token that is not in the text
        ([" On", "ce", " x"], "Once x", "Once", 2),  # a tokenizer's first space
        (["caf", "bytes:\\xc3", "bytes:\\xa9", "!"], "café!", "café", 3),
        (["caf", "\ufffd", "\ufffd", "!"], "café!", "café", 3),
        (["x", "y"], "xy", "Once", 0),  # the server knows no echo
        (["On", "ce"], "Once", "Once", 2),  # nothing was generated
        (["On"], "On", "Once", 1),  # it is still coming
        (["On", "ce", "<|end|>"], "Once", "Once", 2),
        (["x"], "x", "", 0),
        (["Zwei", " Wörter", "!"], "Zwei Wörter!", "Zwei  Wörter", 2),  # spaces that were changed
        (["On", "ce x"], "Once x", "Once ", 2),  # a token on both sides belongs to the prompt
    ],
)
def test_echoed_tokens_are_laid_along_the_text(texts, text, prompt, count):
    assert echoed(laid(*texts), text, prompt) == count


def test_offsets_tell_where_the_tokens_are_not_in_the_text():
    tokens = laid("▁Once", "▁more", "▁x", offsets=[0, 5, 9])
    assert echoed(tokens, "Once more x", "Once more") == 2
    assert echoed(laid("▁Once", "▁more", "▁x"), "Once more x", "Once more") == 0


def test_a_prompt_of_ids_has_its_number_of_tokens():
    assert echoed(laid("a", "b", "c"), "abc", (1, 2)) == 2
    assert echoed(laid("a", "b", "c", ids=[1, 2, 3]), "abc", (1, 2)) == 2
    assert echoed(laid("a", "b", "c", ids=[5, 6, 7]), "abc", (1, 2)) == 0
    assert echoed(laid("a"), "a", (1, 2)) == 1
