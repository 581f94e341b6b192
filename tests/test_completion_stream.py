"""A running request: what it is at any moment, how it ends, and that it can be stopped in every phase."""

import _thread
import asyncio
import json
import signal
import socket
import threading
import time

import pytest
from by_hand import take_request
from wire import (
    DONE,
    KEY,
    LIMIT,
    Call,
    Forever,
    Reset,
    Stall,
    Wait,
    answer,
    chunked,
    completion,
    event,
    failure,
    logprobs,
    raw,
    stream,
    whole,
)

from oai_nb import Client, errors, loop
from oai_nb.deadline import Limits

END = event("lo", finish_reason="stop")
OK = stream(event("Hel"), END, DONE)
NO_WAIT = {"retry_after_ms": 1}


@pytest.fixture
def client(wire):
    with Client(wire.url, model="m", api_key=KEY) as client:
        yield client


def until(stream, state):
    """Wait for a state that the stream passes through."""
    limit = time.monotonic() + LIMIT
    while stream.state != state:
        assert not stream.wait(0.001) and time.monotonic() < limit, stream.state
    return stream


def nothing_runs():
    """Wait until no task is left in the loop."""

    async def idle():
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    loop.submit(idle()).result(LIMIT)
    return True


# --- what it is ---


def test_a_stream_goes_through_its_states_and_says_so(wire, client):
    head, text = Wait(), Wait()
    wire.on(raw(head, OK.head, text, *OK.steps))
    stream = client.stream("x")
    assert until(stream, "waiting").status.startswith("waiting for the first token")
    assert not stream.done and stream.completion.incomplete == "still running"
    head.set()
    assert stream.state == "waiting"
    text.set()
    assert stream.wait(LIMIT) and (stream.state, stream.error, stream.count) == ("done", None, 2)
    assert stream.status.startswith("done in ") and stream.texts == {0: "Hello"}


def test_what_has_come_can_be_looked_at_while_it_comes(wire, client):
    gate = Wait()
    wire.on(stream(event("A", 0), event("x", 1), event("B", 0), gate, event("y", 1), DONE))
    running = client.stream("x", n=2)
    while running.count < 3:
        assert not running.wait(0.001)
    assert running.state == "streaming" and running.status.startswith("3 chunks")
    assert running.texts == {0: "AB", 1: "x"} and running.completion.texts == ["AB", "x"]
    gate.set()
    assert running.result().texts == ["AB", "xy"]


def test_the_whole_is_said_of_an_answer(wire, client):
    route = wire.on(OK)
    completion = client.stream("x", temperature=0.5).result()
    assert completion.sent == route.requests.at(0).json and completion.sent["stream"] is True
    assert (
        completion.request.temperature == 0.5 and completion.incomplete is None and completion.fidelity == ()
    )
    assert (completion.server.kind, completion.server.base_url) == ("unknown", wire.url)
    timing = completion.timing
    assert 0 < timing.first_token <= timing.total and time.time() - timing.started < LIMIT


def test_a_snapshot_is_whole_in_itself_while_the_fold_goes_on(wire, client):
    piece = b"".join(
        event(text, index, logprobs=logprobs([text], [-1.0], [{text: -1.0}]))
        for index, text in enumerate("ab")
    )
    wire.on(stream(Forever(piece, per_second=5000)))
    with client.stream("x", n=2, logprobs=1) as running:
        seen = 0
        while seen < 500:
            for choice in running.completion.choices:
                columns = choice.logprobs
                assert choice.text == "".join(columns.tokens)
                assert len(columns.tokens) == len(columns.token_logprobs) == len(columns.top_logprobs)
                seen = len(columns.tokens)


def test_a_stream_is_iterated_as_it_comes_again_and_from_other_threads(wire, client):
    gate = Wait()
    wire.on(stream(event("Hel"), gate, END, DONE))
    running, elsewhere = client.stream("x"), []
    thread = threading.Thread(target=lambda: elsewhere.extend(running))
    thread.start()
    chunks = iter(running)
    first = next(chunks)
    assert first.choices[0].text == "Hel" and not running.done
    gate.set()
    whole = [first, *chunks]
    thread.join(LIMIT)
    assert whole == elsewhere == list(running) and [c.choices[0].text for c in whole] == ["Hel", "lo"]


def test_pieces_that_come_together_are_not_lost_when_the_connection_breaks_with_them(wire, client):
    wire.on(chunked(b"".join([event("Hel"), event("lo")]), event("!"), Reset()))
    running = client.stream("x")
    assert running.wait(LIMIT) and running.state == "failed"
    assert running.completion.text in ("Hello", "Hello!") and running.completion.incomplete == running.status


def test_an_answer_that_was_whole_stays_so_when_the_connection_breaks_after_it(wire, client):
    wire.on(stream(event("Hel"), END, Reset()))
    assert client.stream("x").result().incomplete is None


