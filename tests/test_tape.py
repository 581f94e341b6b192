"""Recording and replaying: what a class sees again, what is in the file, and what is said where it is not."""

import gzip
import itertools
import json
import math
import os
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import wire as scripts
from hypothesis import given
from hypothesis import strategies as st
from wire import (
    CASES,
    DONE,
    KEY,
    LIMIT,
    Forever,
    Stall,
    Wait,
    answer,
    chunked,
    completion,
    event,
    failure,
    raw,
    stream,
    whole,
)

import oai_nb
from oai_nb import Client, deck, errors, recording
from oai_nb.exchange import HEAD
from oai_nb.http import FOREIGN
from oai_nb.keys import Mask

END = event("lo", finish_reason="stop")
OK = stream(event("Hel"), END, DONE)
WHOLE = whole(completion("Hello", finish_reason="stop"))


@pytest.fixture(autouse=True)
def _nothing_stays_on():
    yield
    oai_nb.record()
    oai_nb.replay()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "class.jsonl"


def lines(path):
    """Return the exchanges in a file."""
    head, *rest = path.read_bytes().split(b"\n")
    assert json.loads(head) == HEAD and rest.pop() == b""
    return [json.loads(line) for line in rest]


def note(completion):
    """Return what is said of a completion that is replayed."""
    (found,) = [note.text for note in completion.fidelity if note.text.startswith("replayed")]
    return found


def same(one, other):
    """Tell whether two completions are the same answer."""
    return one.to_dict() == other.to_dict() and one.incomplete == other.incomplete


def slow(path):
    """Let an hour pass in the only exchange of a file, behind its first piece."""
    head, text = path.read_bytes().splitlines()
    pieces = [[0.0, event("Hel").decode()], [3600.0, (END + DONE).decode()]]
    path.write_bytes(head + b"\n" + json.dumps(json.loads(text) | {"pieces": pieces}).encode() + b"\n")


class Class:
    """Record what a function asks of a server, then ask it all again with no server there."""

    def __init__(self, path, wire, **client):
        self.path, self.url, self.client = path, wire.url, {"model": "m"} | client

    def record(self, ask):
        with oai_nb.record(self.path), Client(self.url, **self.client) as client:
            return ask(client)

    def replay(self, ask, speed=math.inf, **client):
        with oai_nb.replay(self.path, speed), Client(self.url, **self.client | client) as client:
            return ask(client)


@pytest.fixture
def lesson(path, wire):
    return Class(path, wire)


def ended(ask):
    """Return what a question ends with, an answer or an error's."""
    try:
        return ask()
    except errors.OaiNbError as error:
        return error


# --- what is played is what came ---


def test_a_stream_is_streamed_again_and_says_that_it_is_replayed(wire, lesson):
    route = wire.on(OK)
    recorded = lesson.record(lambda client: client.stream("x").result())
    running = []
    replayed = lesson.replay(lambda client: running.append(client.stream("x")) or running[0].result())
    assert same(recorded, replayed) and running[0].count == 2 and len(route.requests) == 1
    day = lines(lesson.path)[0]["at"][:10]
    assert note(replayed) == f"replayed at once from class.jsonl, recorded {day}"
    assert replayed.server == recorded.server and replayed.sent == recorded.sent
    assert not recorded.fidelity


@pytest.mark.parametrize("name", CASES)
def test_every_answer_seen_in_the_wild_is_played_as_it_came(wire, lesson, name):
    case = CASES[name]
    wire.on(case.script)

    def ask(client):
        return ended(client.stream("x", n=len(case.texts) or 1, stream=case.streamed).result)

    recorded, replayed = lesson.record(ask), lesson.replay(ask)
    assert type(replayed) is type(recorded)
    if case.error is None:
        assert same(recorded, replayed)
    else:
        assert same(recorded.completion, replayed.completion) or "replayed" in str(replayed)
        assert replayed.completion.to_dict() == recorded.completion.to_dict()
        assert "replayed" in str(replayed) or "replayed" in note(replayed.completion)


def test_a_whole_answer_is_played_too_and_each_stands_in_for_the_other(wire, lesson):
    wire.on(OK, WHOLE)
    lesson.record(lambda client: (client.stream("streamed").result(), client.complete("whole")))
    assert lesson.replay(lambda client: client.complete("streamed")).text == "Hello"
    running = lesson.replay(lambda client: (one := client.stream("whole"), one.result())[0])
    assert running.completion.text == "Hello" and running.count == 1
    assert "stream" not in running.completion.sent


def test_what_came_in_the_same_way_comes_first(wire, lesson):
    wire.on(OK, whole(completion("whole", finish_reason="stop")))
    lesson.record(lambda client: (client.stream("x").result(), client.complete("x")))
    assert lesson.replay(lambda client: (client.complete("x").text, client.stream("x").result().text)) == (
        "whole",
        "Hello",
    )


def test_several_choices_with_logprobs_and_any_letters_are_played(wire, lesson):
    columns = scripts.logprobs(["日"], [-0.5], [{"日": -0.5, "\u2028": -1.5}])
    pieces = [event("日", index, logprobs=columns) for index in (0, 2, 1)]
    pieces += [event("é\u2028\x85\r\n", index, finish_reason="stop") for index in (2, 1, 0)]
    data = b"".join([*pieces, DONE])
    wire.on(stream(*(data[at : at + 7] for at in range(0, len(data), 7)), pace=0.001))

    def ask(client):
        return client.stream("Ünï\u2028\0 😀", n=3, logprobs=2).result()

    recorded, replayed = lesson.record(ask), lesson.replay(ask)
    assert recorded.texts == ["日é\u2028\x85\r\n"] * 3 and same(recorded, replayed)
    assert len(lines(lesson.path)) == 1


