"""The testing ground itself: the scripted server and the shell do what tests rely on."""

import builtins
import json
import os
import re
import socket
import struct
import sys
import threading

import httpx
import pytest
from IPython import get_ipython
from wire import (
    CASES,
    COMPLETIONS,
    DONE,
    EVENTS,
    KEY,
    LIMIT,
    Call,
    Close,
    Forever,
    Reset,
    Stall,
    Wait,
    Wire,
    answer,
    chunked,
    completion,
    event,
    failure,
    raw,
    stream,
    whole,
)


def connect(wire):
    return socket.create_connection(("127.0.0.1", wire.port), timeout=LIMIT)


def ask(wire, body=b'{"model":"m","prompt":"x"}', path=COMPLETIONS):
    """Send a request by hand and leave the answer unread."""
    connection = connect(wire)
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\nX-Odd: a: b\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def read(connection):
    """Read to the end; say whether it was a reset."""
    data = b""
    with connection:
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                return data, True
            if not piece:
                return data, False
            data += piece


@pytest.fixture
def http():
    with httpx.Client(trust_env=False, timeout=LIMIT) as client:
        yield client


def test_a_stream_is_sent_byte_for_byte_and_ends_with_the_connection(wire):
    wire.on(stream(event("a\u2028b"), b"data: odd\r\r\n", DONE))
    assert read(ask(wire)) == (EVENTS + event("a\u2028b") + b"data: odd\r\r\n" + DONE, False)