def test_a_server_that_does_not_hang_up_after_its_last_word_is_not_waited_for(wire, client):
    route = wire.on(stream(event("Hel"), END, DONE, Stall()))
    assert client.stream("x").result().text == "Hello"
    assert route.requests.at(0).closed.wait(LIMIT)


def test_a_connection_is_used_again(wire, client):
    """The wire closes after each answer, so a server of one's own: two answers over one connection."""
    data = whole(completion("ok", finish_reason="stop"))
    reply = data.head.replace(b"connection: close\r\n", b"") + data.steps[0]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                for _ in range(2):
                    take_request(connection)
                    connection.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        with Client(f"http://127.0.0.1:{server.getsockname()[1]}", model="m") as client:
            assert client.complete("x").text == client.complete("y").text == "ok"


# --- kinds of answers ---


def test_plain_json_in_answer_to_a_stream_is_a_whole_answer(wire, client):
    wire.on(whole(completion("Hello", finish_reason="stop")))
    running = client.stream("x")
    assert [chunk.choices[0].text for chunk in running] == ["Hello"] and running.state == "done"


def test_events_in_answer_to_a_request_for_the_whole_are_folded(wire, client):
    route = wire.on(OK)
    assert client.complete("x").text == "Hello" and "stream" not in route.requests.at(0).json


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "text/plain"])
@pytest.mark.parametrize("first", [b"", b"\xef\xbb\xbf\n", b": hello\n\n", b"event: a\n"])
def test_events_are_events_whatever_they_are_called(wire, client, kind, first):
    gate = Wait()
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: " + kind.encode() + b"\r\n\r\n"
    wire.on(raw(head, first, event("Hel"), gate, END, DONE))
    running = client.stream("x")
    assert next(iter(running)).choices[0].text == "Hel"


@pytest.mark.parametrize("kind", ["text/plain", "text/event-stream"])
def test_a_whole_answer_is_one_whatever_it_is_called(wire, client, kind):
    wire.on(answer(200, kind, " " + json.dumps(completion("Hello", finish_reason="stop"))))
    assert client.stream("x").result().text == "Hello"


@pytest.mark.parametrize("cut", [0, 1])
def test_a_whole_body_under_a_length_that_is_too_large_is_an_answer(wire, client, cut):
    body = json.dumps(completion("Hello", finish_reason="stop")).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
    wire.on(raw(head, body[: len(body) - cut]))
    running = client.stream("x")
    if cut:
        with pytest.raises(errors.BrokenStreamError):
            running.result()
    else:
        assert running.result().text == "Hello"