def test_a_file_with_windows_line_ends_and_a_byte_order_mark_is_read(wire, lesson):
    wire.on(stream(event("a\r\nb", finish_reason="stop"), DONE))
    lesson.record(lambda client: client.stream("x\r\ny").result())
    lesson.path.write_bytes(b"\xef\xbb\xbf" + lesson.path.read_bytes().replace(b"\n", b"\r\n"))
    assert lesson.replay(lambda client: client.stream("x\r\ny").result()).text == "a\r\nb"


def test_the_same_question_gets_its_answers_in_order_and_then_again(wire, lesson):
    wire.on(*(whole(completion(text, finish_reason="stop")) for text in "abc"))
    lesson.record(lambda client: [client.complete("x") for _ in range(3)])
    texts = lesson.replay(lambda client: [client.complete("x").text for _ in range(5)])
    assert texts == ["a", "b", "c", "a", "b"]


def test_questions_asked_at_once_are_answered_in_the_order_in_which_they_were_asked(wire, lesson):
    gate = Wait()
    wire.on(stream(gate, event("first", finish_reason="stop"), DONE), model="m")

    def both(client):
        first = client.stream("x")
        wire.requests.at(0)
        wire.on(stream(event("second", finish_reason="stop"), DONE))
        second = client.stream("x")
        assert second.result().text == "second"
        gate.set()
        return first.result().text

    assert lesson.record(both) == "first"
    assert ["second" in str(one["pieces"]) for one in lines(lesson.path)] == [True, False]
    assert lesson.replay(lambda client: [client.complete("x").text for _ in "ab"]) == ["first", "second"]


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_an_error_is_that_error_again_and_says_that_it_is_replayed(wire, lesson, status):
    wire.on(failure(status, "that is why"))
    recorded, replayed = (
        of(lambda client: ended(lambda: client.complete("x"))) for of in (lesson.record, lesson.replay)
    )
    assert type(replayed) is type(recorded) and replayed.status == status
    assert "that is why" in str(replayed) and "; replayed at once from class.jsonl" in str(replayed)
    assert "api_key" not in str(replayed), "advice for the one who asked then"


def test_a_server_that_was_busy_at_first_is_so_again(wire, lesson):
    wire.on(failure(429, "busy", retry_after_ms=1), OK)
    assert lesson.record(lambda client: client.complete("x").text) == "Hello"
    assert [one["status"] for one in lines(lesson.path)] == [429, 200]
    states = lesson.replay(lambda client: [client.complete("x").text, client.complete("x").text])
    assert states == ["Hello", "Hello"]
    with pytest.raises(errors.RateLimitError, match="busy; replayed"):
        lesson.replay(lambda client: client.complete("x"), max_retries=0)


def test_a_pause_that_was_too_long_to_wait_for_is_so_again(wire, lesson):
    wire.on(failure(429, "busy", retry_after=120), OK)

    def ask(client):
        return ended(lambda: client.complete("x"))

    assert isinstance(lesson.record(ask), errors.RateLimitError)
    assert "asks to wait 120.0 s" in str(lesson.replay(ask)) and len(wire.requests) == 1


def test_a_connection_that_failed_fails_again(path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with Client(url, model="m", max_retries=0) as client:
        with oai_nb.record(path), pytest.raises(errors.ConnectError):
            client.complete("x")
        with (
            oai_nb.replay(path, speed=math.inf),
            pytest.raises(
                errors.ConnectError, match=f"{url}: .*[Rr]efused.*; replayed at once from class.jsonl"
            ),
        ):
            client.complete("x")
    (one,) = lines(path)
    assert (one["status"], one["ended"], one["error"][0]) == (None, "failed", "ConnectError")


class Failing(httpx.AsyncBaseTransport):
    """Fail with one error after the other, and then answer."""

    def __init__(self, *errors):
        self.errors = list(errors)

    async def handle_async_request(self, request):
        if self.errors:
            raise self.errors.pop(0)
        return httpx.Response(200, json=completion("Hello", finish_reason="stop"))


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.__name__)
def test_every_error_of_a_transport_is_played_as_ours(path, kind):
    with Client("http://h:1", model="m", transport=Failing(kind("why")), max_retries=0) as client:

        def ask():
            return ended(lambda: client.complete("x"))

        with oai_nb.record(path):
            recorded = ask()
        with oai_nb.replay(path, math.inf):
            replayed = ask()
    assert isinstance(replayed, errors.OaiNbError) and "; replayed at once from class.jsonl" in str(replayed)
    assert type(replayed) is type(recorded) or not issubclass(kind, httpx.RequestError)


def test_a_server_that_cannot_be_trusted_is_not_asked_again_then_either(path):
    untrusted = httpx.ConnectError("certificate verify failed")
    untrusted.__cause__ = ssl.SSLError()
    with Client("https://h:1", model="m", transport=Failing(untrusted)) as client:
        for on in (oai_nb.record, oai_nb.replay):
            with on(path):
                with pytest.raises(errors.ConnectError, match="certificate verify failed"):
                    client.complete("x")
                assert client.complete("x").text == "Hello"


def test_an_error_before_anything_was_asked_is_not_recorded(path):
    failing = Failing(errors.WeightsError("no weights"), RuntimeError("odd"))
    with oai_nb.record(path), Client("http://h:1", model="m", transport=failing) as client:
        for _ in range(2):
            with pytest.raises(errors.OaiNbError):
                client.complete("x")
        assert client.complete("x").text == "Hello"
    assert len(lines(path)) == 1


