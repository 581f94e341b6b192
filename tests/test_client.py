"""The synchronous client: what is sent, to where, with which key, and what the server is asked besides."""

import _thread
import contextlib
import copy
import gc
import inspect
import os
import pickle
import threading

import pytest
from wire import (
    COMPLETIONS,
    KEY,
    LIMIT,
    Call,
    Forever,
    Stall,
    answer,
    completion,
    event,
    failure,
    raw,
    stream,
    whole,
)

from oai_nb import Client, Request, connect, errors, peer
from oai_nb.completion import Server
from oai_nb.deadline import Limits
from oai_nb.local import service, transport, weights
from oai_nb.local.service import Service
from oai_nb.parameters import PARAMETERS

OK = whole(completion("ok", finish_reason="stop"))
MODELS = "/v1/models"


def models(*ids, owner="somebody"):
    return whole(
        {"object": "list", "data": [{"id": one, "object": "model", "owned_by": owner} for one in ids]}
    )


@pytest.fixture
def client(wire):
    with Client(wire.url, model="m") as client:
        yield client


# --- sending ---


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/completions"])
def test_every_spelling_of_the_address_reaches_completions_case_D28(wire, path):
    route = wire.on(OK)
    with Client(wire.root + path, model="m") as client:
        assert client.complete("x").text == "ok" and client.server == Server("unknown", wire.url)
    assert (route.requests.at(0).method, route.requests.at(0).path) == ("POST", COMPLETIONS)


@pytest.mark.parametrize("prompt", ["", " \n\t", "é\u2028😀\\u00e9\x00", '{"a": [1]}\r\n', "a" * 100_000])
def test_the_prompt_goes_out_byte_for_byte(wire, client, prompt):
    route = wire.on(OK)
    client.complete(prompt)
    assert route.requests.at(0).json["prompt"] == prompt


def test_a_request_and_its_refinements_are_sent(wire, client):
    route = wire.on(OK)
    asked = Request(["x", "y"], temperature=0.5, extra={"top_k": 4})
    answered = client.complete(asked, seed=7)
    assert (
        route.requests.at(0).json
        == answered.sent
        == {
            "prompt": ["x", "y"],
            "temperature": 0.5,
            "top_p": 1.0,
            "max_tokens": 16,
            "seed": 7,
            "top_k": 4,
            "model": "m",
        }
    )
    assert answered.request == asked.replace(seed=7)


def test_the_key_and_headers_are_sent_and_not_shown(wire):
    route = wire.on(OK)
    given = {"X-Api-Key": "another secret", "X-Plain": "plain"}
    with Client(wire.url, api_key=KEY, model="m", headers=given, organization="o", project="p") as client:
        client.complete("x")
        shown = f"{client!r} {client.server!r} {vars(client)} {vars(client._peer)}"
    headers = route.requests.at(0).headers
    assert headers["authorization"] == f"Bearer {KEY}" and headers["x-api-key"] == "another secret"
    assert (headers["openai-organization"], headers["openai-project"], headers["x-plain"]) == (
        "o",
        "p",
        "plain",
    )
    assert KEY not in shown and "another secret" not in shown


def test_no_key_is_no_header(wire, client):
    route = wire.on(OK)
    client.complete("x")
    assert "authorization" not in route.requests.at(0).headers


def test_headers_of_one_s_own_replace_ours(wire):
    route = wire.on(OK)
    with Client(wire.url, api_key="unused", model="m", headers={"Authorization": "Basic abc"}) as client:
        client.complete("x")
    assert route.requests.at(0).headers["authorization"] == "Basic abc"


def test_secrets_in_headers_are_masked_too(wire):
    wire.on(failure(400, "the header another-secret is odd"))
    with (
        Client(wire.url, model="m", headers={"X-Api-Key": "another-secret"}) as client,
        pytest.raises(errors.ServerError, match=r"the header \[key\] is odd"),
    ):
        client.complete("x")


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}, "dXNlcjpwYXNzd29yZA"),
        ({"Authorization": "Token hush-hush-1"}, "hush-hush-1"),
        ({"Proxy-Authorization": 'Digest user=me, response="hush-hush-1"'}, "hush-hush-1"),
        ({"Cookie": "theme=dark; session=hush=hush-1"}, "hush=hush-1"),
        ({"X-Anything": "hush-hush-1"}, "hush-hush-1"),
    ],
)
def test_every_part_of_a_header_that_may_be_a_key_is_masked(wire, headers, secret):
    wire.on(failure(401, f"who is <{secret}>?"))
    with (
        Client(wire.url, model="m", headers=headers) as client,
        pytest.raises(errors.AuthenticationError, match=r"who is <\[key\]=*>\?"),
    ):
        client.complete("x")


