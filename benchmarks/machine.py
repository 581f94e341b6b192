"""What the figures were measured on."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

import numpy as np

from oai_nb.local import threads

LIBRARIES = ("httpx", "msgspec", "pandas", "plotly", "openai", "xllamacpp", "ipykernel")


def described() -> str:
    """Return the date, the processor, BLAS and the versions, in lines of Markdown."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    return "\n".join(
        [
            f"- {datetime.date.today():%Y-%m-%d}, {platform.system()} {platform.machine()}, "
            f"{threads.available()} processors ({_processor()}){_load()}",
            f"- NumPy {np.__version__}, whose BLAS chose its kernels for: "
            f"{threads.architecture() or 'unknown'}{_forced()}",
            f"- Python {platform.python_version()}, {versions}",
        ]
    )


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _load() -> str:
    """Tell how many programs wanted to run in the last minute, where the system knows."""
    return f", load {os.getloadavg()[0]:.1f} when it began" if hasattr(os, "getloadavg") else ""


def _forced() -> str:
    """Tell what the environment imposes on BLAS, which makes its figures those of another machine."""
    names = sorted(name for name in os.environ if name.startswith("OPENBLAS_"))
    return f" (forced by {', '.join(names)})" if names else ""