def test_an_answer_that_broke_in_a_way_of_its_own_is_cut_again(path):
    class Breaking(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            async def stream():
                yield event("Hel")
                raise RuntimeError("odd")

            return httpx.Response(200, content=stream())

    with Client("http://h:1", model="m", transport=Breaking()) as client:
        for on in (oai_nb.record, oai_nb.replay):
            with on(path), pytest.raises(errors.BrokenStreamError, match="odd") as caught:
                client.stream("x").result()
            assert caught.value.completion.text == "Hel"


def test_an_answer_whose_length_was_wrong_is_whole_again(wire, lesson):
    data = whole(completion("Hello", finish_reason="stop"))
    wire.on(raw(data.head.replace(b"content-length: ", b"content-length: 9"), *data.steps))
    recorded, replayed = (of(lambda client: client.complete("x")) for of in (lesson.record, lesson.replay))
    assert same(recorded, replayed) and recorded.incomplete is None


def test_an_answer_that_came_compressed_is_kept_plain(wire, lesson):
    body = json.dumps(completion("Hello", finish_reason="stop")).encode()
    wire.on(answer(200, "application/json", gzip.compress(body), content_encoding="gzip"))
    assert lesson.record(lambda client: client.complete("x")).text == "Hello"
    assert lines(lesson.path)[0]["pieces"][0][1] == body.decode()
    assert lesson.replay(lambda client: client.complete("x")).text == "Hello"


def test_a_stream_that_was_cut_is_cut_at_the_same_place(wire, lesson):
    wire.on(chunked(event("Hel"), event("lo"), scripts.Close()))
    recorded, replayed = (
        of(lambda client: ended(client.stream("x").result)) for of in (lesson.record, lesson.replay)
    )
    assert type(replayed) is type(recorded) is errors.BrokenStreamError
    assert replayed.completion.text == "Hello" and "; replayed" in replayed.completion.incomplete


def test_a_stream_that_was_stopped_gives_what_had_come_and_says_so(wire, lesson):
    wire.on(stream(event("Hel"), event("lo"), Stall()))

    def stop(client):
        with client.stream("x") as running:
            chunks = iter(running)
            assert [next(chunks).choices[0].text for _ in range(2)] == ["Hel", "lo"]
        return running.completion

    recorded = lesson.record(stop)
    assert recorded.incomplete == "stopped" and lines(lesson.path)[0]["ended"] == "stopped"
    assert lesson.replay(stop).text == "Hello"
    with pytest.raises(errors.BrokenStreamError, match="recording of this answer stops here") as caught:
        lesson.replay(lambda client: client.stream("x").result())
    assert caught.value.completion.text == "Hello"


def test_what_was_stopped_is_not_played_where_there_is_a_whole(wire, lesson):
    wire.on(stream(event("Hel"), Stall()), OK)

    def twice(client):
        with client.stream("x") as running:
            next(iter(running))
        return client.stream("x").result().text

    assert lesson.record(twice) == "Hello"
    assert lesson.replay(lambda client: client.stream("x").result().text) == "Hello"


def test_a_server_that_does_not_hang_up_is_recorded_as_whole(wire, lesson):
    wire.on(stream(event("Hel"), END, DONE, Stall()))
    lesson.record(lambda client: client.stream("x").result())
    assert [one["ended"] for one in lines(lesson.path)] == ["whole"]


def test_what_still_runs_when_a_recording_ends_is_kept_as_far_as_it_came(wire, path):
    wire.on(stream(event("Hel"), Stall()))
    recording = oai_nb.record(path)
    with Client(wire.url, model="m") as client, client.stream("x") as running:
        chunks = iter(running)
        next(chunks)
        recording.close()
        assert [(one["ended"], len(one["pieces"])) for one in lines(path)] == [("stopped", 1)]
    assert len(lines(path)) == 1


# --- pace ---


def test_pieces_come_after_their_times_divided_by_the_speed_and_can_be_stopped(path, wire):
    """No clock is looked at: a piece that is an hour off has to be stopped, and one at once not."""
    wire.on(OK)
    lesson = Class(path, wire)
    lesson.record(lambda client: client.stream("x").result())
    slow(path)
    assert lesson.replay(lambda client: client.stream("x").result()).text == "Hello"
    assert lesson.replay(lambda client: client.stream("x").result(), speed=1e6).text == "Hello"

    def stopped(client):
        with client.stream("x") as running:
            assert next(iter(running)).choices[0].text == "Hel"
        return running.completion

    assert lesson.replay(stopped, speed=1e-3).incomplete == "stopped"


@pytest.mark.parametrize(
    ("speed", "said"), [(1, "replayed from"), (2.5, "replayed at 2.5 times the speed from")]
)
def test_the_note_says_what_the_pace_is(wire, lesson, speed, said):
    wire.on(OK)
    lesson.record(lambda client: client.complete("x"))
    assert note(lesson.replay(lambda client: client.complete("x"), speed)).startswith(said)


def test_the_seconds_of_a_replay_are_the_recorded_ones(wire, lesson):
    wire.on(OK)
    lesson.record(lambda client: client.stream("x").result())
    (exchange,) = lines(lesson.path)
    replayed = lesson.replay(lambda client: client.stream("x").result(), speed=math.inf)
    assert replayed.timing.total == exchange["seconds"]
    assert replayed.timing.first_token == exchange["pieces"][0][0] <= replayed.timing.total


@pytest.mark.parametrize("speed", [0, -1, math.nan, "2", None, True])
def test_a_speed_that_is_none_is_refused_in_one_line(wire, lesson, speed):
    wire.on(OK)
    lesson.record(lambda client: client.complete("x"))
    with pytest.raises(
        errors.ConfigurationError, match=r"speed=.* is no number above 0: 1 plays as recorded"
    ):
        oai_nb.replay(lesson.path, speed)
    assert deck.current is None


# --- which answer it is ---


def owner(name):
    return whole({"object": "list", "data": [{"id": "first", "object": "model", "owned_by": name}]})


@pytest.mark.parametrize(
    ("listed", "header", "kind"),
    [("vllm", "uvicorn", "vllm"), ("llamacpp", "llama.cpp", "llama.cpp"), ("me", "uvicorn", "unknown")],
)
@pytest.mark.parametrize("known", [False, True])
def test_what_is_sent_is_alike_whatever_was_known_of_the_server(wire, path, listed, header, kind, known):
    wire.on(owner(listed), path="/v1/models")
    wire.on(whole(completion("a", finish_reason="stop"), server=header))
    with Client(wire.url) as teacher:
        if known:
            teacher.complete("before")
        with oai_nb.record(path):
            recorded = [teacher.complete("x"), teacher.complete("y", logprobs=3)]
    count = len(wire.requests)
    with oai_nb.replay(path, math.inf), Client(wire.url) as student:
        replayed = [student.complete("x"), student.complete("y", logprobs=3)]
        assert student.models() == ["first"] and student.server.kind == kind
    assert [one.sent for one in replayed] == [one.sent for one in recorded]
    assert [one.server for one in replayed] == [one.server for one in recorded]
    assert recorded[0].sent["model"] == "first" and len(wire.requests) == count


def test_a_wider_range_that_the_teacher_s_server_has_is_the_student_s_too(wire, path):
    wire.on(owner("llamacpp"), path="/v1/models")
    wire.on(whole(completion("a", finish_reason="stop"), server="llama.cpp"))
    with oai_nb.record(path), Client(wire.url, model="m") as teacher:
        teacher.complete("x", logprobs=40)
    with oai_nb.replay(path, math.inf), Client(wire.url, model="m") as student:
        assert student.complete("x", logprobs=40).text == "a"


def test_a_list_of_models_that_is_none_tells_nothing(wire, path):
    wire.on(answer(200, "application/json", "[" * 3), path="/v1/models")
    wire.on(WHOLE)
    with oai_nb.record(path), Client(wire.url) as teacher:
        recorded = teacher.complete("x")
    with oai_nb.replay(path, math.inf), Client(wire.url) as student:
        replayed = student.complete("x")
    assert replayed.sent == recorded.sent and replayed.server == recorded.server


def test_what_is_learnt_from_a_replay_is_forgotten_after_it(wire, path):
    wire.on(owner("vllm"), path="/v1/models")
    wire.on(WHOLE)
    with Client(wire.url) as client:
        with oai_nb.record(path):
            client.complete("x")
        wire.on(owner("somebody"), path="/v1/models")
        with oai_nb.replay(path, math.inf):
            client.complete("x")
            assert client.server.kind == "vllm"
        client.complete("x")
        assert client.server.kind == "unknown"


def test_tokens_and_models_are_recorded_too(wire, path):
    wire.on(owner("vllm"), path="/v1/models")
    wire.on(whole({"tokens": [1, 2]}), path="/tokenize")

    def ask(client):
        return client.models(), client.tokenize("a b")

    with oai_nb.record(path), Client(wire.url) as client:
        asked = ask(client)
    with oai_nb.replay(path, math.inf), Client(wire.url) as client:
        assert ask(client) == asked == (["first"], [1, 2])
        with pytest.raises(errors.NotRecordedError, match=r'the prompt "a c" is not in .*; after 2'):
            client.tokenize("a c")


def test_a_default_that_is_another_server_gets_the_answers_of_the_one_in_the_file(wire, path, monkeypatch):
    wire.on(owner("vllm"), path="/v1/models")
    wire.on(OK)
    monkeypatch.setenv("OPENAI_BASE_URL", wire.url)
    with oai_nb.record(path):
        recorded = oai_nb.stream("x", logprobs=20).result()
    monkeypatch.delenv("OPENAI_BASE_URL")
    with oai_nb.replay(path, math.inf):
        replayed = oai_nb.stream("x", logprobs=20).result()
    assert replayed.server == recorded.server and replayed.sent == recorded.sent
    assert replayed.server.kind == "vllm" and note(replayed).endswith(f", where {wire.url} answered")


def test_of_several_servers_each_answers_for_itself_and_for_others_where_it_is_alone(path):
    with scripts.Wire() as one, scripts.Wire() as other:
        for wire, text in ((one, "a"), (other, "b")):
            wire.on(whole(completion(text, finish_reason="stop")))
        clients = [Client(wire.url, model="m") for wire in (one, other)]
        with oai_nb.record(path):
            for client in clients:
                client.complete("x")
            clients[0].complete("of one")
        with oai_nb.replay(path, math.inf), Client("http://elsewhere", model="m") as third:
            assert [client.complete("x").text for client in clients] == ["a", "b"]
            assert third.complete("of one").server.base_url == one.url
            with pytest.raises(errors.NotRecordedError, match="connect to one that has it"):
                third.complete("x")
            with pytest.raises(errors.NotRecordedError, match=f"this of {one.url}, and not of {other.url}"):
                clients[1].complete("of one")
        for client in clients:
            client.close()


def test_the_answers_of_a_model_are_no_other_model_s(wire, path):
    wire.on(WHOLE)
    with oai_nb.record(path), Client(wire.url, model="a") as client:
        client.complete("x")
        client.complete("y")
        client.complete("y", model="b")
    with oai_nb.replay(path, math.inf), Client(wire.url) as client:
        assert client.complete("x").sent["model"] == "a"
        with pytest.raises(errors.NotRecordedError, match="of a and b: name one"):
            client.complete("y")
        with pytest.raises(errors.NotRecordedError, match=r'model "b" is not in .*recorded: model "a"'):
            client.complete("x", model="b")


def test_defaults_that_are_spelled_out_ask_the_same(wire, lesson):
    wire.on(WHOLE)
    lesson.record(lambda client: client.complete("x"))
    asked = lesson.replay(lambda client: client.complete("x", n=1, max_tokens=16, echo=False, user="me"))
    assert asked.text == "Hello"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"temperature": 0.8},
            r"temperature 0\.8 is not in .* for this prompt; recorded: temperature 0\.7, ",
        ),
        (
            {"temperature": 0.7, "seed": 3},
            r"seed 3 is not in class.jsonl for this prompt; recorded: seed none",
        ),
        (
            {"temperature": 0.2, "seed": 3},
            r"temperature 0\.2 with seed 3 is not in .*recorded: temperature 0",
        ),
        ({"prompt": "Once again"}, r'after 5 characters .* goes on with "upon", not "again"'),
        ({"prompt": "Twice"}, r'the prompt "Twice" is not in class.jsonl; recorded: "Once upon"'),
    ],
)
def test_what_is_not_in_the_file_is_told_by_what_is_nearest(wire, lesson, asked, said):
    wire.on(WHOLE)
    lesson.record(lambda client: [client.complete("Once upon", temperature=t) for t in (0.7, 1.2)])
    with pytest.raises(errors.NotRecordedError, match=said) as caught:
        lesson.replay(lambda client: client.complete(asked.pop("prompt", "Once upon"), **asked))
    assert "\n" not in str(caught.value) and str(caught.value).endswith("or record this too")
    assert len(wire.requests) == 2, "nothing was asked of the server"


