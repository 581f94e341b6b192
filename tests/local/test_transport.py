"""The embedded model as a server without a socket: the official client, turns, stops, processes."""

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
from itertools import chain

import httpx
import openai
import pytest
from local import tiny

import oai_nb
from oai_nb.errors import ConfigurationError, WeightsError
from oai_nb.local import loading, threads, transport
from oai_nb.local.gguf import GGUF
from oai_nb.local.model import CHUNK, Model
from oai_nb.local.transport import LocalTransport

MODEL = "smollm2-135m-instruct-q4_1"
NO_END = {"0": -100, "2": -100}
BODY = {"prompt": "Once upon a time", "seed": 1, "max_tokens": 6, "logit_bias": NO_END}
URL = "http://local/v1/completions"


@pytest.fixture
def quick(small, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    return LocalTransport(small, lambda _: None)


def client(given=None):
    return httpx.AsyncClient(transport=given or LocalTransport(), base_url="http://local")


def ask(given, method, path, **request):
    async def main():
        async with client(given) as http:
            return await http.request(method, path, **request)

    return asyncio.run(main())


# The official client, which is another HTTP library's


def official(call):
    """Run a coroutine function with the official client of the real model."""

    async def main():
        http = httpx.AsyncClient(transport=LocalTransport())
        async with openai.AsyncOpenAI(api_key="none", base_url="http://local/v1", http_client=http) as api:
            return await call(api)

    return asyncio.run(main())


PARAMETERS = {
    "prompt": [[504, 3575], [[504], [3575]]],
    "best_of": [2],
    "echo": [True],
    "frequency_penalty": [0.5],
    "logit_bias": [{"504": 5}],
    "logprobs": [0, 5],
    "max_tokens": [3],
    "n": [2],
    "presence_penalty": [-0.5],
    "seed": [7],
    "stop": ["the", [".", "\n"]],
    "temperature": [0, 1.5],
    "top_p": [0.5],
    "user": ["somebody"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in PARAMETERS.items() for value in values]
)
def test_the_official_client_with_every_parameter(name, value):
    arguments = {"model": MODEL, "prompt": "The", "max_tokens": 4, "seed": 1, "logit_bias": NO_END} | {
        name: value
    }
    answer = official(lambda api: api.completions.create(**arguments))
    expected = len(value) if name == "prompt" and isinstance(value[0], list) else 1
    assert len(answer.choices) == (value if name == "n" else expected)
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert (answer.choices[0].logprobs is not None) == (name == "logprobs")
    assert answer.model == MODEL


@pytest.mark.parametrize("options", [None, {"include_usage": True}, {"include_obfuscation": False}])
def test_the_official_client_streams_what_it_gets_whole(options):
    arguments = {"model": MODEL, "prompt": "The", "max_tokens": 4, "n": 2, "seed": 1, "logprobs": 1}
    whole = official(lambda api: api.completions.create(**arguments))

    async def streamed(api):
        more = {} if options is None else {"stream_options": options}
        stream = await api.completions.create(**arguments, stream=True, **more)
        return [event async for event in stream]

    events = official(streamed)
    for choice in whole.choices:
        parts = [one for event in events for one in event.choices if one.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
        for column in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = list(chain.from_iterable(getattr(part.logprobs, column) for part in parts))
            assert joined == getattr(choice.logprobs, column)
        assert parts[-1].finish_reason == choice.finish_reason
    assert (events[-1].usage == whole.usage) == (options == {"include_usage": True})


def test_the_official_client_gets_the_apis_errors():
    async def wrong(api):
        with pytest.raises(openai.BadRequestError) as bad:
            await api.completions.create(model=MODEL, prompt="a", temperature=3)
        with pytest.raises(openai.NotFoundError) as absent:
            await api.completions.create(model="gpt-5", prompt="a")
        return bad.value, absent.value

    bad, absent = official(wrong)
    assert (bad.param, bad.type) == ("temperature", "invalid_request_error")
    assert absent.code == "model_not_found"


def test_the_official_client_lists_the_model():
    async def listed(api):
        return [model.id async for model in await api.models.list()], await api.models.retrieve(MODEL)

    ids, one = official(listed)
    assert (ids, one.id, one.owned_by) == ([MODEL], MODEL, "oai_nb")


# Paths


def test_tokenize(tokenizer):
    answer = ask(None, "POST", "/tokenize", json={"prompt": "Once upon"})
    assert answer.json() == {"tokens": tokenizer.encode("Once upon"), "count": 2, "max_model_len": 8192}


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/completions", 405, "/v1/completions takes POST, not GET"),
        ("POST", "/v1/models", 405, "takes GET, not POST"),
        ("GET", "/v1/models/other", 404, "the model 'other' does not exist"),
        ("POST", "/v1/chat/completions", 404, "there is nothing at /v1/chat/completions"),
        ("GET", "/", 404, "this server has /v1/completions, /v1/models, /tokenize"),
    ],
)
def test_other_paths_and_methods(quick, method, path, status, words):
    answer = ask(quick, method, path)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert answer.headers.get("allow") == ({"GET": "POST", "POST": "GET"}[method] if status == 405 else None)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"[1]", b'"text"'])
