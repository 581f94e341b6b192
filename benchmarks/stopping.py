"""How soon the server sees that it was stopped, in every phase of a request.

A scripted server in this process notes the moment at which the client's socket closes. The peer is
openai-python's `close()`, called as ours from another thread: it has nothing to close before the first byte,
and does not wake a thread that waits for the next one.
"""

from __future__ import annotations

import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai

import oai_nb
from benchmarks.measure import Row

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from wire import Forever, Stall, Wait, Wire, event, failure, raw, stream

BUDGET_MS = 100
PATIENCE = 1.0
"""Seconds that the peer is waited for."""
SCRIPTS = {
    "waiting for the first token": raw(Stall()),
    "stalled": stream(event("a"), Stall()),
    "streaming": stream(Forever(event("a"), 200)),
}
RETRY = failure(503, "busy", retry_after=30)


def rows(rounds: int) -> Iterator[Row]:
    """Yield the median of each phase."""
    took = {"connecting": _repeated(_connecting, rounds)}
    peers = {}
    with Wire() as wire:
        for phase, script in SCRIPTS.items():
            wire.on(script)
            took[phase] = _repeated(lambda: _seen(wire), rounds)
        wire.on(RETRY)
        took["waiting to retry"] = _repeated(lambda: _retrying(wire), rounds)
        gate = Wait()
        wire.on(stream(event("a"), gate))
        peers["stalled"] = _theirs(wire, gate.set)
        wire.on(SCRIPTS["streaming"])
        peers["streaming"] = _theirs(wire)
    for phase, milliseconds in took.items():
        yield Row(
            f"stop while {phase}, to the server's seeing it",
            f"<= {BUDGET_MS} ms",
            f"{milliseconds:.1f} ms",
            milliseconds <= BUDGET_MS,
            f"openai-python {peers[phase]}" if phase in peers else "",
        )


def _repeated(measure: Callable[[], float], rounds: int) -> float:
    """Return the median milliseconds; the first, which imports, is not counted."""
    return 1e3 * statistics.median([measure() for _ in range(rounds + 1)][1:])


def _until(state: str, running: Any) -> None:
    """Wait for a stream to be in a state."""
    until = time.monotonic() + 10
    while running.state != state:
        assert time.monotonic() < until, f"it is {running.state}, not {state}"
        time.sleep(0.001)


def _connecting() -> float:
    """Stop within TLS's handshake, which the server lets hang: the last that is still connecting."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/v1"
        with oai_nb.Client(url, model="m") as client:
            running = client.stream("x")
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                _until("connecting", running)
                begun = time.perf_counter()
                running.close()
                while connection.recv(65_536):
                    pass
                return time.perf_counter() - begun


def _seen(wire: Wire) -> float:
    """Stop once the server has the request, or its first event has come."""
    count = len(wire.requests)
    with oai_nb.Client(wire.url, model="m") as client:
        running = client.stream("x")
        seen = wire.requests.at(count)
        while seen.sent and not running.count:
            time.sleep(0.001)
        time.sleep(0.05)
        begun = time.perf_counter()
        running.close()
        assert seen.closed.wait(10)
        return seen.closed_at - begun


def _retrying(wire: Wire) -> float:
    """Stop while nothing is under way: what ends is the task in the I/O loop."""
    with oai_nb.Client(wire.url, model="m") as client:
        running = client.stream("x")
        _until("retrying", running)
        ended = threading.Event()
        running._run._task.add_done_callback(lambda _: ended.set())
        begun = time.perf_counter()
        running.close()
        assert ended.wait(10)
        return time.perf_counter() - begun


def _theirs(wire: Wire, end: Callable[[], None] = lambda: None) -> str:
    """Close openai-python's stream from here, while another thread reads it; at last `end` the answer."""
    count = len(wire.requests)
    client = openai.OpenAI(base_url=wire.url, api_key="x", max_retries=0)
    answer = client.completions.create(model="m", prompt="x", stream=True)
    threading.Thread(target=_drain, args=(answer,), daemon=True).start()
    seen = wire.requests.at(count)
    time.sleep(0.1)
    begun = time.perf_counter()
    answer.close()
    came = seen.closed.wait(PATIENCE)
    end()
    seen.ended.wait(PATIENCE)
    return f"{1e3 * (seen.closed_at - begun):.1f} ms" if came else f"not within {PATIENCE:.0f} s"


def _drain(answer: Any) -> None:
    """Read a stream until something ends it."""
    try:
        for _ in answer:
            pass
    except Exception:
        return