def test_a_file_without_answers_says_so(path):
    with oai_nb.record(path):
        pass
    with (
        oai_nb.replay(path),
        pytest.raises(errors.NotRecordedError, match="holds no answer to POST /v1/compl"),
    ):
        oai_nb.complete("x")


# --- the file ---


def test_the_file_says_what_it_is_and_holds_a_line_for_each_exchange(wire, lesson):
    wire.on(OK)
    lesson.record(lambda client: client.complete("Ünï"))
    (one,) = lines(lesson.path)
    assert (one["server"], one["ask"], one["status"]) == (wire.url, "POST /v1/completions", 200)
    assert one["body"]["prompt"] == "Ünï" and "Ünï".encode() in lesson.path.read_bytes()
    assert one["headers"] == {"content-type": "text/event-stream"} and one["seconds"] >= one["pieces"][-1][0]
    assert "".join(text for _, text in one["pieces"]) == b"".join(OK.steps).decode()


def test_no_key_gets_into_the_file(wire, path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-the-environment")
    other = 'canary/of+the"header'
    echoed = json.dumps({"text": KEY + other}).replace("/", "\\/").replace("+", "\\u002B")
    cut = event("Hel", key=KEY, also="canary-of-the-environment")
    at = cut.index(KEY.encode()) + 5
    wire.on(stream(cut[:at], cut[at : at + 3], cut[at + 3 :], f"event: {echoed}\n\n".encode(), END, DONE))
    wire.on(failure(401, f"Incorrect API key provided: {KEY} or short"), model="refused")
    wire.on(answer(503, "text/plain", f"Bearer {other}", server=KEY, retry_after_ms=1), model="busy")
    given = {"api_key": KEY, "headers": {"X-Other": other, "X-Short": "short"}}
    with oai_nb.record(path), Client(wire.url, model="m", max_retries=0, **given) as client:
        client.complete(f"say {KEY} and {other}")
        client.complete("say\nsk-nobody-knows-this-1234567890")
        for model in ("refused", "busy"):
            ended(lambda model=model: client.complete("x", model=model))
    data = path.read_bytes()
    assert len(lines(path)) == 4 and data.count(b"[key]") >= 6
    for secret in (KEY, KEY[3:], "canary", "or short", "authorization", "nobody-knows"):
        assert secret.encode() not in data
    with oai_nb.replay(path, math.inf), Client(wire.url, model="m", **given) as client:
        assert client.complete(f"say {KEY} and {other}").text == "Hello"


def test_a_key_that_is_spelled_over_events_or_tokens_leaves_the_covered_texts_alone(wire, path):
    tokens = {"tokens": list(KEY), "token_logprobs": [-1.0] * len(KEY), "top_logprobs": None}
    wire.on(stream(*map(event, KEY), END, DONE))
    wire.on(whole(completion(KEY, 0, "stop", tokens)), model="spelled")
    with oai_nb.record(path), Client(wire.url, model="m", api_key=KEY) as client:
        client.stream("x").result()
        client.complete("x", model="spelled")
    for line in lines(path):
        ((_, answer),) = line["pieces"]
        assert "[key]" in answer and json.loads(answer)["choices"][0]["logprobs"] is None
    with oai_nb.replay(path, math.inf), Client(wire.url, model="m") as client:
        assert client.stream("x").result().text == "[key]lo"
        assert client.complete("x", model="spelled").text == "[key]"


def test_a_key_that_looks_like_json_disturbs_no_answer(wire, path, capsys):
    wire.on(WHOLE)
    recording = oai_nb.record(path)
    with Client(wire.url, model="m", api_key='", "temperature": 1') as client:
        assert client.complete("x").text == "Hello"
    said = "class.jsonl lacks answers, for they cannot be written: "
    assert capsys.readouterr().err.startswith(said) and lines(path) == []
    with pytest.raises(errors.ConfigurationError, match=said):
        recording.close()


@given(
    st.lists(st.sampled_from([KEY, "canary/of+mine", "é😀", "a", "[key]", "\n"])),
    st.lists(st.integers(0, 99)),
)
def test_however_an_answer_is_cut_its_text_is_kept_and_no_key_is(parts, places):
    data = "".join(parts).encode()
    cuts = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    came = [(float(at), data[a:b]) for at, (a, b) in enumerate(itertools.pairwise(cuts))]
    kept = recording.texts(came, Mask([KEY, "canary/of+mine"]), answer=True)
    joined = "".join(text for _, text in kept)
    assert joined == "".join(parts).replace(KEY, "[key]").replace("canary/of+mine", "[key]")
    assert [at for at, _ in kept] == sorted({at for at, _ in kept})


def test_words_that_look_a_little_like_keys_stay_in_an_answer(wire, path):
    text = "The ring bearer walked; this is a test of text by students."
    wire.on(whole(completion(text, finish_reason="stop")))
    for key in ("test", "text", None):
        headers = {"X-Group": "students", "X-Path": "completions"}
        with oai_nb.record(path), Client(wire.url, model="m", api_key=key, headers=headers) as client:
            assert client.complete(text).text == text
        with oai_nb.replay(path, math.inf), Client(wire.url, model="m") as client:
            assert client.complete(text).text == text


def test_a_recording_again_begins_a_new_take_and_loses_nothing(wire, lesson):
    wire.on(whole(completion("old", finish_reason="stop")))
    lesson.record(lambda client: [client.complete(prompt) for prompt in ("x", "x", "y")])
    before = lesson.path.read_bytes()
    wire.on(whole(completion("new", finish_reason="stop")))
    lesson.record(lambda client: client.complete("x"))
    assert lesson.path.read_bytes().startswith(before) and len(lines(lesson.path)) == 4
    texts = lesson.replay(lambda client: [client.complete(prompt).text for prompt in ("x", "x", "y")])
    assert texts == ["new", "new", "old"]


def test_a_line_that_was_cut_is_left_out_and_said_and_the_next_take_begins_behind_it(wire, lesson, capsys):
    wire.on(WHOLE)
    lesson.record(lambda client: [client.complete(prompt) for prompt in "xy"])
    lesson.path.write_bytes(lesson.path.read_bytes()[:-30])
    with oai_nb.replay(lesson.path) as replaying:
        assert replaying.count == 1
    said = "class.jsonl: line 3 was cut short when it was written, and is left out\n"
    assert capsys.readouterr().err == said
    lesson.record(lambda client: client.complete("z"))
    assert lesson.replay(lambda client: client.complete("z").text) == "Hello"
    assert capsys.readouterr().err == "class.jsonl: line 3 is damaged, and is left out\n"


@pytest.mark.parametrize(
    "damage",
    [
        *({"pieces": 1}, {"at": "soon"}, {"status": "x"}, {"headers": []}, {"error": "x"}, {"seconds": None}),
        *({"headers": {"server": 5}}, {"at": "0001-01-01T00:00:00"}, {"ask": None}),
    ],
)
def test_a_line_that_somebody_damaged_is_left_out(wire, lesson, capsys, damage):
    wire.on(WHOLE)
    lesson.record(lambda client: client.complete("x"))
    head, text = lesson.path.read_bytes().splitlines()
    lesson.path.write_bytes(head + b"\n" + json.dumps(json.loads(text) | damage).encode() + b"\n\n")
    assert oai_nb.replay(lesson.path).count == 0 and "line 2 is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"hello\n", b'{"cells": []}', b"[1]", b'{"oai_nb": 1}', b"\xff\xfe"])
def test_a_file_that_is_not_ours_is_neither_written_nor_read(path, data):
    path.write_bytes(data)
    for use in (oai_nb.record, oai_nb.replay):
        with pytest.raises(
            errors.ConfigurationError, match=r"class.jsonl is no recording by oai_nb.record\(\)"
        ):
            use(path)
    assert path.read_bytes() == data and deck.current is None


def test_a_file_of_a_later_version_is_refused(path):
    path.write_text(json.dumps(HEAD | {"version": 2}) + "\n")
    for use in (oai_nb.record, oai_nb.replay):
        with pytest.raises(errors.ConfigurationError, match="has version 2 and this oai_nb reads 1"):
            use(path)


def test_a_file_that_is_not_there_or_cannot_be_one_is_said_in_one_line(tmp_path):
    with pytest.raises(errors.ConfigurationError, match=r"gone.jsonl cannot be read: No such file"):
        oai_nb.replay(tmp_path / "gone.jsonl")
    with pytest.raises(errors.ConfigurationError, match=r"c.jsonl cannot be written: No such file"):
        oai_nb.record(tmp_path / "gone" / "c.jsonl")
    with pytest.raises(
        errors.ConfigurationError, match=r"cannot be written: (Is a directory|Permission denied)"
    ):
        oai_nb.record(tmp_path)
    for wrong in (3, "", b""):
        with pytest.raises(errors.ConfigurationError, match="is to be a path"):
            oai_nb.record(wrong)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is /dev/full, which Linux has")
def test_a_disk_that_is_full_is_said_once_and_disturbs_no_answer(wire, path, capsys):
    wire.on(WHOLE)
    recording = oai_nb.record(path)
    path.unlink()
    path.symlink_to("/dev/full")
    with Client(wire.url, model="m") as client:
        assert [client.complete("x").text for _ in range(2)] == ["Hello"] * 2
    said = "class.jsonl lacks answers, for they cannot be written: No space left on device"
    assert capsys.readouterr().err == f"{said}\n" and recording.count == 0
    with pytest.raises(errors.ConfigurationError, match=said):
        recording.close()


def test_a_file_that_was_deleted_meanwhile_is_begun_anew(wire, path):
    wire.on(WHOLE)
    with oai_nb.record(path), Client(wire.url, model="m") as client:
        path.unlink()
        client.complete("x")
    assert len(lines(path)) == 1


def test_a_file_that_became_another_s_is_left_alone_and_said_once(wire, path, capsys):
    wire.on(WHOLE)
    recording = oai_nb.record(path)
    path.write_text("notes of mine\n")
    with Client(wire.url, model="m") as client:
        assert [client.complete("x").text for _ in range(2)] == ["Hello"] * 2
    said = "class.jsonl lacks answers, for they cannot be written: class.jsonl is no recording"
    assert capsys.readouterr().err.count(said) == 1 and path.read_text() == "notes of mine\n"
    with pytest.raises(errors.ConfigurationError, match=said):
        recording.close()


def test_an_answer_that_is_being_written_holds_up_no_other(wire, path):
    wire.on(OK, model="first")
    wire.on(stream(event("Hel"), Stall()), model="second")
    with oai_nb.record(path) as recording, Client(wire.url) as client:
        with recording._writing:
            first = client.stream("x", model="first")
            wire.requests.at(0)
            with client.stream("x", model="second") as second:
                assert next(iter(second)).choices[0].text == "Hel"
                assert not first.wait(0)
        assert first.result().text == "Hello" and recording.count == len(lines(path))


class Backwards(datetime):
    """A clock that is set back by an hour whenever somebody looks."""

    looks = itertools.count()

    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 1, 2, 12, tzinfo=UTC) - timedelta(hours=next(cls.looks))