def test_a_body_that_is_no_json_object(quick, content):
    answer = ask(quick, "POST", "/v1/completions", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] in ("the body is not JSON", "the body must be a JSON object")


def test_an_error_of_a_stream_is_no_stream(quick):
    answer = ask(quick, "POST", "/v1/completions", json={"stream": True, "n": 0})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"


# Streams


@pytest.fixture
def passes(monkeypatch):
    """The forward passes so far, by kind."""
    seen = []
    for name in ("read", "step"):
        real = getattr(Model, name)

        def counted(self, *args, name=name, real=real):
            seen.append(name)
            return real(self, *args)

        monkeypatch.setattr(Model, name, counted)
    return seen


async def settled():
    """Wait until the worker has done all that was submitted."""
    await transport._run(lambda: None)


async def events(http, **body):
    async with http.stream("POST", URL, json=BODY | {"stream": True} | body) as response:
        async for piece in response.aiter_raw():
            yield piece


def test_events_arrive_while_the_model_writes(quick, passes):
    async def main():
        async with client(quick) as http:
            return [(len(passes), piece) async for piece in events(http)]

    seen = asyncio.run(main())
    assert [count for count, _ in seen] == [1, 2, 3, 4, 5, 6, 6]
    assert [piece.count(b"data: ") for _, piece in seen] == [1] * 7
    assert seen[-1][1] == b"data: [DONE]\n\n"


def test_a_closed_stream_stops_within_a_token(quick, passes):
    async def main():
        async with client(quick) as http:
            stream = events(http, max_tokens=3000)
            for _ in range(3):
                await anext(stream)
            await stream.aclose()
            at_close = len(passes)
            await settled()
            return at_close, len(passes)

    at_close, in_the_end = asyncio.run(main())
    assert at_close == 3
    assert in_the_end <= at_close + 1


@pytest.mark.parametrize("streamed", [True, False])
def test_a_cancelled_task_stops_within_a_token(quick, passes, streamed):
    async def main():
        async with client(quick) as http:

            async def whole():
                body = BODY | {"max_tokens": 3000, "stream": streamed}
                return await http.post(URL, json=body)

            task = asyncio.create_task(whole())
            while len(passes) < 5:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            at_cancel = len(passes)
            await settled()
            return at_cancel, len(passes)

    at_cancel, in_the_end = asyncio.run(main())
    assert in_the_end <= at_cancel + 1


def test_a_stop_while_a_long_prompt_is_read(quick, passes):
    async def main():
        async with client(quick) as http:
            task = asyncio.create_task(anext(events(http, prompt=[5] * (8 * CHUNK))))
            while not passes:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await settled()

    asyncio.run(main())
    assert passes.count("step") == 0
    assert passes.count("read") < 8


