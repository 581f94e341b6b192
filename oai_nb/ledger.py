"""The file of the history: an SQLite database that several kernels may write at once, and one be killed at.

A connection lives for one transaction and no longer, so none is ever carried over a fork. The journal is
SQLite's own default, which rolls back; WAL needs memory that processes share, which no network's file system
has. Knows rows, and nothing of threads or of what is in them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from oai_nb.entry import Entry
from oai_nb.errors import ConfigurationError

T = TypeVar("T")

NAME = "history.sqlite3"
"""The file's name where the user gives none."""
MOST_RUNS = 10_000
MOST_BYTES = 100 * 2**20
"""What the file may hold: the oldest runs make room. Their room in the file is used again."""
BUSY = 10.0
"""Seconds to wait for other kernels that are writing."""
VERSION = 1

_APPLICATION = 0x6F61_696E  # "oain": tells the file from another program's
_APPLICATION_AT = slice(68, 72)  # in its first bytes
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLE = """
    CREATE TABLE runs (
        run INTEGER PRIMARY KEY AUTOINCREMENT,
        started REAL NOT NULL,
        model TEXT NOT NULL,
        text TEXT NOT NULL,
        finish_reason TEXT,
        prompt_tokens INTEGER,
        completion_tokens INTEGER,
        record TEXT NOT NULL,
        events BLOB NOT NULL
    )
"""
_COLUMNS = ", ".join(Entry._fields)
_PLACES = ", ".join("?" * len(Entry._fields))


class Ledger:
    """The file at `path`; `say` is told where it was damaged and had to be moved aside.

    Every method raises ConfigurationError for a file of another program or of a newer oai_nb, sqlite3.Error
    and OSError.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say

    def add(self, entries: Sequence[Entry]) -> None:
        """Add rows, all or none, and let the oldest make room."""
        self._at("BEGIN IMMEDIATE", lambda connection: _add(connection, self._path, entries))

    def lines(self) -> list[tuple[int, Entry]]:
        """Return all rows with their numbers, the newest last, and without the events of their answers."""
        names = _COLUMNS.replace("events", "x''")
        query = f"SELECT run, {names} FROM runs ORDER BY run"  # noqa: S608 - names of ours
        return [(run, Entry(*row)) for run, *row in self._read(query)]

    def find(self, run: int) -> tuple[str, bytes] | None:
        """Return the record and the events of one row, or None."""
        found = self._read("SELECT record, events FROM runs WHERE run = ?", run)
        return found[0] if found else None

    def forget(self, run: int | None) -> int:
        """Delete one row or all, so that nothing of them is left in the file; return how many there were."""
        if not self._path.exists():
            return 0
        count: int = self._at("BEGIN IMMEDIATE", lambda connection: _delete(connection, self._path, run))
        if run is None and count:
            self._shrink()
        return count

    def _read(self, query: str, *values: Any) -> list[Any]:
        """Return what a query gives; it needs no leave to write. Nothing where there is no file yet."""
        if not self._path.exists():
            return []
        return self._at("BEGIN", lambda connection: _rows(connection, self._path, query, values))

    def _made(self) -> None:
        """Make the file, for nobody else to read, if there is none."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _at(self, begin: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in one transaction; in a new file, if this one turns out to be damaged."""
        self._made()
        seen = self._path.stat()
        try:
            with _transaction(self._path, begin) as connection:
                return work(connection)
        except sqlite3.DatabaseError as error:
            damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
            if self._is_still(seen) and not damaged:
                raise
        self._begin_anew(seen)
        with _transaction(self._path, begin) as connection:
            return work(connection)

    def _is_still(self, seen: os.stat_result) -> bool:
        """Tell whether no other kernel has moved the file aside since."""
        with suppress(FileNotFoundError):
            return os.path.samestat(seen, self._path.stat())
        return False

    def _begin_anew(self, damaged: os.stat_result) -> None:
        """Move a damaged file aside, by one kernel at a time; the system frees the lock of one that dies."""
        with closing(
            sqlite3.connect(_beside(self._path, ".lock"), timeout=BUSY, isolation_level=None)
        ) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            if self._is_still(damaged):
                self._move_aside()
            self._made()

    def _shrink(self) -> None:
        with suppress(sqlite3.OperationalError), closing(_connected(self._path)) as connection:
            connection.execute("VACUUM")  # where another kernel reads, the room is only used again

    def _move_aside(self) -> None:
        """Give the file another name, and its journal with it, which would spoil the next one."""
        if not _ours(self._path):
            raise _refused(self._path, "is no history of oai_nb")
        aside = _beside(self._path, f".damaged-{time.time_ns()}")
        with suppress(FileNotFoundError):
            _beside(self._path, "-journal").rename(_beside(aside, "-journal"))
        self._path.rename(aside)
        self._say(f"the history was damaged: it begins anew, and the old one is {aside}")


@contextmanager
def _transaction(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    with closing(_connected(path)) as connection:
        connection.execute(begin)
        yield connection
        connection.execute("COMMIT")


def _connected(path: Path) -> sqlite3.Connection:
    """Open a file that is there; SQLite would make one that all can read."""
    named = quote(path.absolute().as_posix())
    address = f"file://{'' if named.startswith('/') else '/'}{named}?mode=rw"
    connection = sqlite3.connect(address, timeout=BUSY, isolation_level=None, uri=True)
    connection.execute("PRAGMA secure_delete = ON")
    return connection


def _known(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell a history from an empty file. Raises ConfigurationError for a file that is not for us to use."""
    if _pragma(connection, "application_id") == _APPLICATION:
        if _pragma(connection, "user_version") > VERSION:
            raise _refused(path, "was written by a newer oai_nb")
        return True
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise _refused(path, "is no history of oai_nb")
    return False


def _refused(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(f"{path} {why}: set OAI_NB_HISTORY to another file, or to off")


def _rows(connection: sqlite3.Connection, path: Path, query: str, values: Sequence[Any]) -> list[Any]:
    return connection.execute(query, values).fetchall() if _known(connection, path) else []


def _add(connection: sqlite3.Connection, path: Path, entries: Sequence[Entry]) -> None:
    if not _known(connection, path):
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.executemany(f"INSERT INTO runs ({_COLUMNS}) VALUES ({_PLACES})", entries)  # noqa: S608
    (last,) = connection.execute("SELECT max(run) FROM runs").fetchone()
    connection.execute("DELETE FROM runs WHERE run <= ?", (last - MOST_RUNS,))
    oldest = "DELETE FROM runs WHERE run = (SELECT min(run) FROM runs) AND run < ?"
    while _used(connection) > MOST_BYTES and connection.execute(oldest, (last,)).rowcount:
        pass


def _used(connection: sqlite3.Connection) -> int:
    """Return how many bytes of the file are in use."""
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    size: int = pages * _pragma(connection, "page_size")
    return size


def _delete(connection: sqlite3.Connection, path: Path, run: int | None) -> int:
    if not _known(connection, path):
        return 0
    return connection.execute("DELETE FROM runs WHERE :run IS NULL OR run = :run", {"run": run}).rowcount


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _ours(path: Path) -> bool:
    """Tell whether a damaged file was ours: by what its head says, or by the name that only ours has."""
    with path.open("rb") as file:
        head = file.read(_APPLICATION_AT.stop)
    return head[_APPLICATION_AT] == _APPLICATION.to_bytes(4) or path.name == NAME