def test_a_clock_that_is_set_back_changes_no_order(wire, lesson, monkeypatch):
    monkeypatch.setattr(recording, "datetime", Backwards)
    wire.on(*(whole(completion(text, finish_reason="stop")) for text in "abc"))
    lesson.record(lambda client: [client.complete("x") for _ in range(3)])
    texts = lesson.replay(lambda client: [client.complete("x").text for _ in range(3)])
    assert texts == ["a", "b", "c"]


FORK = """
import os, sys
import oai_nb
recording = oai_nb.record(sys.argv[1])
chunks = iter(oai_nb.Client(sys.argv[2], model="m").stream("x"))
next(chunks)
child = os.fork()
if child == 0:
    oai_nb.Client(sys.argv[2], model="child").complete("x")
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_records_its_own_answers_and_leaves_the_parent_s_to_it(wire, path):
    wire.on(stream(event("Hel"), Stall()))
    wire.on(WHOLE, model="child")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, path, wire.url]
    subprocess.run(command, check=True, timeout=LIMIT)
    assert [(one["body"]["model"], one["ended"]) for one in lines(path)] == [
        ("child", "whole"),
        ("m", "stopped"),
    ]


def test_several_kernels_record_into_one_file(wire, path):
    wire.on(stream(*(event(f"{n}" * 3000) for n in range(9)), END, DONE))
    code = (
        "import sys, oai_nb\n"
        "with oai_nb.record(sys.argv[1]), oai_nb.Client(sys.argv[2], model=sys.argv[3]) as client:\n"
        "    streams = [client.stream(f'x{n}') for n in range(10)]\n"
        "    [stream.result() for stream in streams]\n"
    )
    command = [sys.executable, "-c", code, path, wire.url]
    kernels = [subprocess.Popen([*command, name]) for name in "abc"]
    try:
        assert [kernel.wait(LIMIT) for kernel in kernels] == [0, 0, 0]
    finally:
        for kernel in kernels:
            kernel.kill()
    asked = {(one["body"]["model"], one["body"]["prompt"]) for one in lines(path)}
    assert len(asked) == len(lines(path)) == 30 and len({one["take"] for one in lines(path)}) == 3


def test_a_program_that_ends_in_the_middle_leaves_what_had_come(wire, path):
    wire.on(stream(event("Hel"), Stall()))
    code = (
        "import sys, oai_nb\n"
        "oai_nb.record(sys.argv[1])\n"
        "chunks = iter(oai_nb.Client(sys.argv[2], model='m').stream('x'))\n"
        "next(chunks)\n"
    )
    subprocess.run([sys.executable, "-c", code, path, wire.url], check=True, timeout=LIMIT)
    assert [one["ended"] for one in lines(path)] == ["stopped"]


AFTERWARDS = """
import sys, threading
import oai_nb
oai_nb.record(sys.argv[1])

