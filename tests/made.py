"""Completions made by hand, for tests of what draws them."""

import math
import random

from oai_nb.completion import Choice, Completion, Server, Timing
from oai_nb.decode import Logprobs
from oai_nb.request import Request

ODD = [" the", "the", "\n", "\\n", "", "\t", "<b>x</b>", "<script>alert(1)</script>", "&lt;", "\u00a0"]
LOCAL = Server("local", "http://127.0.0.1/v1")


def logprobs(tokens, values=None, top=None):
    """The API's columns; without `top`, every token is the likeliest of two."""
    values = [-0.1 - 0.5 * i for i in range(len(tokens))] if values is None else values
    if top is None:
        top = [None if v is None else {t: v, "other": v - 1.0} for t, v in zip(tokens, values)]
    return Logprobs(tuple(tokens), tuple(values), tuple(top), tuple(range(len(tokens))))


def choice(tokens, values=None, top=None, *, text=None, index=0, reason="stop", asked=None, ids=None):
    joined = "".join(tokens) if text is None else text
    return Choice(index, joined, reason, logprobs(tokens, values, top), ids, asked)


def chat(entries, text, *, asked=None):
    """A choice in the chat's form; an entry is (id, token, bytes, logprob, alternatives of the same kind)."""

    def entry(number, token, data, logprob, top=()):
        plain = {"id": number, "token": token, "bytes": list(data), "logprob": logprob}
        return plain | {"top_logprobs": [entry(*one) for one in top]}

    content = tuple(entry(*one) for one in entries)
    return Choice(0, text, "stop", Logprobs(content=content), None, asked)


def completion(*choices, **more):
    return Completion(choices=choices, **more)


def plain(*texts, reason="stop", **more):
    """An answer without logprobs."""
    return completion(*(Choice(i, text, reason) for i, text in enumerate(texts)), **more)


def words(count, k=5, seed=1, *, below=0.1):
    """A choice of `count` made-up tokens with `k` alternatives each; some chosen ones are not among them."""
    dice = random.Random(seed)
    vocabulary = [
        dice.choice(["", " "]) + "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(1, 8)))
        for _ in range(6000)
    ]
    tokens, values, top = [], [], []
    for _ in range(count):
        names = dice.sample(vocabulary, k + 1)
        probs = sorted((dice.random() ** 3 for _ in range(k + 1)), reverse=True)
        scores = [math.log(p / (sum(probs) + 0.2)) for p in probs]
        top.append(dict(zip(names[:k], scores)))
        chosen = k if dice.random() < below else dice.randrange(k)
        tokens.append(names[chosen])
        values.append(scores[chosen])
    return choice(tokens, values, top, asked=k)


REQUEST = Request("Once upon a time", max_tokens=60, seed=7)
TIMING = Timing(0.0, 0.21, 2.5)