def test_a_chunked_answer_has_one_chunk_for_each_piece_and_ends(wire, http):
    wire.on(chunked(b"ab", b"c"))
    assert read(ask(wire))[0].endswith(b"\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert http.post(wire.url + "/completions", json={}).content == b"abc"


def test_close_leaves_out_the_final_chunk(wire, http):
    wire.on(chunked(event("Hel"), Close()))
    with pytest.raises(httpx.RemoteProtocolError):
        http.post(wire.url + "/completions", json={})
    data, reset = read(ask(wire))
    assert data.endswith(event("Hel") + b"\r\n") and not reset


def test_reset_breaks_the_connection_after_what_was_sent(wire):
    wire.on(stream(event("Hel"), Reset()), raw(Reset()))
    assert read(ask(wire)) == (EVENTS + event("Hel"), True)
    assert read(ask(wire)) == (b"", True)


def test_the_request_is_recorded(wire):
    route = wire.on(whole({}))
    read(ask(wire, b'{"prompt": "\\u00e9"}'))
    seen = route.requests.at(0)
    assert (seen.method, seen.path, seen.headers["x-odd"]) == ("POST", COMPLETIONS, "a: b")
    assert seen.body == b'{"prompt": "\\u00e9"}' and seen.json == {"prompt": "é"} and seen.model is None
    assert seen.ended.wait(LIMIT) and not seen.closed.is_set() and seen.closed_at is None
    read(ask(wire, b"not json"))
    assert route.requests.at(1).json is None


def test_attempts_have_their_own_scripts_and_the_last_one_stays(wire, http):
    route = wire.on(failure(429, "slow down", retry_after=2), failure(503, "busy"), whole(completion("ok")))
    answers = [http.post(wire.url + "/completions", json={}) for _ in range(4)]
    assert [a.status_code for a in answers] == [429, 503, 200, 200]
    assert answers[0].headers["retry-after"] == "2" and answers[0].json()["error"]["message"] == "slow down"
    assert answers[3].json()["choices"][0]["text"] == "ok" and len(route.requests) == 4


def test_scripts_are_chosen_by_model_and_by_the_beginning_of_the_path(wire, http):
    wire.on(whole("any"))
    wire.on(whole("b"), model="b")
    wire.on(whole("models"), path="/v1/models")
    assert http.post(wire.url + "/completions", json={"model": "a"}).text == "any"
    assert http.post(wire.url + "/completions", json={"model": "b"}).text == "b"
    assert http.get(wire.url + "/models/x?y").text == "models"
    assert http.get(wire.root + "/other").status_code == 404
    assert [seen.method for seen in wire.requests] == ["POST", "POST", "GET", "GET"]


def test_a_gate_holds_the_answer_until_the_test_opens_it(wire, http):
    gate = Wait()
    route = wire.on(stream(event("a"), gate, event("b")))
    with http.stream("POST", wire.url + "/completions", json={}) as response:
        pieces = response.iter_raw()
        assert next(pieces) == event("a")
        assert route.requests.at(0).sent == 1
        gate.set()
        assert b"".join(pieces) == event("b")
    gate.set()
    assert http.post(wire.url + "/completions", json={}).content == event("a") + event("b")


PHASES = {  # script, and what the client has read when it leaves
    "before the head": (raw(Stall()), b""),
    "after the head": (stream(Stall()), EVENTS),
    "stalled": (stream(event("a"), Stall()), event("a")),
    "at a gate": (stream(event("a"), Wait(), event("b")), event("a")),
    "streaming": (stream(Forever(event("a"), per_second=500)), event("a")),
    "in chunks": (chunked(Forever(event("a"), per_second=500)), event("a")),
    "flooded": (stream(Forever(b"x" * 65536, per_second=1e9)), b"xx"),
}


def read_until(connection, text):
    data = b""
    while text not in data:
        data += connection.recv(65536)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_the_server_sees_the_client_leave_in_every_phase(wire, phase, how):
    script, text = PHASES[phase]
    route = wire.on(script)
    connection = ask(wire)
    seen = route.requests.at(0)
    read_until(connection, text)
    assert not seen.closed.is_set()
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert seen.closed.wait(LIMIT) and seen.ended.wait(LIMIT) and seen.closed_at > seen.arrived_at
    sent = {"before the head": 0, "after the head": 0, "stalled": 1, "at a gate": 1}
    assert seen.sent == sent.get(phase, seen.sent)


def test_a_step_can_call_the_test(wire):
    called = threading.Event()
    wire.on(stream(event("a"), Call(called.set), DONE))
    assert read(ask(wire))[0].endswith(DONE) and called.is_set()


def test_a_client_that_never_asks_does_no_harm(wire):
    wire.on(whole("ok"))
    connect(wire).close()
    half = connect(wire)
    half.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc")
    half.close()
    assert read(ask(wire))[0].endswith(b"ok")
    assert len(wire.requests) == 1


def test_stopping_does_not_wait_for_answers_under_way():
    with Wire() as wire:
        wire.on(*(script for script, _ in PHASES.values()))
        open_ones = [ask(wire) for _ in PHASES]
        wire.requests.at(len(PHASES) - 1)
    for connection in open_ones:
        read(connection)


def test_a_script_that_cannot_be_played_is_told_to_the_test():
    with pytest.raises(ExceptionGroup, match="could not be played"), Wire() as wire:
        wire.on(stream("text"))
        read(ask(wire))


def test_waiting_for_a_request_that_does_not_come_fails(wire):
    with pytest.raises(AssertionError, match=r"waited 0 s for request 0; 0 came"):
        wire.requests.at(0, limit=0)


def test_an_answer_has_its_length_and_any_header():
    head = answer(502, "text/html", "é", retry_after_ms=5, content_length=9).head
    assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n") and b"retry-after-ms: 5\r\n" in head
    assert b"content-length: 9\r\n" in head


# --- the cases ---


def choices_of(case, body):
    """Decode by hand, by another road than the client's."""
    if not case.streamed:
        return json.loads(body).get("choices", [])
    data = re.findall(rb"^data: ?(\{.*?)\r?$", body, re.MULTILINE)
    return [choice for line in data for choice in json.loads(line).get("choices", [])]


@pytest.mark.parametrize("name", CASES)
def test_the_bytes_of_a_case_hold_its_text(wire, name):
    case = CASES[name]
    wire.on(case.script)
    head, _, body = read(ask(wire))[0].partition(b"\r\n\r\n")
    if case.script.chunked:
        body = b"".join(step for step in case.script.steps if isinstance(step, bytes))
    if case.error and not case.streamed:
        assert case.error.encode() in head + body and not case.texts
        return
    texts, reasons = [""] * len(case.texts), [None] * len(case.texts)
    for choice in choices_of(case, body):
        texts[choice["index"]] += choice["text"]
        reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    assert (tuple(texts), tuple(reasons)) == (case.texts, case.finish_reasons)
    assert case.incomplete == (case.error is not None)


def test_the_odd_bytes_of_the_cases_are_there():
    def bytes_of(name):
        return b"".join(CASES[name].script.steps)

    assert "\u2028".encode() in bytes_of("D01-line-separator") and KEY.encode() in bytes_of(
        "D09-key-in-the-401"
    )
    assert b"-Infinity" in bytes_of("D16-infinity") and b"NaN" in bytes_of("D16-infinity-in-a-stream")
    assert bytes_of("D02-crlf").count(b"\r\n\r\n") == 3 and b"data: " not in bytes_of("D02-no-space")


# --- the shell ---


def test_the_shell_keeps_displays_updates_and_results_in_order(shell):
    ran = shell.run("print('out'); h = display('a', display_id='one'); display('b'); h.update('c'); 40 + 2")
    assert [(o.kind, o.display_id, o.text) for o in ran.outputs] == [
        ("display_data", "one", "'a'"),
        ("display_data", None, "'b'"),
        ("update_display_data", "one", "'c'"),
        ("execute_result", None, "42"),
    ]
    assert [o.text for o in ran.screen] == ["'c'", "'b'", "42"]
    assert (ran.stdout, ran.stderr, ran.error, ran.result) == ("out\n", "", None, 42)
    assert shell.run("from IPython.display import clear_output; display(1); clear_output()").screen == []
    assert shell.user_ns["_"] == 42 and len(shell.outputs) == 6


def test_the_shell_keeps_errors_as_they_are_drawn(shell):
    drawn = "class E(Exception):\n    def _render_traceback_(self): return ['one line']\nraise E('why')"
    error = shell.run(drawn).error
    assert (error.name, error.value, error.lines) == ("E", "why", ["one line"])
    usage = shell.run("%timeit --bogus")
    assert usage.error.name == "UsageError" and "bogus" in usage.stderr
    assert shell.run("1 +").error.name == "SyntaxError"
    assert shell.run("1").error is None


def test_the_stop_button_is_pressed_when_a_text_is_shown(shell):
    ran = shell.run("h = display('a', display_id=True)\nwhile True: h.update('b')", stop_at="b")
    assert ran.error.name == "KeyboardInterrupt" and ran.screen[0].text == "'b'"
    with pytest.raises(AssertionError, match="'c' was never shown"):
        shell.run("display('d')", stop_at="c")


def test_shells_leave_nothing_behind(shell):
    assert get_ipython() is shell.ip
    shell.run("1 / 0")
    shell.__exit__()
    assert get_ipython() is None and not hasattr(builtins, "__IPYTHON__") and not hasattr(sys, "last_value")
    shell.__enter__()
    assert shell.user_ns.get("_") != 42


def test_the_user_s_settings_are_out_of_reach():
    assert not [name for name in os.environ if name.startswith("OPENAI_") or name.lower().endswith("_proxy")]
    assert "OAI_NB_DISPLAY" not in os.environ