def test_harmless_headers_are_not_masked(wire):
    wire.on(failure(400, "application/json and request-0001"))
    headers = {"Accept": "application/json", "X-Request-Id": "request-0001"}
    with (
        Client(wire.url, model="m", headers=headers) as client,
        pytest.raises(errors.ServerError, match="application/json and request-0001"),
    ):
        client.complete("x")


@pytest.mark.parametrize("key", ["a", "key"])
def test_a_short_key_does_not_garble_a_message(wire, key):
    wire.on(failure(400, "there was a problem"), path=COMPLETIONS)
    wire.on(failure(401, "which key, monkey?"), model="refused")
    with Client(wire.url, api_key=key, model="m") as client:
        with pytest.raises(errors.ServerError, match="there was a problem"):
            client.complete("x")
        with pytest.raises(errors.AuthenticationError) as caught:
            client.complete("x", model="refused")
    assert "[[" not in str(caught.value) and "monkey" in str(caught.value)


def test_a_client_is_not_pickled_or_copied_for_it_holds_a_key():
    client = Client("http://h", api_key=KEY)
    for one in (client, client._peer, client._peer.http, client._peer.http.mask):
        with pytest.raises(TypeError, match="holds a key"):
            pickle.dumps(one)
        with pytest.raises(TypeError, match="holds a key"):
            copy.deepcopy(one)
    assert KEY not in repr(vars(client._peer.http.mask))


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": 5},
        {"api_key": 5},
        {"api_key": KEY.encode()},
        {"headers": [("a", KEY)]},
        {"headers": {5: KEY}},
        {"headers": {"X-A": None, "x-b": KEY}},
        {"organization": 5},
        {"model": 5},
        {"max_retries": "2"},
        {"max_retries": None},
    ],
    ids=repr,
)
def test_a_wrong_type_is_named_in_one_line_without_its_value(wrong):
    with pytest.raises(errors.ConfigurationError, match=next(iter(wrong))) as caught:
        Client(**{"base_url": "http://h", "api_key": KEY} | wrong)
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\nX", f"{KEY[:9]}\r\n{KEY[9:]}", "schlüssel-1234567890", "a\x00b"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(key):
    with pytest.raises(errors.ConfigurationError, match="api_key") as caught:
        Client("http://h", api_key=key)
    assert key not in str(caught.value) and KEY not in str(caught.value)


def test_space_around_a_key_is_no_part_of_it(wire):
    route = wire.on(OK)
    with Client(wire.url, api_key=f" {KEY}\n", model="m") as client:
        client.complete("x")
    assert route.requests.at(0).headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("call", [Client, connect])
@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "odd"},
        {"base_url": KEY},
        {"base_url": f"http://{KEY}@h"},
        {"headers": {"x": "a\nb"}},
        {"headers": {"x": None}},
    ],
)
def test_no_frame_of_a_refusal_shows_the_key(call, wrong):
    with pytest.raises(errors.ConfigurationError) as caught:
        headers = {"x-other": KEY} | wrong.get("headers", {})
        call(wrong.get("base_url", "http://h"), api_key=KEY, headers=headers)
    frames = [dict(entry.frame.f_locals, self=None) for entry in caught.traceback[1:]]  # a client half made
    assert frames and KEY not in repr(frames)


def test_a_key_in_the_place_of_the_address_is_refused():
    with pytest.raises(errors.ConfigurationError) as caught:
        Client(KEY)
    assert KEY not in str(caught.value)


# --- what is refused before it is sent ---


def test_what_cannot_be_asked_is_not_sent(wire, client):
    for ask in (client.complete, client.stream):
        with pytest.raises(errors.InvalidRequestError, match="did you mean temperature"):
            ask("x", temprature=1)
        with pytest.raises(errors.InvalidRequestError, match="temperature=3"):
            ask("x", temperature=3)
    assert not wire.requests


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "\ud800"])
def test_what_is_no_json_is_not_sent(wire, client, value):
    with pytest.raises(errors.InvalidRequestError, match="extra"):
        client.stream("x", extra={"odd": value})
    assert not wire.requests


# --- the model ---


