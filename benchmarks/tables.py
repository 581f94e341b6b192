"""How fast an answer's alternatives become a DataFrame, against building it row by row, in the same run.

    python benchmarks/tables.py [--positions 10000] [--rounds 21]

The answer is decoded from the API's JSON, as it comes from a server: five alternatives a position from a
vocabulary of 6,000, the chosen one drawn from them and the next. Both ways end in equal frames, which is
checked. They take turns, ours three times in a row; the table shows medians, and the first call of all beside
them. The ratio of the processor's time says the same on a machine that has other work.
"""

import argparse
import json
import math
import random
import statistics
import time

import pandas as pd

from oai_nb.decode import decode
from oai_nb.fold import fold
from oai_nb.tables import top_logprobs_table
from oai_nb.visible import visible

BUDGET_MS, BUDGET_RATIO = 7.0, 10.0


def body(positions, k=5):
    """The JSON of an answer."""
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


def row_by_row(answer):
    """The same table as one would write it."""
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


def timed(function, argument):
    wall, cpu = time.perf_counter(), time.thread_time()
    function(argument)
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - cpu)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--positions", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=21)
    asked = options.parse_args()
    text = body(asked.positions)
    completion, plain = fold([decode(text.encode())]), json.loads(text)
    first, _ = timed(top_logprobs_table, completion)
    frame = top_logprobs_table(completion)
    pd.testing.assert_frame_equal(frame, row_by_row(plain))
    ours, naive = [], []
    for _ in range(asked.rounds):
        ours += [timed(top_logprobs_table, completion) for _ in range(3)]
        naive.append(timed(row_by_row, plain))
    print(f"{len(frame):,} rows of {asked.positions:,} positions, {asked.rounds} rounds, milliseconds")
    print(f"{'':12}{'median':>9}{'best':>9}{'processor':>11}{'first':>9}")
    middle = {}
    for name, times in (("oai_nb", ours), ("row by row", naive)):
        wall, cpu = ([one[i] for one in times] for i in (0, 1))
        middle[name] = statistics.median(wall), statistics.median(cpu)
        tail = f"{first:9.2f}" if name == "oai_nb" else ""
        print(f"{name:12}{middle[name][0]:9.2f}{min(wall):9.2f}{middle[name][1]:11.2f}{tail}")
    for i, name in enumerate(("wall", "processor")):
        ratio = middle["row by row"][i] / middle["oai_nb"][i]
        print(f"ratio, {name:10} {ratio:6.1f}x   budget {BUDGET_RATIO:.0f}x")
    print(f"budget {BUDGET_MS:.0f} ms on a machine that has nothing else to do")


if __name__ == "__main__":
    main()
