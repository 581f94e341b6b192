"""Generate what was asked, one forward pass at a time.

Knows the model and the sampler; knows nothing of JSON. `Generation.steps` is a generator, so that whoever
drives it can let several requests take turns, and can stop it between two passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oai_nb.local.asked import Asked, Prompt
from oai_nb.local.candidate import Candidate, Text, Top
from oai_nb.local.model import Cache, Model, chunks
from oai_nb.local.tokenizer import Tokenizer
from oai_nb.sampling import log_softmax, top_k

GROUP = 16
"""Candidates that run together: more take memory (46 kB a token each) and are hardly faster."""

DIGITS = 6
"""Decimals of logprobs that are told: float32 logits have no more."""


@dataclass
class Scores:
    """The columns of a prompt's tokens; the first has no logprob. `starts` are places in its text."""

    starts: list[int]
    logprobs: list[float | None] = field(default_factory=lambda: [None])
    tops: list[Top | None] = field(default_factory=lambda: [None])


class Generation:
    """The state of one request: its `candidates`, prompt by prompt, and the `scores` of its prompts."""

    def __init__(self, asked: Asked, model: Model, tokenizer: Tokenizer) -> None:
        self.asked = asked
        self.candidates: list[Candidate] = []
        self.scores: list[Scores] = []
        self._model = model
        self._tokenizer = tokenizer

    def steps(self) -> Iterator[Sequence[Candidate]]:
        """Yield, after each forward pass, the candidates that have changed; none while a prompt is read."""
        for index, prompt in enumerate(self.asked.prompts):
            begun = [Candidate(index, k, self.asked.stops) for k in range(self.asked.candidates)]
            self.scores.append(Scores(self._starts(prompt)))
            if self.asked.max_tokens or self.asked.scores_prompts:
                yield from self._prompt(prompt, begun)
            else:
                yield from self._unwritten(begun)

    def _starts(self, prompt: Prompt) -> list[int]:
        text = Text()
        for token in prompt.ids if self.asked.scores_prompts else ():
            text.add(self._tokenizer.piece(token))
        return text.starts

    def _prompt(self, prompt: Prompt, begun: list[Candidate]) -> Iterator[Sequence[Candidate]]:
        ids = prompt.ids or (self._tokenizer.encode("<|endoftext|>")[0],)
        cache = self._model.cache(len(ids))
        for part in chunks(ids):
            hidden = self._model.read(part, cache)
            if self.asked.scores_prompts:
                self._score(prompt, cache.length - len(part), self._model.logits(hidden))
            yield ()
        if self.asked.max_tokens:
            logits = self._model.logits(hidden[-1:])
            for first in range(0, len(begun), GROUP):
                yield from self._answers(begun[first : first + GROUP], cache, logits)
        else:
            yield from self._unwritten(begun)

    def _answers(
        self, group: list[Candidate], cache: Cache, logits: NDArray[np.float32]
    ) -> Iterator[Sequence[Candidate]]:
        """Write a group of answers side by side; `logits` are the prompt's last."""
        self.candidates += group
        branches = cache.fork(len(group))
        rows = np.repeat(logits, len(group), axis=0)
        while True:
            for candidate, row in zip(group, rows, strict=True):
                self._extend(candidate, row)
            yield group
            growing = [i for i, candidate in enumerate(group) if candidate.finish_reason is None]
            if not growing:
                return
            if len(growing) < len(group):
                branches.keep(growing)
                group = [group[i] for i in growing]
            rows = self._model.step([candidate.ids[-1] for candidate in group], branches)

    def _unwritten(self, begun: list[Candidate]) -> Iterator[Sequence[Candidate]]:
        """End candidates that were to have no tokens."""
        for candidate in begun:
            candidate.end("length")
        self.candidates += begun
        yield begun

    def _score(self, prompt: Prompt, start: int, logits: NDArray[np.float32]) -> None:
        """Note the logprobs of the prompt's tokens that follow those from `start` on."""
        scores = self.scores[-1]
        for row, token in zip(logits, prompt.ids[start + 1 :], strict=False):
            logprob, top = self._told(log_softmax(row), token)
            scores.logprobs.append(logprob)
            scores.tops.append(top)

    def _extend(self, candidate: Candidate, logits: NDArray[np.float32]) -> None:
        """Draw a candidate's next token."""
        asked = self.asked
        place = (asked.seed, candidate.prompt_index, candidate.k, candidate.sampled)
        token = asked.sampling.sample(logits, candidate.counts, place)
        if token in self._tokenizer.end_ids:
            candidate.end("stop")
            return
        logprob, top = None, None
        if asked.logprobs is not None or asked.ranked:
            logprob, top = self._told(log_softmax(logits), token)
        candidate.add(token, self._tokenizer.piece(token), logprob, top)
        if candidate.finish_reason is None and candidate.sampled == asked.max_tokens:
            candidate.end("length")

    def _told(self, logprobs: NDArray[np.float64], token: int) -> tuple[float, Top | None]:
        """Return a token's logprob and those of the likeliest at its place, its own among them."""
        own = round(float(logprobs[token]), DIGITS)
        if self.asked.logprobs is None:
            return own, None
        display = self._tokenizer.display
        top = {display(i): round(float(logprobs[i]), DIGITS) for i in top_k(logprobs, self.asked.logprobs)}
        top.setdefault(display(token), own)
        return own, top
