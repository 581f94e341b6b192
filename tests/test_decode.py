"""Answers and errors of every shape that servers send."""

import json

import pytest

from oai_nb.decode import decode, excerpt, server_error
from oai_nb.errors import (
    AuthenticationError,
    BrokenStreamError,
    NotFoundError,
    RateLimitError,
    ServerError,
)


def choice_bytes(**choice):
    return json.dumps({"id": "c", "choices": [{"index": 0, "text": "ab", **choice}]}).encode()


def test_a_usage_event_without_choices_is_a_chunk():
    """D05."""
    chunk = decode(
        b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}'
    )
    assert chunk.choices == () and chunk.usage["total_tokens"] == 3


def test_nulls_and_absent_fields_are_taken():
    chunk = decode(
        b'{"id": null, "choices": [{"index": 1, "text": null, "finish_reason": null, "logprobs": null}]}'
    )
    assert chunk.choices[0].index == 1 and chunk.choices[0].text is None
    assert decode(b"{}").choices == () and decode(b'{"choices": null}').choices is None


def test_nan_and_infinity_are_decoded():
    """D16: what strict decoders refuse is still an answer."""
    columns = b'{"tokens":["a"],"token_logprobs":[NaN],"top_logprobs":[{"a":-Infinity}]}'
    row = b'{"choices":[{"text":"a","logprobs":' + columns + b"}]}"
    logprobs = decode(row).choices[0].logprobs
    assert logprobs.top_logprobs == ({"a": float("-inf")},)


def test_invalid_utf8_becomes_the_replacement_character():
    assert decode(b'{"choices":[{"text":"a\xffb"}]}').choices[0].text == "a\ufffdb"


def test_lone_surrogates_are_kept_in_the_text_and_replaced_elsewhere():
    raw = b'{"model":"\\ud83d","choices":[{"text":"\\ud83d","logprobs":{"tokens":["\\ud83d"]}}]}'
    chunk = decode(raw)
    assert chunk.choices[0].text == "\ud83d"
    assert chunk.model == "\ufffd" and chunk.choices[0].logprobs.tokens == ("\ufffd",)


def test_logprobs_of_an_unknown_shape_do_not_cost_the_text():
    chunk = decode(choice_bytes(logprobs={"tokens": "oops"}))
    assert chunk.choices[0].text == "ab" and chunk.choices[0].logprobs is None
    assert chunk.left_out == ("logprobs",)


@pytest.mark.parametrize(
    ("odd", "names"),
    [
        ({"id": 5}, ["id"]),
        ({"system_fingerprint": 7, "created": "yesterday"}, ["created", "system_fingerprint"]),
        ({"model": ["m"], "usage": [1, 2]}, ["model", "usage"]),
        ({"usage": {"prompt_tokens": "many"}}, ["usage"]),
    ],
)
def test_an_odd_field_of_no_importance_costs_nothing_else(odd, names):
    chunk = decode(json.dumps({"choices": [{"text": "ab", "finish_reason": "stop"}], **odd}).encode())
    assert [choice.text for choice in chunk.choices] == ["ab"] and list(chunk.left_out) == names


@pytest.mark.parametrize(
    "odd",
    [{"token_ids": "x"}, {"token_ids": [1.5]}, {"finish_reason": 3}, {"index": "first"}, {"delta": 3}],
)
def test_an_odd_field_of_a_choice_costs_nothing_else(odd):
    columns = {"tokens": ["ab"], "token_logprobs": [-1.0]}
    chunk = decode(choice_bytes(logprobs=columns, **odd))
    assert (chunk.choices[0].index, chunk.choices[0].text) == (0, "ab") and list(chunk.left_out) == [*odd]
    assert chunk.choices[0].logprobs.tokens == ("ab",)


@pytest.mark.parametrize("odd", [{"id": "a"}, {"bytes": [300]}, {"logprob": "low"}, {"top_logprobs": 3}])
def test_an_odd_entry_of_the_chats_logprobs_costs_the_logprobs_only(odd):
    chunk = decode(choice_bytes(logprobs={"content": [{"token": "a", "logprob": -1.0} | odd]}))
    assert chunk.choices[0].text == "ab" and chunk.left_out == ("logprobs",)