def test_a_stream_that_is_never_read_costs_nothing(quick, passes):
    async def main():
        async with client(quick) as http, http.stream("POST", URL, json=BODY | {"stream": True}) as response:
            assert response.status_code == 200
        await settled()

    asyncio.run(main())
    assert passes == []


def test_streams_at_once_take_turns(quick):
    async def main():
        order = []
        async with client(quick) as http:

            async def follow(name):
                async for _ in events(http, max_tokens=30):
                    order.append(name)  # noqa: PERF401 - the order of arrival is what matters

            await asyncio.gather(follow("a"), follow("b"), follow("c"))
        return order

    order = asyncio.run(main())
    for start in range(0, 60, 6):
        assert set(order[start : start + 6]) == {"a", "b", "c"}


def test_many_streams_leave_no_thread_behind(quick):
    async def main():
        async with client(quick) as http:
            for _ in range(3):
                await asyncio.gather(*(http.post(URL, json=BODY | {"stream": True}) for _ in range(5)))

    asyncio.run(main())
    assert [thread.name for thread in threading.enumerate()].count("oai-nb-model") == 1


def test_another_loop_and_thread_share_the_model(quick):
    answers = []

    def elsewhere():
        answers.append(ask(quick, "POST", "/v1/completions", json=BODY).json()["choices"])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    answers.append(ask(LocalTransport(quick._path), "POST", "/v1/completions", json=BODY).json()["choices"])
    thread.join()
    assert answers[0] == answers[1]


# Loading


def test_the_user_is_told_of_what_takes_long(tmp_path, metadata, monkeypatch):
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "cache"))
    path, told = tiny.write_speaking(tmp_path / "new.gguf", metadata), []
    for _ in range(2):
        assert ask(LocalTransport(path, told.append), "GET", "/v1/models").json()["data"][0]["id"] == "new"
    assert [line.partition(",")[0] for line in told] == ["preparing the model once", ""]


def test_a_model_that_cannot_be_loaded_is_our_own_error(tmp_path, monkeypatch):
    with pytest.raises(WeightsError, match="cannot be read"):
        ask(LocalTransport(tmp_path / "absent.gguf"), "POST", "/v1/completions", json=BODY)
    monkeypatch.setenv("OAI_NB_MODEL", "/nowhere.gguf")
    monkeypatch.setattr(transport, "_models", loading.Models())
    with pytest.raises(WeightsError, match="OAI_NB_MODEL"):
        ask(LocalTransport(), "GET", "/v1/models")


def test_a_wrong_setting_is_our_own_error(quick, monkeypatch):
    threads.wanted.cache_clear()
    monkeypatch.setenv("OAI_NB_THREADS", "many")
    try:
        with pytest.raises(ConfigurationError, match="OAI_NB_THREADS"):
            ask(quick, "POST", "/v1/completions", json=BODY)
    finally:
        threads.wanted.cache_clear()


