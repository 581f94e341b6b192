"""How near many requests at a time come to the ideal, against the asynchronous peers.

200 requests of 100 ms, 8 or 32 at a time, to a server in a process of its own. Ours run `complete` in
threads, since there is no asynchronous API; the ideal is 200 x 100 ms / 8 or 32.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai

import oai_nb
from benchmarks.measure import Row
from benchmarks.server import DELAY, running

REQUESTS = 200
BUDGETS = {8: 1.07, 32: 1.15}
BODY = {"model": "m", "prompt": "x"}


def rows(rounds: int) -> Iterator[Row]:
    """Yield the time over the ideal."""
    with running() as url:
        for at_once, budget in BUDGETS.items():
            over = _over(url, at_once, min(rounds, 3))
            yield Row(
                f"{REQUESTS} requests of 100 ms, {at_once} at a time, over the ideal",
                f"<= {budget}",
                f"{over[OURS]:.3f}",
                over[OURS] <= budget,
                f"openai async {over[OPENAI]:.3f}, httpx async {over[HTTPX]:.3f}",
                f"{over[OURS] / over[HTTPX]:.2f}x of httpx",
            )


OURS, OPENAI, HTTPX = "oai_nb", "openai", "httpx"


def _over(url: str, at_once: int, rounds: int) -> dict[str, float]:
    """Return each way's median time over the ideal; they take turns."""
    ways = {
        OURS: lambda: _threads(url, at_once),
        OPENAI: lambda: asyncio.run(_openai(url, at_once)),
        HTTPX: lambda: asyncio.run(_httpx(url, at_once)),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
    ideal = REQUESTS * DELAY / at_once
    return {name: statistics.median(seconds) / ideal for name, seconds in taken.items()}


def _threads(url: str, at_once: int) -> float:
    with oai_nb.Client(url) as client, ThreadPoolExecutor(at_once) as pool:
        begun = time.perf_counter()
        texts = pool.map(lambda _: client.complete("x", model="m").text, range(REQUESTS))
        assert "".join(texts) == "x" * REQUESTS
        return time.perf_counter() - begun


async def _openai(url: str, at_once: int) -> float:
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        return await _all(at_once, lambda: client.completions.create(**BODY))


async def _httpx(url: str, at_once: int) -> float:
    async def one() -> str:
        answer = await client.post(f"{url}/completions", json=BODY)
        return answer.json()["choices"][0]["text"]

    async with httpx.AsyncClient(trust_env=False) as client:
        return await _all(at_once, one)


async def _all(at_once: int, one: Callable[[], Awaitable[object]]) -> float:
    """Await all requests, so many at a time."""
    gate = asyncio.Semaphore(at_once)

    async def gated() -> None:
        async with gate:
            await one()

    begun = time.perf_counter()
    await asyncio.gather(*(gated() for _ in range(REQUESTS)))
    return time.perf_counter() - begun
