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
    assert chunk.choices[0].text == "ab" and chunk.choices[0].logprobs is None and chunk.without_logprobs


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


def test_an_excerpt_is_one_short_line():
    assert excerpt("a\n b" * 100, 10) == "a ba ba b…"