@pytest.fixture
def unshared(tmp_path, metadata, monkeypatch):
    """A cache that cannot be written, and a model that was not loaded before."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("OAI_NB_MODEL", str(tiny.write_speaking(tmp_path / "speaks.gguf", metadata)))
    monkeypatch.setattr(transport, "_models", loading.Models())
    size = sum(4 * info.shape[0] * info.shape[-1] for info in GGUF(tmp_path / "speaks.gguf").tensors.values())
    return f"the weights take memory of this kernel, {size / 1e6:.0f} MB, as the cache cannot be written"


def beside(completion):
    """Return what is told of an answer; what can be seen in it (half a character) is no matter here."""
    return [note.text for note in completion.fidelity if note.sign == "info"]


@pytest.mark.parametrize("options", ["", "--no-stream"])
def test_every_answer_says_that_its_weights_are_not_shared(unshared, shell, tmp_path, options):
    shell.run("%load_ext oai_nb")
    for _ in range(2):
        ran = shell.run(f"%%complete --server local --max-tokens 2 --out story {options}\nOnce")
        assert ran.error is None
        assert unshared in ran.screen[-1].text and unshared in ran.screen[-1].html
        (told,) = beside(shell.user_ns["story"])
        assert told.startswith(unshared) and "OAI_NB_CACHE" in told and str(tmp_path) not in told


def test_the_history_keeps_that_weights_were_not_shared(unshared):
    with oai_nb.Client("local") as local:
        local.complete("Once", max_tokens=1)
    last = oai_nb.history().iloc[-1]
    assert unshared in last["notes"]
    (told,) = beside(oai_nb.recall(last["run"]))
    assert told.startswith(unshared)


def test_a_recorded_answer_says_it_and_a_replayed_one_which_takes_no_memory_does_not(unshared, tmp_path):
    with oai_nb.Client("local") as local:
        with oai_nb.record(tmp_path / "class.jsonl"):
            recorded = local.complete("Once", max_tokens=1)
        with oai_nb.replay(tmp_path / "class.jsonl", speed=math.inf):
            replayed = local.complete("Once", max_tokens=1)
    assert [told.startswith(unshared) for told in beside(recorded)] == [True]
    assert [told.split()[0] for told in beside(replayed)] == ["replayed"]


def test_shared_weights_are_nothing_to_say(small, monkeypatch):
    monkeypatch.setenv("OAI_NB_MODEL", str(small))
    monkeypatch.setattr(transport, "_models", loading.Models())
    with oai_nb.Client("local") as local:
        assert beside(local.complete("Once", max_tokens=1)) == []


# Processes


def python(code, *args):
    """Run a program that has `ask` and the small model; return what it prints."""
    start = """
import asyncio, json, os, sys, threading, httpx
from pathlib import Path
from oai_nb.local.transport import LocalTransport
BODY = json.loads(sys.argv[1])
def ask(**body):
    async def main():
        async with httpx.AsyncClient(transport=LocalTransport(Path(sys.argv[2]), print)) as http:
            answer = await http.post("http://local/v1/completions", json=BODY | body)
            return answer.json()["choices"][0]["text"]
    return asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start + code, json.dumps(BODY), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_a_model_of_its_own(quick, small):
    output = python(
        """
first = ask()
sys.stdout.flush()
child = os.fork()
same = ask() == first
if child:
    os.waitpid(child, 0)
os.write(1, f"{'parent' if child else 'child'} {same}\\n".encode())
""",
        small,
    )
    assert output.splitlines()[-2:] == ["child True", "parent True"]


def test_a_running_stream_does_not_keep_the_interpreter(quick, small):
    output = python(
        """
began = threading.Event()
async def forever():
    async with httpx.AsyncClient(transport=LocalTransport(Path(sys.argv[2]), print)) as http:
        body = BODY | {"stream": True, "max_tokens": 4000}
        while True:
            async with http.stream("POST", "http://local/v1/completions", json=body) as answer:
                async for _ in answer.aiter_raw():
                    began.set()
threading.Thread(target=lambda: asyncio.run(forever()), daemon=True).start()
began.wait()
print("leaving")
""",
        small,
    )
    assert output.splitlines()[-1] == "leaving"


SLOW_INSTALLER = """#!/bin/sh
echo $$ > "$PID_FILE"
exec tail -f /dev/null
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_running_download_does_not_keep_the_interpreter(tmp_path, small, monkeypatch):
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text(SLOW_INSTALLER)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "cache"))
    output = python(
        """
import contextlib, importlib.util
importlib.util.find_spec = lambda name: None
async def fetching():
    async with httpx.AsyncClient(transport=LocalTransport(None, print)) as http:
        with contextlib.suppress(Exception):  # which nobody is left to see
            await http.get("http://local/v1/models")
threading.Thread(target=lambda: asyncio.run(fetching()), daemon=True).start()
while not Path(os.environ["PID_FILE"]).exists():
    pass
print("leaving")
""",
        small,
    )
    assert output.split()[-1] == "leaving"
    pid = (tmp_path / "pid").read_text().strip()
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout
    assert state[:1] in ("", "Z")  # gone, or dead and not yet buried by init
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []
