"""What a transport tells of an answer beside what the answer says: an extension of its response.

It is no header, which any server could send. Knows completions, and nothing of who tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oai_nb.completion import Completion, Note, Server, Timing

EXTENSION = "oai_nb.told"
"""The name of the extension."""


@dataclass(frozen=True)
class Told:
    """Tell of an answer: `note` is one line for whoever sees it.

    `sent` and `server` are what was sent and who answered, `seconds` how long its first piece and its end
    took, where it is not what was asked now.
    """

    note: str
    sent: Mapping[str, Any] | None = None
    server: Server | None = None
    seconds: tuple[float, float] | None = None

    def of(self, completion: Completion) -> Completion:
        """Return the completion with what is told of it."""
        return replace(
            completion,
            sent=completion.sent if self.sent is None else self.sent,
            server=self.server or completion.server,
            timing=self._timing(completion),
            fidelity=(*completion.fidelity, Note("info", self.note)),
        )

    def _timing(self, completion: Completion) -> Timing | None:
        """Return the times of what answered; those of now for a part of it, and where they are the same."""
        timing = completion.timing
        if self.seconds is None or timing is None or completion.incomplete:
            return timing
        return Timing(timing.started, *self.seconds)


def told(extensions: Mapping[str, Any]) -> Told | None:
    """Return what is told by the extensions of a response; None where that is nothing."""
    found = extensions.get(EXTENSION)
    return found if isinstance(found, Told) else None
