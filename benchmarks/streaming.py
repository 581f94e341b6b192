"""How fast answers are taken: oai_nb against openai-python, from the same server in the same run.

    python benchmarks/streaming.py [--rounds 5] [--chunks 20000]

A server in a process of its own sends prepared answers as fast as the client takes them: streams with one
HTTP chunk for each event, as uvicorn sends them, and a whole answer. Both clients read each into their own
objects, ours up to a Completion with all its columns. They take turns; the table shows medians over the
rounds and the ratio to openai-python beside the budget. The ratio of the processor's time says the same on a
machine that has other work.
"""

import argparse
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
]
BUDGETS = {"stream": 7.0, "stream, logprobs=5": 6.0, "whole, n=20 x 500, logprobs=5": 3.0}


def choice(dice, position, logprobs, **more):
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


def body(choices, **more):
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices}
    return json.dumps(head | more).encode()


def stream(count, logprobs):
    dice = random.Random(1)
    events = [body([choice(dice, k, logprobs)]) for k in range(count - 1)]
    events += [body([choice(dice, count, logprobs, finish_reason="length")]), b"[DONE]"]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    lines = [b"data: %b\n\n" % event for event in events]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


def whole(n, tokens):
    dice, choices = random.Random(1), []
    for index in range(n):
        parts = [choice(dice, k, 5) for k in range(tokens)]
        columns = {name: [p["logprobs"][name][0] for p in parts] for name in parts[0]["logprobs"]}
        text = "".join(part["text"] for part in parts)
        choices.append({"index": index, "text": text, "logprobs": columns, "finish_reason": "length"})
    usage = {"prompt_tokens": 1, "completion_tokens": n * tokens, "total_tokens": n * tokens + 1}
    data = body(choices, usage=usage)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(data) + data


def serve(chunks):
    """Print the port; then answer with what the request's model names."""
    answers = dict(zip(BUDGETS, (stream(chunks, 0), stream(chunks, 5), whole(20, 500)), strict=True))
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection, answers), daemon=True).start()


def answer(connection, answers):
    with connection, connection.makefile("rb") as lines:
        while lines.readline():
            length = 0
            while (line := lines.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            connection.sendall(answers[json.loads(lines.read(length))["model"]])


def clients(url, chunks):
    """Return for each client a function that takes the answer of some name and returns its amount."""
    import openai

    import oai_nb

    theirs = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
    ours = oai_nb.Client(url)

    def openai_python(name):
        if name.startswith("whole"):
            return sum(
                len(c.logprobs.tokens) for c in theirs.completions.create(model=name, prompt="x").choices
            )
        return sum(1 for _ in theirs.completions.create(model=name, prompt="x", stream=True))

    def oai_nb_(name):
        if name.startswith("whole"):
            return sum(len(c.logprobs.tokens) for c in ours.complete("x", model=name).choices)
        stream = ours.stream("x", model=name)
        stream.result()
        assert len(stream.completion.text) > chunks
        return stream.count

    return {"openai-python": openai_python, "oai_nb": oai_nb_}


def measure(takers, rounds):
    """Return for each answer and client the median amounts in a second, of the clock and of the processor."""
    rates = {name: {client: [] for client in takers} for name in BUDGETS}
    for name in BUDGETS:
        for _ in range(rounds):
            for client, take in takers.items():
                begun, used = time.perf_counter(), time.process_time()
                amount = take(name)
                spent = time.perf_counter() - begun, time.process_time() - used
                rates[name][client].append([amount / seconds for seconds in spent])
    return {
        name: {client: list(map(statistics.median, zip(*row, strict=True))) for client, row in rows.items()}
        for name, rows in rates.items()
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--chunks", type=int, default=20_000)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve(chosen.chunks)
    command = [sys.executable, __file__, "--serve", "--chunks", str(chosen.chunks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            takers = clients(f"http://127.0.0.1:{int(server.stdout.readline())}/v1", chosen.chunks)
            measure(takers, 1)
            report(measure(takers, chosen.rounds))
        finally:
            server.kill()


def report(rates):
    title = "chunks or tokens a second"
    print(f"{title:30} {'openai-python':>14} {'oai_nb':>10} {'ratio':>6} {'of cpu':>7}  budget")
    for name, row in rates.items():
        (theirs, theirs_cpu), (ours, ours_cpu) = row["openai-python"], row["oai_nb"]
        print(
            f"{name:30} {theirs:14,.0f} {ours:10,.0f} {ours / theirs:6.1f} {ours_cpu / theirs_cpu:7.1f}"
            f"  >= {BUDGETS[name]:.0f}{'' if ours / theirs >= BUDGETS[name] else '  MISSED'}"
        )


if __name__ == "__main__":
    main()