def ask():
    threading.main_thread().join()
    print(oai_nb.Client(sys.argv[2], model="m").complete("x").text)

threading.Thread(target=ask).start()
"""


def test_a_thread_that_outlives_the_program_is_recorded_too(wire, path):
    wire.on(OK)
    command = [sys.executable, "-c", AFTERWARDS, path, wire.url]
    done = subprocess.run(command, check=True, timeout=LIMIT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Hello\n", "")
    assert [one["ended"] for one in lines(path)] == ["whole"]


# --- on and off ---


def test_both_are_seen_as_one_line_and_end_with_a_call_or_a_block_or_close(wire, path):
    wire.on(WHOLE)
    with Client(wire.url, model="m") as client:
        recording = oai_nb.record(path)
        assert repr(recording) == "<Recording class.jsonl: 0 exchanges>"
        client.complete("x")
        assert repr(recording) == "<Recording class.jsonl: 1 exchange>"
        assert oai_nb.record() is None and repr(recording).endswith("1 exchange, ended>")
        client.complete("not this")
        with oai_nb.replay(path) as replaying:
            assert repr(replaying) == "<Replay class.jsonl: 1 exchange>"
        assert repr(replaying).endswith("ended>") and client.complete("not this").text == "Hello"
        replaying = oai_nb.replay(path)
        replaying.close()
        replaying.close()
        assert oai_nb.replay() is None and client.complete("not this").text == "Hello"


def test_a_replay_ends_the_recording_and_a_recording_does_not_end_a_replay(wire, path, tmp_path):
    wire.on(WHOLE)
    with Client(wire.url, model="m") as client:
        recording = oai_nb.record(path)
        client.complete("x")
        with pytest.raises(errors.ConfigurationError):
            oai_nb.replay(tmp_path / "gone.jsonl")
        assert deck.current is recording
        replaying = oai_nb.replay(path, math.inf)
        assert client.complete("x").text == "Hello" and len(wire.requests) == 1
        with pytest.raises(
            errors.ConfigurationError, match=r"class.jsonl is being replayed: .*oai_nb.replay\(\)"
        ):
            oai_nb.record(tmp_path / "other.jsonl")
        assert deck.current is replaying and oai_nb.record() is None and deck.current is replaying
        recording.close()
        assert deck.current is replaying and not (tmp_path / "other.jsonl").exists()


def test_recording_anew_ends_the_one_before(wire, path):
    wire.on(WHOLE)
    first = oai_nb.record(path)
    second = oai_nb.record(path)
    with Client(wire.url, model="m") as client:
        client.complete("x")
    assert (first.count, second.count) == (0, 1) and repr(first).endswith("ended>")


def test_a_relative_path_stays_where_it_was(wire, path, monkeypatch):
    wire.on(WHOLE)
    monkeypatch.chdir(path.parent)
    with oai_nb.record(path.name), Client(wire.url, model="m") as client:
        (path.parent / "below").mkdir()
        monkeypatch.chdir("below")
        client.complete("x")
    assert len(lines(path)) == 1


# --- in a notebook ---


def test_cells_are_recorded_and_replayed_with_any_server(wire, path, shell):
    wire.on(OK)
    cells = [f"%%complete --server {wire.url} --model m --out one\nOnce", "%%complete --out two\nTwice"]
    shell.run("%load_ext oai_nb\nimport oai_nb")
    shell.run(f"oai_nb.connect({wire.url!r}, model='m')")
    shell.run(f"recording = oai_nb.record({str(path)!r})")
    for cell in cells:
        assert shell.run(cell).error is None
    ran = shell.run(f"oai_nb.replay({str(path)!r}, math.inf)".replace("math.inf", "float('inf')"))
    assert ran.result.count == 2
    for cell in cells:
        ran = shell.run(cell)
        assert ran.error is None and "Hello" in ran.screen[0].text
        assert "replayed at once from class.jsonl, recorded" in ran.screen[0].text
    assert len(wire.requests) == 2 and shell.user_ns["two"].text == "Hello"
    missing = shell.run("%%complete --temperature 0.8\nTwice")
    assert missing.error.name == "NotRecordedError" and len(missing.error.lines) == 1
    shell.run("oai_nb.replay(); oai_nb.connect()")


def test_the_stop_button_stops_a_replay(wire, path, shell, monkeypatch):
    monkeypatch.setenv("OAI_NB_DISPLAY", "live")
    wire.on(OK)
    with oai_nb.record(path), Client(wire.url, model="m") as client:
        client.complete("Once", stream=True)
    slow(path)
    shell.run("%load_ext oai_nb\nimport oai_nb")
    shell.run(f"oai_nb.replay({str(path)!r}, speed=1e-3)")
    ran = shell.run(f"%%complete --server {wire.url} --model m\nOnce", stop_at="Hel")
    assert ran.error.name == "Interrupted" and "Hel" in ran.screen[-1].text
    assert "replayed at 0.001 times the speed from class.jsonl" in ran.screen[-1].text


STUDENT = """
import sys

