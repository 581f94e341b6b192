"""How many BLAS threads the forward pass may use, and the limit itself.

One by default: two kernels with two threads each on two cores make a tenth of the speed of two with
one each, and `os.cpu_count` does not know of cgroup quotas. Knows the operating system, not the model.
"""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from oai_nb.errors import ConfigurationError

VARIABLE = "OAI_NB_THREADS"


def limit() -> AbstractContextManager[object]:
    """Limit BLAS to `wanted` threads while the context lasts, and only then."""
    manager: AbstractContextManager[object] = _controller().limit(limits=wanted(), user_api="blas")
    return manager


def architecture() -> str:
    """Name the processor for which BLAS chose its kernels, such as Haswell; empty where it does not say."""
    return next(
        (str(one.get("architecture", "")) for one in _controller().select(user_api="blas").info()), ""
    )


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: once is enough


@cache
def wanted() -> int:
    """Return OAI_NB_THREADS, or 1, and never more than `available`. Raises ConfigurationError."""
    text = os.environ.get(VARIABLE) or "1"
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigurationError(f"{VARIABLE}={text!r} is not a number of threads: set 1 or more")
    return min(number, available())


def available(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many processors this process may really use: affinity or cgroup quota, whichever is less."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _quota(cgroups)))


def _quota(cgroups: Path) -> int:
    """Return the smallest quota of this process's control groups (version 1 or 2), in whole processors."""
    found = [affordable for folder in _groups(cgroups) if (affordable := _affordable(folder))]
    return math.ceil(min(found)) if found else 2**31


def _groups(cgroups: Path, own: Path = Path("/proc/self/cgroup")) -> list[Path]:
    """List this process's groups and those above them; inside a container its own is the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    folders = {cgroups, cgroups / "cpu"}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / "cpu" if controllers else cgroups
        for folder in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents):
            folders.add(root / folder)
    return sorted(folders)


def _affordable(group: Path) -> float | None:
    """Return one group's quota in processors, or None without one."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no such group, or "max"
        return None
