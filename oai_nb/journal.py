"""The history: every run that has ended is written down, by a thread of its own that nobody waits for.

Where it is written is one file of the user's: `OAI_NB_HISTORY` names another, or is ``off``. What goes wrong
with it stops no run; the user is told once, by the next call, since what another thread writes may land below
any cell. Cheap to import: SQLite is when the first run has ended.
"""

from __future__ import annotations

import atexit
import operator
import os
import sys
import threading
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oai_nb.checks import shown
from oai_nb.configuration import configuration
from oai_nb.errors import BrokenStreamError, ConfigurationError, InvalidRequestError
from oai_nb.imports import load

if TYPE_CHECKING:
    from oai_nb.completion import Completion
    from oai_nb.entry import Entry
    from oai_nb.ledger import Ledger
    from oai_nb.run import Run

HISTORY, OFF = "OAI_NB_HISTORY", "off"
THREAD = "oai-nb-journal"
_OFF = (OFF, "0", "no", "false")
_NUMBERS = 2**63  # SQLite counts no further
PATIENCE = 5.0
"""Seconds that a reader, or the end of the interpreter, waits for what is still being written."""


def watch(run: Run) -> None:
    """End a run when the interpreter ends, so that what has come of it is kept."""
    _under_way.add(run)


def keep(run: Run) -> None:
    """Write down a run that has ended, soon; nothing where the history is switched off. Never raises."""
    named = os.environ.get(HISTORY, "")
    on = not _is_off(named) if configuration.history is None else configuration.history
    if on:
        _writer.add(run, named)


def lines() -> list[tuple[int, Entry]]:
    """Return all kept runs with their numbers, the newest last, without the events of their answers.

    Raises ConfigurationError.
    """
    with _file() as ledger:
        return ledger.lines()


def recall(run: int) -> Completion:
    """Return an earlier completion by its number in `history`, as it was: texts, logprobs, request, notes.

    Raises InvalidRequestError where there is no such run, and ConfigurationError where the history cannot be
    read.
    """
    number = _number(run)
    with _file() as ledger:
        found = ledger.find(number)
    if found is None:
        raise InvalidRequestError(
            f"there is no run {number}: history() lists them", parameter="run", value=run
        )
    try:
        completion: Completion = load("oai_nb.entry").completion_of(*found)
        return completion
    except (ValueError, zlib.error, BrokenStreamError) as error:
        raise ConfigurationError(f"run {number} cannot be read: {error}") from None


def forget(run: int | Literal["all"]) -> int:
    """Delete one run from the history, or ``"all"`` of them, for good; return how many that were.

    Raises InvalidRequestError for what is neither, and ConfigurationError where the history cannot be
    changed.
    """
    number = None if run == "all" else _number(run)
    with _file() as ledger:
        return ledger.forget(number)


def tell() -> None:
    """Write on stderr what has gone wrong with the history, each thing once."""
    while _untold:
        line = _untold.pop(0)
        if sys.stderr is not None:
            sys.stderr.write(f"oai_nb: {line}\n")


def flush(patience: float = PATIENCE) -> bool:
    """Wait until every run that has ended is written down; tell whether that is so."""
    return _writer.wait(patience)


def _number(run: object) -> int:
    with suppress(TypeError):
        number = operator.index(run)  # type: ignore[arg-type]
        if 0 < number < _NUMBERS and not isinstance(run, bool):
            return number
    message = f"run={shown(run)} is not the number of a run: history() lists them, forget('all') deletes all"
    raise InvalidRequestError(message, parameter="run", value=run)


# --- the file ---

_alone = threading.RLock()  # held around whatever touches the file


def _is_off(named: str) -> bool:
    return named.strip().lower() in _OFF


@cache  # so that it stays where it is when the kernel changes its folder
def _place(named: str) -> Path:
    """Return the file that the environment names, or the one in the user's data folder."""
    if named and not _is_off(named):
        with suppress(RuntimeError):  # there is no such user
            return Path(named).expanduser().absolute()
        return Path(named).absolute()
    folder: Path = load("platformdirs").user_data_path("oai_nb", appauthor=False)
    name: str = load("oai_nb.ledger").NAME
    return folder / name


@contextmanager
def _file() -> Iterator[Ledger]:
    """Give the file with all in it that has ended. Raises ConfigurationError for whatever goes wrong."""
    flush()
    path = _place(os.environ.get(HISTORY, ""))
    ledger: Ledger = load("oai_nb.ledger").Ledger(path, _note)
    try:
        with _alone:
            yield ledger
    except (OSError, load("sqlite3").Error) as error:
        raise ConfigurationError(f"the history {path} cannot be used: {error}") from None
    finally:
        tell()


# --- the thread that writes ---


class _Writer:
    """A daemon thread, started by the first run, and what it has still to write."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[Run, str]] = []
        self._busy = False
        self._started = False

    def add(self, run: Run, named: str) -> None:
        with self._changed:
            if self._is_started():
                self._waiting.append((run, named))
                self._changed.notify_all()
                return
        if not sys.is_finalizing():
            _write([(run, named)])

    def _is_started(self) -> bool:
        """Start the thread, if it is not; tell whether it runs. None begins while the interpreter ends."""
        if not self._started and not sys.is_finalizing():  # when Python 3.11 would wait for it for ever
            with suppress(RuntimeError):
                threading.Thread(target=self._write_forever, name=THREAD, daemon=True).start()
                self._started = True
        return self._started

    def wait(self, patience: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._busy), patience)

    def _write_forever(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                self._busy, runs = True, self._waiting
                self._waiting = []
            _write(runs)
            del runs  # keeps no answer alive


def _write(runs: list[tuple[Run, str]]) -> None:
    """Write runs down, those for one file in one transaction. Never raises."""
    places: dict[str, list[Entry]] = {}
    for run, named in runs:
        try:
            entry = _entry(run)
            places.setdefault(named, []).append(entry)
        except Exception as error:  # a fault of ours, which is to cost no other run
            _note(f"a run is missing from the history, because of a {type(error).__name__} in oai_nb")
    for named, entries in places.items():
        _write_into(named, entries)


def _entry(run: Run) -> Entry:
    from oai_nb.entry import entry_of

    return entry_of(run.completion, run.intake.events, run.peer.http.mask)


def _write_into(named: str, entries: list[Entry]) -> None:
    from oai_nb.ledger import Ledger

    path: Path | None = None
    try:
        path = _place(named)
        with _alone:
            Ledger(path, _note).add(entries)
    except ConfigurationError as error:
        _note(f"runs are missing from the history: {error}")
    except Exception as error:  # whatever a disk, a lock or a library has against it
        _note(f"runs are missing from the history, as {path or named} cannot be written: {error}")


_writer = _Writer()
_under_way: weakref.WeakSet[Run] = weakref.WeakSet()
_untold: list[str] = []
_noted: set[str] = set()


def _note(line: str) -> None:
    """Keep a line for `tell`, the first time that there is reason to say it."""
    if line not in _noted:
        _noted.add(line)
        _untold.append(line)


def _end() -> None:
    for run in tuple(_under_way):
        run.stop("the program ended")
    flush()
    tell()


def _begin_anew() -> None:
    """Leave the parent's runs to the parent, whose thread and locks do not live in the child."""
    global _alone, _writer
    _alone, _writer = threading.RLock(), _Writer()
    _under_way.clear()


def _hold() -> None:
    """Let no fork come between what SQLite does, whose own locks the child could never free."""
    _alone.acquire(timeout=1.0)


def _let_go() -> None:
    with suppress(RuntimeError):  # it was not to be had in time
        _alone.release()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_begin_anew)