def test_events_without_a_content_type_are_events(wire, client):
    gate = Wait()
    wire.on(raw(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", event("Hel"), gate, END, DONE))
    running = client.stream("x")
    assert next(iter(running)).choices[0].text == "Hel"


def test_an_answer_that_is_compressed_unasked_is_read(wire, client):
    import gzip

    body = gzip.compress(b"".join(OK.steps))
    wire.on(answer(200, "text/event-stream", body, content_encoding="gzip"))
    assert client.stream("x").result().text == "Hello"


def test_best_of_above_n_comes_as_a_whole_and_that_is_said(wire, client):
    route = wire.on(whole(completion("best", finish_reason="stop")))
    running = client.stream("x", best_of=3)
    (note,) = running.result().fidelity
    assert (note.sign, note.parameter) == ("changed", "stream") and "stream" not in route.requests.at(0).json


def test_a_stream_that_is_not_to_be_one_comes_as_a_whole(wire, client):
    route = wire.on(whole(completion("ok", finish_reason="stop")))
    assert client.stream("x", stream=False).result().fidelity == ()
    assert "stream" not in route.requests.at(0).json


def test_an_answer_that_nobody_could_expect_ends_the_run_at_once(wire, client):
    """JSON so deep that its reading fails in a way that is not in the books."""
    route = wire.on(stream(event("Hel"), b"data: " + b"[" * 200_000 + b"\n\n", Stall()))
    with pytest.raises(errors.BrokenStreamError) as caught:
        client.stream("x").result()
    assert caught.value.completion.text == "Hel" and route.requests.at(0).closed.wait(LIMIT)


# --- stopping ---

PHASES = {  # state, and the script that holds it there
    "waiting": raw(Stall()),
    "waiting after the head": stream(Stall()),
    "stalled": stream(event("a"), Stall()),
    "streaming": stream(Forever(event("a"), per_second=500)),
    "streaming in chunks": chunked(Forever(event("a"), per_second=500)),
    "flooded": stream(Forever(event("a" * 10_000), per_second=1e9)),
    "reading a whole": raw(whole(completion("ok")).head, b"{", Stall()),
    "reading an error": raw(failure(500, "why").head, b"{", Stall()),
}


@pytest.mark.parametrize("phase", PHASES)
def test_closing_reaches_the_server_in_every_phase(wire, client, phase):
    route = wire.on(PHASES[phase])
    running = client.stream("x", stream="whole" not in phase)
    seen = route.requests.at(0)
    if phase.startswith(("stal", "str", "fl")):
        until(running, "streaming")
    running.close()
    assert (running.state, running.done, running.error, running.status) == ("stopped", True, None, "stopped")
    assert seen.closed.wait(LIMIT) and nothing_runs()
    assert running.completion.incomplete == "stopped"


def test_closing_while_it_connects_closes_the_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        running = Client(f"https://127.0.0.1:{server.getsockname()[1]}", model="m").stream("x")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1) and running.state == "connecting"  # TLS's first word, never answered
            running.close()
            connection.settimeout(LIMIT)
            while True:
                try:
                    if not connection.recv(65536):
                        break
                except ConnectionResetError:
                    break
        assert nothing_runs()


def test_closing_while_it_waits_to_try_again_ends_the_wait(wire, client):
    route = wire.on(failure(429, "slow down", retry_after=50))
    running = until(client.stream("x"), "retrying")
    assert "429" in running.status and "slow down" in running.status and "trying again in" in running.status
    running.close()
    assert running.state == "stopped" and nothing_runs() and len(route.requests) == 1


def test_closing_before_it_began_sends_nothing(wire, client):
    running = []

    async def begin_and_close():
        running.append(client.stream("x"))
        running[0].close()

    loop.submit(begin_and_close()).result(LIMIT)
    assert nothing_runs() and running[0].state == "stopped" and not wire.requests


def test_closing_twice_or_at_the_end_changes_nothing(wire, client):
    wire.on(stream(event("a"), Stall()), OK)
    stopped = until(client.stream("x"), "streaming")
    stopped.close("first")
    stopped.close("second")
    assert stopped.completion.incomplete == "first"
    done = client.stream("x")
    assert done.result() is done.completion
    done.close()
    assert done.state == "done" and done.completion.incomplete is None


def test_nothing_comes_any_more_once_it_is_closed(wire, client):
    wire.on(stream(Forever(event("a"), per_second=2000)))
    running = until(client.stream("x"), "streaming")
    running.close()
    count, text = running.count, running.completion.text
    assert nothing_runs() and (running.count, running.texts, len(list(running))) == (count, {0: text}, count)


def test_the_end_of_a_with_block_stops_the_server(wire, client):
    route = wire.on(stream(Forever(event("a"))))
    with pytest.raises(LookupError), client.stream("x") as running:
        seen = route.requests.at(0)
        raise LookupError
    assert seen.closed.wait(LIMIT) and running.state == "stopped"


@pytest.mark.parametrize("leaving", ["break", KeyboardInterrupt, LookupError])
def test_leaving_a_loop_stops_the_server_though_the_stream_and_the_error_are_kept(wire, client, leaving):
    """Case D12: the kept traceback keeps the frame, and the frame keeps the stream."""
    route = wire.on(stream(Forever(event("a"))))
    running, kept = client.stream("x"), None
    try:
        for count, _ in enumerate(running):
            if count == 2 and leaving == "break":
                break
            if count == 2:
                raise leaving
    except (KeyboardInterrupt, LookupError) as error:
        kept = error
    assert route.requests.at(0).closed.wait(LIMIT) and (kept is None) == (leaving == "break")
    assert running.state == "stopped" and len(running.completion.text) >= 3


INTERRUPTS = {"as where nothing wakes a waiting thread": _thread.interrupt_main}  # so it is on Windows
if hasattr(signal, "pthread_kill"):
    INTERRUPTS["as the stop button does"] = lambda: signal.pthread_kill(
        threading.main_thread().ident, signal.SIGINT
    )


@pytest.mark.parametrize("how", INTERRUPTS)
@pytest.mark.parametrize("call", ["complete", "result", "iterate"])
def test_an_interrupt_stops_the_server_and_keeps_what_came(wire, client, call, how):
    def interrupt():
        (run,) = client._peer.running
        with run.changed:
            assert run.changed.wait_for(lambda: len(run.intake.events) == 2, LIMIT)
        INTERRUPTS[how]()

    route = wire.on(stream(event("Hel"), event("lo"), Call(interrupt), Stall()))
    with pytest.raises(errors.Interrupted) as caught:
        if call == "complete":
            client.complete("x", stream=True)
        elif call == "result":
            client.stream("x").result()
        else:
            list(client.stream("x"))
    assert route.requests.at(0).closed.wait(LIMIT)
    partial = caught.value.completion
    assert partial.text == "Hello" and partial.incomplete == "interrupted"
    assert caught.value.__suppress_context__ and isinstance(caught.value, KeyboardInterrupt)


# --- trying again ---


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_after_the_time_that_it_names(wire, client, status):
    route = wire.on(failure(status, "busy", **NO_WAIT), failure(status, "busy", **NO_WAIT), OK)
    assert client.stream("x").result().text == "Hello"
    assert len(route.requests) == 3 and len({seen.body for seen in route.requests}) == 1


def test_it_is_not_asked_for_ever(wire, client):
    route = wire.on(failure(429, "busy", **NO_WAIT))
    with pytest.raises(errors.RateLimitError, match="busy"):
        client.complete("x")
    assert len(route.requests) == 3


def test_a_used_up_quota_is_not_asked_again(wire, client):
    route = wire.on(failure(429, "You exceeded your current quota", code="insufficient_quota"))
    with pytest.raises(errors.RateLimitError, match="quota"):
        client.complete("x")
    assert len(route.requests) == 1


def test_a_wait_longer_than_anybody_would_is_left_to_the_user(wire, client):
    route = wire.on(failure(429, "busy", retry_after=3600))
    with pytest.raises(errors.RateLimitError, match=r"wait 3600\.0 s"):
        client.complete("x")
    assert len(route.requests) == 1


def test_a_wait_beyond_the_limit_for_the_whole_is_not_begun(wire, client):
    route = wire.on(failure(429, "busy", retry_after=50))
    client.timeout = Limits(total=40)
    with pytest.raises(errors.RateLimitError):
        client.complete("x")
    assert len(route.requests) == 1


@pytest.mark.parametrize(
    "script", [raw(Reset()), raw(), failure(500, "why"), failure(502, "why"), failure(408, "why")]
)
def test_a_request_that_the_server_may_have_begun_is_sent_once(wire, client, script):
    route = wire.on(script)
    with pytest.raises(errors.OaiNbError):
        client.complete("x")
    assert len(route.requests) == 1 and nothing_runs()


def test_a_server_that_is_not_there_yet_is_tried_again():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", model="m", max_retries=100) as client:
        running = until(client.stream("x"), "retrying")
        with socket.create_server(("127.0.0.1", port)) as server:
            connection, _ = server.accept()
            with connection:
                take_request(connection)
                connection.sendall(OK.head + b"".join(OK.steps))
            assert running.result().text == "Hello"


# --- time limits ---


@pytest.mark.parametrize(
    ("limits", "script", "phase"),
    [
        (Limits(total=0.1), raw(Stall()), "total"),
        (Limits(first_token=0.1), raw(Stall()), "first_token"),
        (Limits(first_token=0.1), stream(Stall()), "first_token"),
        (Limits(idle=0.1), stream(event("Hel"), Stall()), "idle"),
        (Limits(total=0.2), stream(Forever(event("Hel"))), "total"),
    ],
)
def test_a_limit_that_runs_out_ends_it_once_and_keeps_what_came(wire, client, limits, script, phase):
    """Case D11: one try, for the server may have begun."""
    route = wire.on(script)
    client.timeout = limits
    running = client.stream("x")
    with pytest.raises(errors.TimeLimitError) as caught:
        running.result()
    assert caught.value.phase == phase and f"{caught.value.seconds:g} s" in str(caught.value)
    assert len(route.requests) <= 1 and all(seen.closed.wait(LIMIT) for seen in route.requests)
    assert caught.value.completion.text == "Hel" * running.count


def test_the_limit_for_connecting_covers_tls():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        with (
            Client(url, model="m", timeout=Limits(connect=0.1)) as client,
            pytest.raises(errors.TimeLimitError) as caught,
        ):
            client.complete("x")
    assert caught.value.phase == "connect"


def test_a_ping_is_an_answer_that_has_begun(wire, client):
    wire.on(stream(b": ping\n\n", Stall()))
    client.timeout = Limits(first_token=LIMIT, idle=0.1)
    with pytest.raises(errors.TimeLimitError) as caught:
        client.stream("x").result()
    assert caught.value.phase == "idle"


# --- what must not be seen ---


@pytest.mark.parametrize(
    "script",
    [failure(401, f"Incorrect API key provided: {KEY}."), stream(event("a"), Reset()), raw(Reset())],
)
def test_no_frame_and_no_error_behind_an_error_holds_the_key(wire, client, script):
    wire.on(script)
    with pytest.raises(errors.OaiNbError) as caught:
        client.complete("x", stream=True)
    error = caught.value
    assert KEY not in f"{error} {error!r} {vars(error)} {error.completion!r}"
    assert error.__cause__ is None and error.__context__ is None
    frames = [entry.frame.f_locals for entry in caught.traceback[1:]]
    assert frames and KEY not in repr(frames)
