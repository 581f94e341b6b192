"""A request: immutable, checked, and the same in every form it is written in."""

import copy
import dataclasses
import inspect
import json
import pickle
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb import code
from oai_nb.errors import InvalidRequestError
from oai_nb.parameters import PARAMETERS, Range
from oai_nb.request import Request, as_request

FULL = {
    "prompt": "Say {x} and ${y}:\n",
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.9,
    "frequency_penalty": -1.5,
    "presence_penalty": 2.0,
    "logit_bias": {"5": -100},
    "seed": -7,
    "max_tokens": 0,
    "stop": ["\n", "don't", "a\\n"],
    "n": 2,
    "best_of": 2,
    "logprobs": 0,
    "echo": False,
    "suffix": "",
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "u",
}


def test_the_fixture_sets_every_parameter():
    assert set(FULL) == set(PARAMETERS)


def test_the_body_holds_what_is_set_and_nothing_else():
    assert Request("hi").body() == {"prompt": "hi"}
    assert Request(**FULL).body() == FULL
    json.dumps(Request(**FULL, extra={"top_k": 4}).body())


def test_extra_goes_into_the_body_and_may_not_hide_a_parameter():
    assert Request("hi", extra={"top_k": 4}).body() == {"prompt": "hi", "top_k": 4}
    with pytest.raises(InvalidRequestError, match="'n': it is a parameter"):
        Request("hi", extra={"n": 4})


