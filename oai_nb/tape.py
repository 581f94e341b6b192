"""`record` and `replay`: a class's answers, written to a file beside the notebook and played from it.

Both stand between every client of the process and its server, the embedded model too, from the moment they
are called: a recording looks on, a replay answers in the server's place, and opens no connection and loads no
model. What asks knows nothing of either.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, overload

from oai_nb import deck
from oai_nb.errors import ConfigurationError
from oai_nb.recording import Recording
from oai_nb.replaying import Replay


@overload
def record(path: str | os.PathLike[str]) -> Recording: ...
@overload
def record(path: None = None) -> None: ...
def record(path: str | os.PathLike[str] | None = None) -> Recording | None:
    """Record every answer of every server from now on into a file; with no argument, end that.

        oai_nb.record("class.jsonl")  # in the first cell
        oai_nb.record()  # in the last; or close() of what it returned, or `with`

    All clients of this process are recorded, those made before and the embedded model too: the JSON that was
    sent, the answer in the pieces in which it came, and their times; errors, cut and stopped answers as well.
    No header of a request is stored. Keys are masked: the client's, the environment's, and what has the form
    of one. Only a key that may be a word, of fewer than 8 characters or up to 20 small letters, is left where
    it stands in what was asked or in an answer with status 200. An answer is in the file when it has ended;
    one that still runs when the recording or the program ends is kept as far as it came.

    An existing recording is never overwritten: each call begins a new take at its end, and a replay takes for
    each request the newest take that has it. To begin anew, delete the file. Several kernels may record into
    one file. What a kernel had learnt of a server is forgotten first, so that the file stands alone.

    Raises ConfigurationError where the file cannot be written or is no recording, and while replaying.
    """
    path = _path(path)
    if path is None:
        _end(Recording)
        return None
    if isinstance(deck.current, Replay):
        raise ConfigurationError(f"{deck.current.path.name} is being replayed: end that with oai_nb.replay()")
    made = Recording(path)
    _end(Recording)
    deck.current = made
    return made


@overload
def replay(path: str | os.PathLike[str], speed: float = 1.0) -> Replay: ...
@overload
def replay(path: None = None) -> None: ...
def replay(path: str | os.PathLike[str] | None = None, speed: float = 1.0) -> Replay | None:
    """Answer every request from a recording from now on, with no server, key or model; or end that.

        oai_nb.replay("class.jsonl")  # in the first cell; speed=2 plays twice as fast, math.inf at once
        oai_nb.replay()  # asks the servers again; so does close() of what it returned, or `with`

    A request is answered where the file has one of the same path and body, whether it is streamed or not, of
    the same server; or of any, where the file does not have that server and only one answered this. Where
    the same was asked several times, the answers are played in that order, and then again from the first.
    The pieces come after the recorded times divided by `speed`, which is 1 as recorded, and no wait is longer
    than 5 s of those. Errors and cut answers come again as they were.

    Each answer says below it that it is replayed, and from which day; its `server` and `sent` are the
    recorded ones, and so are the seconds of its `timing`. A request that is not in the file raises
    NotRecordedError and is sent nowhere. A recording that is on ends first. A file is read once, when this
    is called.

    Raises ConfigurationError where the file cannot be read or is no recording, or `speed` is not above 0.
    """
    path = _path(path)
    if path is None:
        _end(Replay)
        return None
    made = Replay(path, speed)
    _end(Recording)
    deck.current = made
    return made


def _end(kind: type[Recording | Replay]) -> None:
    if isinstance(deck.current, kind):
        deck.current.close()


def _path(path: Any) -> Path | None:
    """Return a path that stays the same when the kernel changes its folder. Raises ConfigurationError."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigurationError('the file is to be a path, such as "class.jsonl"')
    return Path(path).expanduser().absolute()
