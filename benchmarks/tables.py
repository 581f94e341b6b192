"""How fast an answer's alternatives become a DataFrame, against building it row by row.

The answer is decoded from the API's JSON, as it comes from a server: five alternatives a position from a
vocabulary of 6,000, the chosen one drawn from them and the next. Both ways end in equal frames, which is
checked. In turns with the other way, ours finds nothing in the processor's cache; the budget in milliseconds
is for tables made one after the other.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import pandas as pd

from benchmarks.measure import Row, alternate, faster
from oai_nb.decode import decode
from oai_nb.fold import fold
from oai_nb.tables import top_logprobs_table
from oai_nb.visible import visible

POSITIONS, ALTERNATIVES = 10_000, 5
BUDGET_MS, BUDGET_RATIO = 7, 10


def rows(rounds: int) -> Iterator[Row]:
    """Yield the time of one table."""
    text = body(POSITIONS)
    completion, plain = fold([decode(text.encode())]), json.loads(text)
    pd.testing.assert_frame_equal(pd.DataFrame(top_logprobs_table(completion)), row_by_row(plain))
    ways = {
        "row by row": lambda: row_by_row(plain),
        "oai_nb": lambda: top_logprobs_table(completion),
    }
    times = alternate(ways, 3 * rounds)
    ours, naive = times["oai_nb"], times["row by row"]
    wall, words = faster(naive, ours)
    again = alternate({"oai_nb": ways["oai_nb"]}, 3 * rounds)["oai_nb"]
    milliseconds = 1e3 * again.seconds
    yield Row(
        f"top_logprobs table, {POSITIONS:,} x {ALTERNATIVES}",
        f">= {BUDGET_RATIO}x, <= {BUDGET_MS} ms",
        f"{milliseconds:.1f} ms again and again, {1e3 * ours.seconds:.1f} in turns",
        wall >= BUDGET_RATIO and milliseconds <= BUDGET_MS,
        f"row by row {1e3 * naive.seconds:.0f} ms",
        words,
    )


def body(positions: int, k: int = ALTERNATIVES) -> str:
    """Return the JSON of an answer."""
    dice = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = {
        dice.choice(["", " "]) + "".join(dice.choices(letters, k=dice.randint(1, 9))) for _ in range(6000)
    }
    vocabulary = [*sorted(words), "\n", " ", "é", "“"]
    tokens, own, top = [], [], []
    for _ in range(positions):
        names = dice.sample(vocabulary, k + 1)
        scores = sorted((-dice.expovariate(0.5) for _ in names), reverse=True)
        top.append(dict(zip(names[:k], scores, strict=False)))
        chosen = dice.choices(range(k + 1), [math.exp(score) for score in scores])[0]
        tokens.append(names[chosen])
        own.append(scores[chosen])
    logprobs = {"tokens": tokens, "token_logprobs": own, "top_logprobs": top, "text_offset": []}
    choice = {"index": 0, "text": "".join(tokens), "logprobs": logprobs, "finish_reason": "length"}
    return json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice]})


def row_by_row(answer: Any) -> pd.DataFrame:
    """Return the same table as one would write it."""
    rows = []
    for choice in answer["choices"]:
        logprobs = choice["logprobs"]
        columns = zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
        for position, (token, own, top) in enumerate(columns):
            k = len(top)
            ranked = sorted((top if token in top else {**top, token: own}).items(), key=lambda one: -one[1])
            for rank, (name, logprob) in enumerate(ranked, 1):
                rows.append(
                    {
                        "choice": choice["index"],
                        "position": position,
                        "rank": rank if rank <= k else pd.NA,
                        "token": name,
                        "shown": visible(name),
                        "token_id": pd.NA,
                        "logprob": logprob,
                        "prob": math.exp(logprob),
                        "chosen": name == token,
                    }
                )
    types = {"rank": "Int64", "token_id": "Int64", "token": "object", "shown": "object"}
    return pd.DataFrame(rows).astype(types)