def test_nothing_in_a_request_can_be_changed():
    options = {5: 1}
    request = Request(["a"], logit_bias=options, extra={"k": 1})
    options[5] = 2
    assert request.body()["logit_bias"] == {"5": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.n = 3
    for mapping in (request.logit_bias, request.extra):
        with pytest.raises(TypeError):
            mapping["x"] = 1
    with pytest.raises(AttributeError):
        request.prompt.append("b")


def test_requests_that_ask_the_same_are_equal_and_hash_alike():
    one, other = Request(**FULL), Request(**FULL)
    assert one == other and hash(one) == hash(other) and one != one.replace(seed=1)


def test_the_order_of_what_is_asked_makes_no_other_hash():
    one = Request("x", logit_bias={1: 2, 3: 4}, extra={"a": [1, {"b": 1}], "c": True})
    other = Request("x", extra={"c": 1, "a": [1.0, {"b": 1}]}, logit_bias={"3": 4, "1": 2})
    assert one == other and hash(one) == hash(other) and len({one, other}) == 1
    hash(Request("x", extra={"k": {1, 2}}))


def test_no_extra_is_none():
    assert Request("x", extra=None) == Request("x") and Request("x", extra=None).extra == {}
    assert as_request("x", {"extra": None}) == Request("x")


@pytest.mark.parametrize("extra", [[("a", 1)], "a", 0, {1: 2}])
def test_an_extra_that_is_no_mapping_from_names_is_refused(extra):
    with pytest.raises(InvalidRequestError, match=r"extra=.* is not a mapping") as caught:
        Request("x", extra=extra)
    assert caught.value.parameter == "extra" and caught.value.value == extra


def test_a_request_has_single_prompts():
    assert Request().prompts == (None,) and Request((1, 2)).prompts == ((1, 2),)
    assert Request("x").prompts == ("x",) and Request([[1], [2]]).prompts == ((1,), (2,))


@pytest.mark.parametrize(
    ("n", "came", "answered"),
    [
        (2, None, "aabbcc"),  # a partial answer: n of each
        (2, 6, "aabbcc"),
        (2, 5, "aabbc"),  # one is missing
        (2, 3, "abc"),  # the server knows no n
        (None, 3, "abc"),
        (1, 6, "aabbcc"),
        (None, 4, "abcc"),  # more than can be
    ],
)
def test_a_choice_answers_one_of_the_prompts(n, came, answered):
    request = Request(["a", "b", "c"], n=n)
    assert "".join(request.prompt_of(index, came) for index in range(len(answered))) == answered


def test_copies_and_pickles_are_the_same_request():
    request = Request(**FULL, extra={"top_k": 4})
    assert copy.deepcopy(request) == request == pickle.loads(pickle.dumps(request))


def test_a_changed_copy_keeps_the_rest_and_is_checked_against_the_same_limits():
    request = Request("hi", logprobs=20, limits={"logprobs": Range(0, 20)}, extra={"k": 1})
    assert request.replace(n=3).body() == {"prompt": "hi", "logprobs": 20, "n": 3, "k": 1}
    with pytest.raises(InvalidRequestError):
        request.replace(logprobs=21)


def test_the_repr_is_short_and_makes_the_same_request():
    request = Request(**FULL)
    assert eval(repr(request), {"Request": Request}) == request
    assert repr(Request("hi")) == "Request('hi')"


def test_the_signature_shows_every_parameter_by_name():
    parameters = inspect.signature(Request).parameters
    assert next(iter(parameters)) == "prompt" and set(PARAMETERS) <= set(parameters)
    assert parameters["n"].kind is inspect.Parameter.KEYWORD_ONLY


def test_arguments_make_or_refine_a_request():
    assert as_request("hi", {"n": 2}) == Request("hi", n=2)
    assert as_request(Request("hi", n=2), {"n": 3}) == Request("hi", n=3)
    request = Request("hi")
    assert as_request(request, {}) is request


def test_a_request_that_is_refined_is_checked_against_its_own_limits_or_the_servers():
    wide = {"logprobs": Range(0, 20)}
    assert as_request(Request("hi"), {"logprobs": 20}, wide).logprobs == 20
    with pytest.raises(InvalidRequestError):
        as_request(Request("hi", limits={"logprobs": Range(0, 5)}), {"logprobs": 20}, wide)


@pytest.mark.parametrize("start", ["hi", Request("hi")])
def test_an_unknown_parameter_is_named_with_the_nearest_one(start):
    with pytest.raises(InvalidRequestError, match="did you mean temperature"):
        as_request(start, {"temprature": 1})


def test_the_python_code_makes_the_same_request():
    request = Request(**FULL, extra={"top_k": 4})
    made = []
    namespace = {"complete": lambda prompt, **named: made.append(Request(prompt, **named))}
    source = request.to_python().replace("import oai_nb\n", "").replace("oai_nb.", "")
    exec(source, namespace)
    assert made == [request]


def test_the_curl_command_sends_the_same_body_and_no_key(tmp_path):
    request = Request(**FULL, extra={"top_k": 4})
    words = shlex.split(request.to_curl("http://127.0.0.1:8000/v1"))
    assert words[1] == "http://127.0.0.1:8000/v1/completions"
    assert json.loads(words[words.index("--data-raw") + 1]) == request.body()
    assert "$OPENAI_API_KEY" in request.to_curl()


def test_the_magic_cell_has_the_prompt_byte_for_byte_below_one_line():
    first, _, rest = Request(**FULL).to_magic().partition("\n")
    assert first.startswith("%%complete ") and rest == FULL["prompt"] + "\n"
    assert "'\\n'" in first


def test_a_list_of_prompts_has_no_cell():
    with pytest.raises(InvalidRequestError, match="to_python"):
        Request(["a", "b"]).to_magic()


@given(st.text())
def test_escaping_is_undone_and_leaves_one_line(text):
    escaped = code.escaped(text)
    assert code.unescaped(escaped) == text
    assert "\n" not in escaped and "\r" not in escaped
    assert shlex.split(code.quoted(escaped)) == [escaped]


def test_unescaping_takes_hexadecimal_and_leaves_unknown_backslashes():
    assert code.unescaped(r"\x41\u00e9\d\\") == "Aé\\d\\"


def test_python_code_runs_as_a_program(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        Request("The capital of France is", max_tokens=1, temperature=0).to_python()
        + "print(completion.text)"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=250)
    assert done.stdout.strip() == "Paris", done.stderr
