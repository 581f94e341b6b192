"""How many messages a kernel sends to the browser while an answer streams.

A server sends 50 or 2,000 tokens a second for some seconds to a cell in a real kernel. The peer draws
each chunk of openai-python, as examples do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import kernel
from benchmarks.measure import Row

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from wire import DONE, Wire, event, stream, whole

SECONDS, PIECES = 3, 50
"""How long a stream lasts, and how many pieces of some tokens come in a second of it."""
BUDGET = 12
DRAWN = ("display_data", "update_display_data", "stream")

PEER = """
import openai
from IPython.display import display
said, handle = {{}}, display("", display_id=True)
client = openai.OpenAI(base_url={url!r}, api_key="x")
for chunk in client.completions.create(model="m", prompt="x", n={n}, stream=True):
    for choice in chunk.choices:
        said[choice.index] = said.get(choice.index, "") + choice.text
        handle.update(said)
"""


def rows(_: int) -> Iterator[Row]:
    """Yield the messages a second for one choice and for eight, slow and fast. One run tells."""
    with Wire() as wire, kernel.started() as started:
        wire.on(whole({"data": [{"id": "m"}]}), path="/v1/models")
        started.run("%load_ext oai_nb")
        started.run(f"%config OaiNb.base_url = {wire.url!r}")
        for n in (1, 8):
            for rate in (50, 2000):
                wire.on(_stream(n, rate))
                ours = _rate(started, f"%%complete -n {n}\nx")
                peer = _rate(started, PEER.format(url=wire.url, n=n)) if rate > 50 else 0.0
                yield Row(
                    f"messages to the browser, n={n}, {rate:,} tokens/s",
                    "about 10/s",
                    f"{ours:.1f}/s",
                    ours <= BUDGET,
                    f"a drawing for each chunk {peer:,.0f}/s" if peer else "",
                    f"{ours / peer:.3f}x" if peer else "",
                )


def _stream(n: int, rate: int) -> Any:
    """Return a script of events for all choices in turn, as many to a piece as the rate asks for."""
    several = rate // PIECES
    events = [event(" word", k % n) for k in range(rate * SECONDS)]
    pieces = [b"".join(events[i : i + several]) for i in range(0, len(events), several)]
    ends = b"".join(event("", index, "length") for index in range(n))
    return stream(*pieces, ends + DONE, pace=1 / PIECES)


def _rate(started: kernel.Kernel, cell: str) -> float:
    """Return the messages a second that draw something, from the first to the last."""
    came = [when for when, kind, _ in started.run(cell) if kind in DRAWN]
    return len(came) / (came[-1] - came[0])