def test_an_odd_column_costs_no_other_column():
    chunk = decode(choice_bytes(logprobs={"tokens": ["ab"], "token_logprobs": [-1], "text_offset": "x"}))
    assert chunk.choices[0].logprobs.token_logprobs == (-1,) and chunk.left_out == ("text_offset",)


@pytest.mark.parametrize("index", [{}, {"index": None}])
def test_choices_without_an_index_are_numbered_by_their_place(index):
    chunk = decode(json.dumps({"choices": [{"text": "a"} | index, {"text": "b"} | index]}).encode())
    assert [(choice.index, choice.text) for choice in chunk.choices] == [(0, "a"), (1, "b")]
    assert chunk.left_out == ()


@pytest.mark.parametrize("form", ["delta", "message"])
@pytest.mark.parametrize("content", ["ab", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]])
def test_the_chats_form_is_taken_for_the_text_and_told(form, content):
    chunk = decode(json.dumps({"choices": [{"index": 1, form: {"content": content}}]}).encode())
    assert [(choice.index, choice.text) for choice in chunk.choices] == [(1, "ab")] and chunk.is_chat
    assert not decode(choice_bytes(**{form: {"content": content}})).is_chat


def test_halves_of_a_character_are_kept_in_the_chats_form():
    assert decode(b'{"choices":[{"delta":{"content":"\\ud83d"}}]}').choices[0].text == "\ud83d"


@pytest.mark.parametrize("choice", [{"message": {"content": 5}}, {"delta": "ab"}, 3])
def test_a_text_of_an_unknown_shape_is_no_empty_success(choice):
    with pytest.raises(BrokenStreamError, match="unknown shape"):
        decode(json.dumps({"choices": [choice]}).encode())


@pytest.mark.parametrize("raw", [b"hello", b"[1]", b'{"choices": 3}', b'{"choices":[{"text":3}]}', b""])
def test_what_is_no_answer_is_a_broken_stream(raw):
    with pytest.raises(BrokenStreamError, match="the server sent"):
        decode(raw)


HTML = "<!DOCTYPE html>\n<html><head><title>api | 502: Bad gateway</title></head><body>" + "<div>" * 400


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        (
            {"error": {"message": "no", "type": "t", "param": "n", "code": "c"}},
            400,
            ServerError,
            "answered 400: no",
        ),
        ({"error": "model not found"}, 404, NotFoundError, "model not found"),
        ({"error": "text", "error_type": "validation"}, 422, ServerError, "text"),
        ({"object": "error", "message": "bad", "code": 400}, 400, ServerError, "bad"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422, ServerError, "field required"),
        ({"detail": "Invalid key"}, 401, AuthenticationError, "Invalid key"),
        (HTML, 502, ServerError, "502: api | 502: Bad gateway"),
        ("<html><body>oops", 500, ServerError, "a page of HTML"),
        ("plain words\nof text", 503, ServerError, "plain words of text"),
        ("", 429, RateLimitError, "said no more"),
        ({}, 500, ServerError, "said no more"),
        ({"error": {"message": "KV cache is full", "code": 500}}, None, ServerError, "KV cache is full"),
        ({"error": {"message": "slow down", "code": 429}}, None, RateLimitError, "slow down"),
        ([1, 2], 500, ServerError, "said no more"),
    ],
)
def test_reads_an_error_of_any_shape(body, status, kind, words):
    """D07, D08: the server's own words in one line, whatever they were wrapped in."""
    error = server_error(body, status)
    assert type(error) is kind and words in str(error)
    assert "\n" not in str(error) and "<" not in str(error) and len(str(error)) < 350


def test_an_error_keeps_what_the_api_says_of_it():
    error = server_error({"error": {"message": "no", "type": "t", "param": "n", "code": "c"}}, 400)
    assert (error.status, error.type, error.param, error.code) == (400, "t", "n", "c")


def test_an_excerpt_does_nothing_on_a_screen():
    assert excerpt("a\x1b[31m\x9b1m\u2028b\u202e") == "a␛[31m⟨U+009B⟩1m b⟨U+202E⟩"
    assert "\x1b" not in str(server_error({"error": {"message": "\x1b]52;c;x\x07"}}, 500))


def test_an_excerpt_is_one_short_line():
    assert excerpt("a\n b" * 100, 10) == "a ba ba b…"