def test_the_request_s_model_comes_before_the_client_s_before_the_server_s_first(wire):
    route = wire.on(OK)
    listed = wire.on(models("first", "second"), path=MODELS)
    with Client(wire.url, model="mine") as client:
        client.complete("x", model="asked")
        client.complete("x")
    with Client(wire.url) as client:
        client.complete("x")
        client.complete("x")
    assert [seen.model for seen in route.requests] == ["asked", "mine", "first", "first"]
    assert len(listed.requests) == 1


@pytest.mark.parametrize(
    "script", [failure(404, "no such path"), failure(501, "no"), models(), whole([]), whole("odd")]
)
def test_a_server_that_lists_no_models_is_asked_without_one(wire, script):
    route = wire.on(OK)
    wire.on(script, path=MODELS)
    with Client(wire.url) as client:
        assert client.complete("x").text == "ok"
    assert route.requests.at(0).model is None


def test_a_server_that_refuses_its_list_for_want_of_a_key_is_not_asked_further(wire):
    route = wire.on(OK)
    wire.on(failure(401, "no key"), path=MODELS)
    with Client(wire.url) as client, pytest.raises(errors.AuthenticationError, match="no key was sent"):
        client.complete("x")
    assert not route.requests


def test_models_are_listed(wire, client):
    wire.on(models("a", "b"), whole([{"id": "c"}, {"id": 5}, "odd"]), path=MODELS)
    assert client.models() == ["a", "b"] and client.models() == ["c"]


def test_errors_of_a_question_are_ours(wire, client):
    wire.on(failure(401, f"Incorrect API key provided: {KEY}."), failure(503, "loading"), path=MODELS)
    with pytest.raises(errors.AuthenticationError) as caught:
        client.models()
    assert KEY not in str(caught.value) and caught.value.__context__ is None
    with pytest.raises(errors.ServerError, match="loading"):
        client.models()


def test_a_question_has_time_limits_and_can_be_interrupted(wire, client):
    interrupt = Call(_thread.interrupt_main)
    route = wire.on(raw(Stall()), raw(interrupt, Stall()), path=MODELS)
    client.timeout = 0.2
    with pytest.raises(errors.TimeLimitError):
        client.models()
    client.timeout = None
    with pytest.raises(errors.Interrupted):
        client.models()
    assert all(seen.closed.wait(LIMIT) for seen in route.requests)


# --- the kind of server ---


def test_the_kind_is_learnt_from_the_answers_that_come_anyway(wire):
    wire.on(whole(completion("ok"), server="llama.cpp"))
    with Client(wire.url, model="m") as client:
        assert client.server.kind == "unknown" and client.complete("x").server.kind == "llama.cpp"
        assert client.limits["logprobs"].maximum == 1000
    wire.on(models("a", owner="vllm"), path=MODELS)
    with Client(wire.url) as client:
        answered = client.complete("x")
        assert answered.server.kind == "vllm" and answered.sent["return_token_ids"] is True


def test_a_server_is_asked_what_it_is_only_where_that_decides(wire):
    route = wire.on(models("a", owner="vllm"), path=MODELS)
    with Client(wire.url, model="m") as client:
        with pytest.raises(errors.InvalidRequestError):
            client.request("x", temperature=3)
        assert not route.requests
        assert client.request("x", logprobs=20).logprobs == 20
        with pytest.raises(errors.InvalidRequestError, match="from 0 to 20"):
            client.request("x", logprobs=21)
    assert len(route.requests) == 1


def test_a_server_that_does_not_tell_has_the_contract_s_limits(wire, client):
    with pytest.raises(errors.InvalidRequestError, match="from 0 to 5"):
        client.request("x", logprobs=20)


def test_openai_is_known_by_its_address_and_is_asked_for_its_completions_model():
    client = Client("https://api.openai.com/v1", api_key="x")
    assert client.server.kind == "openai" and client.limits == {}


# --- streams ---


def test_stream_options_are_a_stream_s_own_unless_it_cannot_be_one(wire, client):
    options = {"include_usage": False}
    assert client.stream_request("x", stream_options=options).stream is True
    assert client.stream_request(Request("x", n=2, best_of=2), stream_options=options).stream is True
    assert client.stream_request("x").stream is None
    for asked in ("x", Request("x", best_of=2)):
        with pytest.raises(errors.InvalidRequestError, match="leave stream_options out") as caught:
            client.stream(asked, best_of=3, stream_options=options)
        assert caught.value.parameter == "stream_options"
    with pytest.raises(errors.InvalidRequestError, match="stream_options"):
        client.stream("x", stream=False, stream_options=options)
    assert not wire.requests


# --- tokens ---


