"""A real kernel, of any Python, spoken to over Jupyter's own messages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file

LIMIT = 120


@dataclass
class Kernel:
    """A running kernel."""

    client: BlockingKernelClient

    def run(self, cell: str) -> list[tuple[float, str, dict[str, Any]]]:
        """Run a cell; return when each message came, its type and its content. Raises for an error."""
        came: list[tuple[float, str, dict[str, Any]]] = []

        def keep(message: dict[str, Any]) -> None:
            came.append((time.perf_counter(), message["msg_type"], message["content"]))

        reply = self.client.execute_interactive(
            cell, timeout=LIMIT, output_hook=keep, allow_stdin=False, store_history=False
        )
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{reply['content'].get('evalue')} in {cell!r}")
        return came

    def printed(self, cell: str) -> str:
        """Run a cell; return what it prints."""
        return "".join(
            c["text"] for _, kind, c in self.run(cell) if kind == "stream" and c["name"] == "stdout"
        )


@contextmanager
def started(python: str = sys.executable) -> Iterator[Kernel]:
    """Start a kernel of a Python; stop it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_connection_file(str(Path(folder) / "kernel.json"))
        process = subprocess.Popen(
            [python, "-m", "ipykernel_launcher", "-f", path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
            | {"IPYTHONDIR": folder},
        )
        client = BlockingKernelClient()
        try:
            client.load_connection_file(path)
            client.start_channels(hb=False)  # which a busy machine misses
            client.wait_for_ready(timeout=LIMIT)
            yield Kernel(client)
        finally:
            client.stop_channels()
            process.kill()
            process.wait()
