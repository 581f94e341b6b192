"""One question to a server and what came of it: an `Exchange`, which is a line of a recording.

A recording is JSON Lines in UTF-8: a first line that says what it is, then an exchange a line, in the order
in which they ended. Knows nothing of HTTP, of time that passes, or of who writes and who plays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from oai_nb.errors import ConfigurationError

VERSION = 1
"""The version of the file, in its first line."""
HEAD = {
    "oai_nb": "recording",
    "version": VERSION,
    "what": "answers of servers, by oai_nb.record(); oai_nb.replay() plays them again",
}


@dataclass(frozen=True)
class Exchange:
    """One question to a server and what came of it.

    `take` names the call of `record` that it belongs to, `at` is when it was asked (ISO 8601). `ask` is the
    method and the path below the server, `body` the JSON that was sent. `status` is None where no answer
    began. `pieces` are the parts of the answer with the seconds from the request to them, `seconds` is when
    it ended, and `ended` how: ``whole``, ``stopped`` (by the user or a time limit) or ``failed``; `error` is
    then httpx's name for what happened, and why.
    """

    take: str
    at: str
    server: str
    ask: str
    body: Any
    status: int | None
    headers: Mapping[str, str]
    seconds: float
    ended: str
    error: tuple[str, str] | None
    pieces: tuple[tuple[float, str], ...]

    def line(self) -> bytes:
        """Return the line of the file, its end included."""
        return line({item.name: getattr(self, item.name) for item in fields(self)})

    @property
    def name(self) -> str:
        """Give what was asked for: ``completions``, ``models`` or ``tokenize``."""
        return self.ask.rpartition("/")[2]

    @property
    def model(self) -> str | None:
        """Give the model that was asked."""
        return model_of(self.body)

    @property
    def text(self) -> str:
        """Give the whole body of the answer."""
        return "".join(text for _, text in self.pieces)

    @property
    def asked_at(self) -> float:
        """Give when it was asked, in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def date(self) -> str:
        """Give the day of the recording, where it was made."""
        return self.at.partition("T")[0]


def model_of(body: Any) -> str | None:
    """Return the model that a body names."""
    return body.get("model") if isinstance(body, dict) else None


def line(value: Mapping[str, Any]) -> bytes:
    """Return an object as a line of JSON."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def read(path: Path) -> tuple[list[Exchange], list[str]]:
    """Return what a file holds, and a line of words for each of its lines that cannot be read.

    Raises ConfigurationError where there is no such file or it is none of ours.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error.strerror or error}") from None
    first, *rest = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    check_head(path, first)
    exchanges, complaints = [], []
    for number, text in enumerate(rest, 2):
        value = _object(text)
        if not text.strip() or "oai_nb" in value:
            continue
        try:
            exchanges.append(_exchange(value))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            last = number == len(rest) + 1
            why = "was cut short when it was written" if last else "is damaged"
            complaints.append(f"{path.name}: line {number} {why}, and is left out")
    return exchanges, complaints


def check_head(path: Path, first: bytes) -> None:
    """Raise ConfigurationError where a first line is not that of a recording that can be read."""
    head = _object(first)
    if head.get("oai_nb") != HEAD["oai_nb"]:
        raise ConfigurationError(f"{path.name} is no recording by oai_nb.record(): choose another file")
    if head.get("version") != VERSION:
        said = f"{path.name} has version {head.get('version')} and this oai_nb reads {VERSION}"
        raise ConfigurationError(f"{said}: record it anew, or use the oai_nb that made it")


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _exchange(value: Mapping[str, Any]) -> Exchange:
    """Return the exchange that a line holds. Raises KeyError, TypeError, ValueError or OverflowError."""
    known = {item.name: value[item.name] for item in fields(Exchange)}
    datetime.fromisoformat(known["at"]).timestamp()  # the year 1 has none
    known["pieces"] = tuple((float(at), str(text)) for at, text in known["pieces"])
    if known["error"] is not None:
        name, why = known["error"]
        known["error"] = (str(name), str(why))
    texts = [*known["headers"].values(), *(known[name] for name in ("take", "server", "ask", "ended"))]
    if not (all(isinstance(text, str) for text in texts) and isinstance(known["status"], int | None)):
        raise TypeError
    return Exchange(**known | {"seconds": float(known["seconds"])})