def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"a connection was opened: {args[1:]}")

sys.addaudithook(refuse)
import oai_nb
with oai_nb.replay(sys.argv[1], float("inf")):
    for prompt in ("Once upon a time", "é😀"):
        with oai_nb.stream(prompt, max_tokens=8, n=3, logprobs=2, seed=1) as stream:
            print(stream.result().to_json())
    print(oai_nb.Client("local").tokenize("Once"))
    try:
        oai_nb.complete("Twice upon a time")
    except oai_nb.NotRecordedError as error:
        print(error)
assert not {"numpy", "oai_nb.local", "oai_nb.local.transport"} & set(sys.modules)
"""


def test_the_embedded_model_is_replayed_where_there_is_none(path, tmp_path):
    asked = {"max_tokens": 8, "n": 3, "logprobs": 2, "seed": 1}
    with oai_nb.record(path), Client("local") as client:
        recorded = [client.stream(prompt, **asked).result() for prompt in ("Once upon a time", "é😀")]
        ids = client.tokenize("Once")
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    (tmp_path / "empty").mkdir()
    environment = os.environ | proxies | {"OAI_NB_CACHE": str(tmp_path / "empty")}
    done = subprocess.run(
        [sys.executable, "-c", STUDENT, path],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *answers, tokens, missing = done.stdout.splitlines()
    replayed = [oai_nb.Completion.from_json(text) for text in answers]
    assert all(map(same, recorded, replayed)) and json.loads(tokens) == ids
    assert all(one.server.kind == "local" and one.sent["return_token_ids"] for one in replayed)
    assert "is not in class.jsonl" in missing and list((tmp_path / "empty").iterdir()) == []


def test_streams_that_run_at_once_are_each_kept(path, wire):
    wire.on(stream(Forever(event("a"), per_second=500)))
    with oai_nb.record(path), Client(wire.url, model="m") as client:
        streams = [client.stream("x") for _ in range(8)]
        for running in streams:
            next(iter(running))
    assert [one["ended"] for one in lines(path)] == ["stopped"] * 8
    assert all("".join(text for _, text in one["pieces"]).startswith("data: {") for one in lines(path))
