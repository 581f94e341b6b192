"""Two servers, each in a process of its own: one that is fast and one that is slow.

The fast one sends prepared answers as fast as a client takes them. The request's model is the key of its
answer in `answers`; streams have one HTTP chunk for each event, as uvicorn sends them. The slow one gives a
short answer after `DELAY`, to as many at a time as ask.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PLAIN, LOGPROBS, WHOLE = "stream", "stream, logprobs=5", "whole, n=20 x 500, logprobs=5"
N, TOKENS = 20, 500
DELAY = 0.1
"""Seconds after which the slow answer comes."""

WORDS = ["the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "be", "by"]


def _choice(dice, position, logprobs, **more):
    text = " " + dice.choice(WORDS)
    columns = None
    if logprobs:
        first = -dice.random()
        others = {f" {dice.choice(WORDS)}{k}": first - k / 2 for k in range(1, logprobs)}
        columns = {
            "tokens": [text],
            "token_logprobs": [first],
            "top_logprobs": [{text: first, **others}],
            "text_offset": [4 * position],
        }
    return {"index": 0, "text": text, "logprobs": columns, "finish_reason": None} | more


def _body(choices, **more):
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}
    return json.dumps(head | more).encode()


def stream(count: int, logprobs: int) -> bytes:
    """Return an answer of `count` events, head and all."""
    dice = random.Random(1)
    events = [_body([_choice(dice, k, logprobs)]) for k in range(count - 1)]
    events += [_body([_choice(dice, count, logprobs, finish_reason="length")]), b"[DONE]"]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    lines = [b"data: %b\n\n" % event for event in events]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


def whole(n: int, tokens: int) -> bytes:
    """Return a whole answer with logprobs, head and all."""
    dice, choices = random.Random(1), []
    for index in range(n):
        parts = [_choice(dice, k, 5) for k in range(tokens)]
        columns = {name: [p["logprobs"][name][0] for p in parts] for name in parts[0]["logprobs"]}
        text = "".join(part["text"] for part in parts)
        choices.append({"index": index, "text": text, "logprobs": columns, "finish_reason": "length"})
    usage = {"prompt_tokens": 1, "completion_tokens": n * tokens, "total_tokens": n * tokens + 1}
    return _sized(_body(choices, usage=usage))


def _sized(data: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(data) + data


def answers(chunks: int) -> dict[str, bytes]:
    """Return every answer by the model that asks for it."""
    return {PLAIN: stream(chunks, 0), LOGPROBS: stream(chunks, 5), WHOLE: whole(N, TOKENS)}


@contextmanager
def running(chunks: int | None = None) -> Iterator[str]:
    """Run the fast server in another process, or the slow one without a number of chunks; yield its URL."""
    command = [sys.executable, "-m", "benchmarks.server", *([] if chunks is None else [str(chunks)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


def _say(listening: socket.socket) -> None:
    print(listening.getsockname()[1], flush=True)


def fast(chunks: int) -> None:
    """Print the port; then answer until killed."""
    prepared = answers(chunks)
    server = socket.create_server(("127.0.0.1", 0), backlog=256)
    _say(server)
    while True:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(connection, prepared), daemon=True).start()


def _answer(connection, prepared):
    with connection, connection.makefile("rb") as lines:
        while lines.readline():
            length = 0
            while (line := lines.readline()).strip():
                length = _length(line) or length
            connection.sendall(prepared[json.loads(lines.read(length))["model"]])


def _length(line):
    name, _, value = line.partition(b":")
    return int(value) if name.lower() == b"content-length" else 0


class Slow(asyncio.Protocol):
    """One connection of the slow server."""

    said = _sized(_body([{"index": 0, "text": "x", "logprobs": None, "finish_reason": "stop"}]))

    def connection_made(self, transport):
        self.transport, self.came = transport, b""

    def data_received(self, data):
        self.came += data
        head, _, body = self.came.partition(b"\r\n\r\n")
        if body and len(body) >= max(map(_length, head.split(b"\r\n"))):
            self.came = b""
            asyncio.get_running_loop().call_later(DELAY, self.transport.write, self.said)


async def slow() -> None:
    """Print the port; then answer until killed."""
    server = await asyncio.get_running_loop().create_server(Slow, "127.0.0.1", 0, backlog=256)
    _say(server.sockets[0])
    await server.serve_forever()


if __name__ == "__main__":
    fast(int(sys.argv[1])) if len(sys.argv) > 1 else asyncio.run(slow())