def test_text_is_tokenized_at_the_server_s_root(wire, client):
    route = wire.on(whole({"tokens": [1, 2], "count": 2}), path="/tokenize")
    assert client.tokenize("ab") == [1, 2] and route.requests.at(0).json == {"prompt": "ab"}


def test_llama_cpp_takes_the_text_by_another_name(wire, client):
    wire.on(whole(completion("ok"), server="llama.cpp"))
    client.complete("x")
    route = wire.on(whole({"tokens": [3]}), path="/tokenize")
    assert client.tokenize("ab") == [3] and route.requests.at(0).json == {"content": "ab"}


@pytest.mark.parametrize(
    "script",
    [
        failure(404, "no"),
        failure(405, "no"),
        whole({"tokens": []}),
        whole({"tokens": ["a"]}),
        whole([]),
        whole("odd"),
    ],
)
def test_a_server_that_cannot_tokenize_gives_none(wire, client, script):
    wire.on(script, path="/tokenize")
    assert client.tokenize("ab") is None


# --- the embedded model ---


def test_the_embedded_model_is_the_server_where_none_is_named():
    with Client() as client:
        answered = client.complete("The capital of France is", temperature=0, max_tokens=2, logprobs=1)
        assert answered.text == " Paris." and answered.server == Server("local", "local")
        assert (
            len(answered.choices[0].token_ids) == 2
            and answered.fidelity == ()
            and "model" not in answered.sent
        )
        with client.stream("The capital of France is", temperature=0, max_tokens=2, logprobs=1) as running:
            assert [chunk.choices[0].text for chunk in running if chunk.choices] == [" Paris", "."]
        assert running.completion.choices == answered.choices and running.completion.usage == answered.usage
        assert client.models() == client.known_models and client.tokenize(" Paris") == [7042]


def test_the_embedded_model_has_no_time_limits_unless_some_are_set():
    client = Client()
    assert client.timeout == Limits(None, None, None, None)
    client.timeout = 5
    assert client.timeout == Limits(total=5)
    client.timeout = None
    assert client.timeout.first_token is None and Client("http://h").timeout == Limits()


def test_the_embedded_model_can_be_stopped():
    with Client() as client, client.stream("Once upon a time", max_tokens=1000, seed=1) as running:
        next(iter(running))
        running.close()
        partial = running.completion
        assert partial.text and partial.incomplete == "stopped"
        assert client.complete("Once", max_tokens=1).incomplete is None


@pytest.fixture
def loading(monkeypatch):
    """A model that waits, half loaded, with a notice; the test lets it go on."""
    go_on = threading.Event()

    def load(path, notify, wanted):
        notify("preparing the model once")
        assert go_on.wait(LIMIT)
        return Service(None, None, "half")

    monkeypatch.setattr(service, "load", load)
    monkeypatch.setattr(transport, "_models", transport.Models())
    yield go_on
    go_on.set()


def test_what_the_embedded_model_says_while_it_is_loaded_is_the_status(loading, capsys):
    with Client() as client:
        running = client.stream("x")
        for _ in range(int(LIMIT / 0.01)):
            if "preparing" in running.status:
                break
            running.wait(0.01)
        assert running.status.startswith("preparing the model once, ")
        loading.set()
        assert client.models() == ["half"] and client._peer.notice == ""
    assert capsys.readouterr().err == "oai_nb: preparing the model once\n"


@pytest.mark.parametrize("call", ["complete", "iterate", "models"])
def test_in_a_kernel_it_is_told_in_the_thread_that_waits(loading, monkeypatch, call):
    told = []

    def say(line):
        told.append((line, threading.current_thread()))
        loading.set()

    monkeypatch.setattr(peer, "_in_kernel", lambda: True)
    monkeypatch.setattr(weights, "say", say)
    with Client() as client, contextlib.suppress(errors.BrokenStreamError):  # half a model has no answer
        calls = {"complete": lambda: client.complete("x"), "iterate": lambda: list(client.stream("x"))}
        calls.get(call, client.models)()
    assert told[0] == ("preparing the model once", threading.main_thread())


# --- errors ---


def test_an_error_says_where_it_was_asked_when_there_is_nothing(wire, client):
    wire.on(failure(404, "no such model"))
    with pytest.raises(errors.NotFoundError, match=f"no such model.*{wire.url}/completions") as caught:
        client.complete("x")
    assert caught.value.status == 404


def test_a_redirect_says_where_to(wire, client):
    wire.on(answer(308, "text/html", "", location="https://elsewhere/v1/completions?x"))
    with pytest.raises(errors.ServerError, match=r"308.*moved to https://elsewhere/v1/completions$"):
        client.complete("x")


