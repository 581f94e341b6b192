"""The JSON of the API's answers and events. Knows its shapes; asks nothing of the model."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from oai_nb.local.asked import Asked
from oai_nb.local.candidate import Candidate, Top
from oai_nb.local.generation import Generation

FINGERPRINT = "fp_oai_nb_numpy_1"
"""Changes with anything that changes what a seed gives."""

DONE = b"data: [DONE]\n\n"

_PADDED = 16  # characters; the text of an event is filled up to a multiple of them

Object = dict[str, Any]
Display = Callable[[int], str]
"""A token id to the API's string for it."""


def sse(event: Object) -> bytes:
    """Return an event as it goes over the wire."""
    return f"data: {json.dumps(event)}\n\n".encode()


@dataclass(frozen=True)
class Part:
    """A stretch of a choice: its text, and the columns of the tokens wholly inside it."""

    text: str
    ids: list[int]
    logprobs: list[float | None]
    tops: list[Top | None]
    offsets: list[int]

    def __add__(self, other: Part) -> Part:
        return Part(
            self.text + other.text,
            self.ids + other.ids,
            self.logprobs + other.logprobs,
            self.tops + other.tops,
            self.offsets + other.offsets,
        )


def _echo(generation: Generation, candidate: Candidate) -> Part:
    """Return the prompt; its tokens are told only with their logprobs."""
    prompt = generation.asked.prompts[candidate.prompt_index]
    if not generation.asked.scores_prompts:
        return Part(prompt.text, [], [], [], [])
    scores, count = generation.scores[candidate.prompt_index], len(prompt.ids)
    return Part(prompt.text, list(prompt.ids), scores.logprobs[:count], scores.tops[:count], scores.starts)


def _stretch(
    generation: Generation, candidate: Candidate, since: tuple[int, int], until: tuple[int, int]
) -> Part:
    """Return what lies between two places (characters, tokens) of an answer."""
    before = len(generation.asked.prompts[candidate.prompt_index].text)
    characters, tokens = slice(since[0], until[0]), slice(since[1], until[1])
    return Part(
        candidate.text[characters],
        candidate.ids[tokens],
        list(candidate.logprobs[tokens]),
        list(candidate.tops[tokens]),
        [before + start for start in candidate.starts[tokens]],
    )


def _choice(part: Part, index: int, finish_reason: str | None, asked: Asked, display: Display) -> Object:
    logprobs = None
    if asked.logprobs is not None:
        logprobs = {
            "tokens": [display(token) for token in part.ids],
            "token_logprobs": part.logprobs,
            "top_logprobs": part.tops,
            "text_offset": part.offsets,
        }
    choice = {"text": part.text, "index": index, "logprobs": logprobs, "finish_reason": finish_reason}
    return choice | ({"token_ids": part.ids} if asked.token_ids else {})


def whole(generation: Generation, model: str, display: Display) -> Object:
    """Return the answer of a finished generation."""
    asked, choices = generation.asked, []
    for index, candidate in enumerate(_returned(generation)):
        part = _stretch(generation, candidate, (0, 0), candidate.ready())
        if asked.echo:
            part = _echo(generation, candidate) + part
        choices.append(_choice(part, index, candidate.finish_reason, asked, display))
    return _head(model) | {"choices": choices, "usage": _usage(generation)}


def _returned(generation: Generation) -> Iterator[Candidate]:
    """Yield the choices in order: for each prompt its n candidates, or its n likeliest, likeliest first."""
    asked = generation.asked
    for index in range(len(asked.prompts)):
        own = [candidate for candidate in generation.candidates if candidate.prompt_index == index]
        if asked.ranked:
            own.sort(key=Candidate.mean_logprob, reverse=True)
        yield from own[: asked.n]


def events(generation: Generation, model: str, display: Display) -> Iterator[list[Object]]:
    """Yield, after each forward pass, one event for each choice that has something to tell."""
    asked, head = generation.asked, _head(model)
    told: dict[int, tuple[int, int]] = {}
    for changed in generation.steps():
        choices = []
        for candidate in changed:
            index = candidate.prompt_index * asked.n + candidate.k
            if asked.echo and index not in told:
                choices.append(_choice(_echo(generation, candidate), index, None, asked, display))
            since, until = told.get(index, (0, 0)), candidate.ready()
            if until != since or candidate.finish_reason is not None:
                part = _stretch(generation, candidate, since, until)
                choices.append(_choice(part, index, candidate.finish_reason, asked, display))
            told[index] = until
        yield [_event(head, choice, asked) for choice in choices]
    if asked.include_usage:
        yield [head | {"choices": [], "usage": _usage(generation)}]


def _event(head: Object, choice: Object, asked: Asked) -> Object:
    event = head | {"choices": [choice]}
    if asked.include_usage:
        event["usage"] = None
    if asked.include_obfuscation:
        event["obfuscation"] = secrets.token_hex(_PADDED // 2)[len(choice["text"]) % _PADDED :]
    return event


def _head(model: str) -> Object:
    return {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }


def _usage(generation: Generation) -> Object:
    """Count each prompt once, and every token drawn, whether it is told or not."""
    prompts = sum(max(1, len(prompt.ids)) for prompt in generation.asked.prompts)
    drawn = sum(candidate.sampled for candidate in generation.candidates)
    return {"prompt_tokens": prompts, "completion_tokens": drawn, "total_tokens": prompts + drawn}
