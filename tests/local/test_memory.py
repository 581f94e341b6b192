"""Memory and threads of the embedded model: processes of their own, read from /proc."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from oai_nb.local import threads, weights

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
LIMIT = 120  # seconds; against hanging, never a measure
TOUCH_ALL = """
import sys
import numpy as np
from oai_nb.local import weights
found = weights.hold(weights.locate()).matrices
print(sum(float(matrix.sum()) for matrix in found.values()), flush=True)
sys.stdin.readline()
"""


def started(code, *args, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def mapping(pid, path):
    """Return what /proc says of a file's mappings, in kB."""
    found, inside = {}, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            inside = rest[-1] == str(path)
        elif inside and rest[-1] == "kB":
            found[first[:-1]] = found.get(first[:-1], 0) + int(rest[0])
    return found


@LINUX
def test_kernels_share_the_pages_of_the_weights(gguf_path):
    weights.hold(gguf_path)
    prepared = weights.prepared_path(gguf_path).resolve()
    size = prepared.stat().st_size / 1024
    with prepared.open("rb") as file:
        os.fsync(file.fileno())  # what was made just now would be told as dirty
    assert size > 500_000
    with ExitStack() as stack:
        processes = [stack.enter_context(started(TOUCH_ALL)) for _ in range(2)]
        sums = [process.stdout.readline() for process in processes]
        seen = [mapping(process.pid, prepared) for process in processes]
        for process in processes:
            process.communicate("\n", timeout=LIMIT)
    assert sums[0] == sums[1] != ""
    for one in seen:
        assert one["Private_Dirty"] == one["Private_Clean"] == one["Shared_Dirty"] == one["Anonymous"] == 0
        assert one["Shared_Clean"] == one["Rss"] > 0.99 * (size - 64)
        assert one["Pss"] <= one["Rss"] / 2 + 1


COUNT = """
import json, os, sys
from pathlib import Path
if sys.argv[1]:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from oai_nb.local import threads
print(json.dumps([threads.wanted(), threads.available(Path(sys.argv[2]))]))
"""


def counted(folder, alone="", **environment):
    process = started(COUNT, alone, folder, **environment)
    return json.loads(process.communicate(timeout=LIMIT)[0])


def test_one_thread_is_the_default_whatever_the_machine_has(tmp_path):
    wanted, available = counted(tmp_path)
    assert wanted == 1 and available == threads.available(tmp_path)


def test_what_is_asked_for_is_never_more_than_there_is(tmp_path):
    wanted, _ = counted(tmp_path, OAI_NB_THREADS="1000")
    assert wanted == threads.available()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_process_that_may_use_one_processor_uses_one(tmp_path):
    assert counted(tmp_path, alone="yes", OAI_NB_THREADS="8") == [1, 1]


@pytest.mark.parametrize(
    ("quota", "most"), [("50000 100000", 1), ("150000 100000", 2), ("max 100000", 10**6)]
)
def test_a_quota_of_the_control_group_counts(tmp_path, quota, most):
    (tmp_path / "cpu.max").write_text(quota)
    _, available = counted(tmp_path)
    assert available == min(most, threads.available(tmp_path / "none"))


AROUND = """
import json
import numpy
from threadpoolctl import ThreadpoolController
blas = ThreadpoolController().select(user_api="blas")
blas.limit(limits=2)
before = [one["num_threads"] for one in blas.info()]
from oai_nb.local import service
service.load().complete({"prompt": "x", "max_tokens": 1})
print(json.dumps([before, [one["num_threads"] for one in blas.info()]]))
"""


def test_other_work_keeps_its_threads_after_a_completion():
    before, after = json.loads(started(AROUND).communicate(timeout=LIMIT)[0])
    assert before == after == [2]
