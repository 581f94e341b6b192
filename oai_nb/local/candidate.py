"""One growing answer: its tokens, its text, where it stops and how much of it may be shown already.

Pure state; knows nothing of models, JSON or streams. All places are counted in characters.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence

Top = dict[str, float]
"""The likeliest tokens at a position, as the API names them, with their logprobs."""


class Text:
    """The text of a run of tokens, and where in it each token starts and ends.

    A token that holds a part of a character starts and ends with that character. Until the character is
    whole it is no part of `text`. What never becomes a character is U+FFFD.
    """

    def __init__(self) -> None:
        self.text = ""
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: bytes) -> None:
        """Append a token's bytes."""
        self.starts.append(len(self.text))
        self.text += self._decoder.decode(piece)
        half = bool(self._decoder.getstate()[0])
        self.ends.append(len(self.text) + half)

    def close(self) -> None:
        """Let nothing more come: half a character becomes U+FFFD."""
        self.text += self._decoder.decode(b"", final=True)


class Candidate:
    """The k-th answer to a prompt. `finish_reason` is None while it grows, then ``stop`` or ``length``.

    `sampled` counts every token drawn, the end token and those of a stop text included; `ids`, `logprobs`
    and `tops` hold the drawn ones without the end token. `counts` is what penalties are about.
    """

    def __init__(self, prompt_index: int, k: int, stops: Sequence[str] = ()) -> None:
        self.prompt_index = prompt_index
        self.k = k
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.tops: list[Top] = []
        self.counts: Counter[int] = Counter()
        self.sampled = 0
        self.finish_reason: str | None = None
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._run = Text()
        self._cut: int | None = None

    @property
    def text(self) -> str:
        """Give the text so far, which ends before the stop text once that has come."""
        return self._run.text[: self._cut]

    @property
    def starts(self) -> Sequence[int]:
        """Give where in the text each token starts."""
        return self._run.starts

    @property
    def kept(self) -> int:
        """Give how many tokens lie wholly inside the text."""
        return self._inside(len(self.text))

    def add(self, token: int, piece: bytes, logprob: float | None, top: Top | None) -> None:
        """Append a drawn token. `logprob` and `top` are None where nobody asked for them."""
        self.sampled += 1
        self.counts[token] += 1
        self.ids.append(token)
        if logprob is not None:
            self.logprobs.append(logprob)
        if top is not None:
            self.tops.append(top)
        before = len(self._run.text)
        self._run.add(piece)
        self._look_for_stops(before)

    def end(self, reason: str) -> None:
        """Finish: at an end token, which was drawn too, (``stop``) or for lack of room (``length``)."""
        self.sampled += reason == "stop"
        self.finish_reason = reason
        before = len(self._run.text)
        self._run.close()
        self._look_for_stops(before)

    def ready(self) -> tuple[int, int]:
        """Return how many characters and how many tokens may be shown, whatever comes next.

        While it grows these are whole tokens, and none that holds what may become a stop text.
        """
        if self.finish_reason is not None:
            return len(self.text), self.kept
        tokens = self._inside(len(self._run.text) - self._half_a_stop())
        return (self._run.ends[tokens - 1] if tokens else 0), tokens

    def mean_logprob(self) -> float:
        """Return the mean logprob of the tokens in the text; -inf without any."""
        kept = self.logprobs[: self.kept]
        return sum(kept) / len(kept) if kept else float("-inf")

    def _inside(self, characters: int) -> int:
        """Count the tokens that end within the first `characters`."""
        count = len(self._run.ends)
        while count and self._run.ends[count - 1] > characters:
            count -= 1
        return count

    def _look_for_stops(self, before: int) -> None:
        """End before the earliest stop text, which must reach beyond the first `before` characters."""
        since = max(0, before - self._longest + 1)
        places = [place for stop in self._stops if (place := self._run.text.find(stop, since)) >= 0]
        if places:
            self._cut = min(places)
            self.finish_reason = "stop"

    def _half_a_stop(self) -> int:
        """Return the length of the longest end of the text that begins a stop text."""
        text = self._run.text
        return next(
            (
                length
                for length in range(min(self._longest - 1, len(text)), 0, -1)
                if any(stop.startswith(text[-length:]) for stop in self._stops)
            ),
            0,
        )