@pytest.mark.parametrize("status", [301, 304])
def test_a_redirect_to_nowhere_is_an_error_like_others(wire, client, status):
    wire.on(answer(status, "text/html", ""))
    with pytest.raises(errors.ServerError, match=str(status)) as caught:
        client.complete("x")
    assert "moved to" not in str(caught.value) and caught.value.status == status


def test_json_without_a_floor_is_no_error_of_python(wire, client, monkeypatch):
    wire.on(whole("[" * 100_000 + "]" * 100_000), path=MODELS)
    assert client.models() == []
    wire.on(answer(400, "application/json", "[" * 100_000))
    with pytest.raises(errors.ServerError, match="400"):
        client.complete("x")
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(errors.InvalidRequestError, match="extra cannot be sent"):
        client.complete("x", extra={"deep": deep})


@pytest.mark.parametrize("call", ["models", "complete"])
def test_an_error_that_nobody_expected_is_ours_and_shows_no_key(wire, monkeypatch, call):
    async def fail(*_):
        raise RecursionError(f"too deep for {KEY}")

    with Client(wire.url, api_key=KEY) as client:
        monkeypatch.setattr(client._peer.http, "fetch", fail)
        with pytest.raises(errors.BrokenStreamError, match=r"RecursionError: too deep for \[key\]") as caught:
            getattr(client, call)(*["x"] * (call == "complete"))
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_wrong_key_says_so(wire):
    wire.on(failure(401, "no"))
    with (
        Client(wire.url, api_key=KEY, model="m") as client,
        pytest.raises(errors.AuthenticationError, match="check"),
    ):
        client.complete("x")


def test_an_endless_error_is_read_only_so_far(wire, client):
    head = b"HTTP/1.1 500 Oops\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    route = wire.on(raw(head, Forever(b"why " * 1000, per_second=1e9)))
    with pytest.raises(errors.ServerError, match="500: why"):
        client.complete("x")
    assert route.requests.at(0).closed.wait(LIMIT)


# --- its life ---


def test_closing_stops_what_runs_and_refuses_what_comes(wire):
    route = wire.on(stream(event("a"), Stall()))
    client = Client(wire.url, model="m")
    running = client.stream("x")
    seen = route.requests.at(0)
    client.close()
    client.close()
    assert seen.closed.wait(LIMIT) and running.completion.incomplete == "the client was closed"
    for call in (lambda: client.complete("x"), client.models, lambda: client.stream("x")):
        with pytest.raises(errors.ConfigurationError, match="closed"):
            call()


def test_a_client_that_nobody_holds_lives_as_long_as_its_streams_and_then_lets_go(wire):
    route = wire.on(stream(event("a"), event("b", finish_reason="stop"), Stall()))
    running = Client(wire.url, model="m").stream("x")
    seen = route.requests.at(0)
    gc.collect()
    chunks = iter(running)
    assert [next(chunks).choices[0].text, next(chunks).choices[0].text] == ["a", "b"]
    assert not seen.closed.is_set()
    del running, chunks
    gc.collect()
    assert seen.closed.wait(LIMIT)


def test_many_requests_run_at_once(wire, client):
    """More than httpx's own limit of 100 connections."""
    route = wire.on(stream(event("a"), Stall()))
    for _ in range(150):
        client.stream("x")
    assert route.requests.at(149).json["prompt"] == "x"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads is what is tested
def test_a_client_works_on_in_a_child(wire, client):
    wire.on(OK)
    assert client.complete("x").text == "ok"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, client.complete("y").text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ok"
    os.waitpid(child, 0)
    assert client.complete("z").text == "ok"


def test_a_client_is_named_by_what_is_known_of_its_server():
    assert repr(Client()) == "<Client local>" and repr(Client(model="m")) == "<Client local, model='m'>"
    assert repr(Client("http://h")) == "<Client http://h/v1>"
    openai = Client("https://api.openai.com", model="m")
    assert repr(openai) == "<Client https://api.openai.com/v1 (openai), model='m'>"


@pytest.mark.parametrize("name", ["complete", "stream", "request", "stream_request"])
def test_the_signatures_show_every_parameter(name):
    shown = inspect.signature(getattr(Client("http://h"), name)).parameters
    assert list(shown) == ["prompt_or_request", *(p for p in PARAMETERS if p != "prompt"), "extra"]
    assert (
        shown["temperature"].default is None and shown["temperature"].kind is inspect.Parameter.KEYWORD_ONLY
    )
