"""Imports that the stop button cannot break, each in a Python of its own."""

import importlib
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from oai_nb import imports

CORE = "numpy._core.overrides" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core.overrides"
needs_stop = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="nobody can press Stop here")

START = """
import signal, sys, threading

PRESSED, CAUGHT = [], threading.Event()

class Press:
    "Somebody who presses Stop at the moment when a module is looked for, and lets its import go on then."

    def __init__(self, moment):
        self.moment = moment

    def find_spec(self, name, path=None, target=None):
        if name == self.moment and not PRESSED:
            PRESSED.append(name)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if threading.current_thread() is not threading.main_thread():
                assert CAUGHT.wait(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
"""
VIEWS = """
from oai_nb import live
from oai_nb.completion import Completion

COLUMNS = {{"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{{"a": -1.0}}], "text_offset": [0]}}
ANSWER = {{"choices": [{{"index": 0, "text": "a", "finish_reason": "stop", "logprobs": COLUMNS}}]}}
completion = Completion.from_json(__import__("json").dumps(ANSWER))
live.show = lambda bundle, **_: print(*bundle)
sys.meta_path.insert(0, Press({moment!r}))
try:
    live.show_view({view!r}, completion)
except KeyboardInterrupt:
    CAUGHT.set()
assert PRESSED and CAUGHT.is_set(), "Stop was never pressed"
live.show_view("table", completion)
live.show_view("heatmap", completion)
assert len(completion.tokens_table()) == 1
import numpy, pandas
assert numpy.matrix and pandas.DataFrame
"""


def run(code, tmp_path):
    """Run a script in a folder of its own, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_stop
@pytest.mark.parametrize(
    ("moment", "view"),
    [
        ("numpy", "table"),
        (CORE, "table"),
        ("numpy.linalg", "table"),
        ("numpy.matrixlib", "table"),
        ("pandas", "table"),
        ("pandas._libs.tslibs.fields", "table"),
        ("pandas.core.config_init", "table"),
        ("plotly", "heatmap"),
        ("plotly.graph_objs", "heatmap"),
        ("oai_nb.strip", "tokens"),
    ],
)
def test_stop_in_the_middle_of_an_import_breaks_nothing(tmp_path, moment, view):
    run(VIEWS.format(moment=moment, view=view), tmp_path)


@needs_stop
def test_a_second_call_waits_for_the_import_that_goes_on(tmp_path):
    (tmp_path / "slow.py").write_text("import slower\nvalue = 1\n")
    (tmp_path / "slower.py").write_text("import __main__\n__main__.count.append(1)\n")
    code = """
        count = []
        from oai_nb import imports
        sys.path.insert(0, "")
        sys.meta_path.insert(0, Press("slower"))
        try:
            imports.load("slow")
        except KeyboardInterrupt:
            assert "slow" in sys.modules and not hasattr(sys.modules["slow"], "value")
            CAUGHT.set()
        assert imports.load("slow").value == 1 and imports.load("slow") is sys.modules["slow"]
        print(*count)
    """
    assert run(code, tmp_path) == ["1"]


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("broken_by_a_name", "import no_such_module_at_all", ModuleNotFoundError),
        ("broken_by_a_fault", "1 / 0", ZeroDivisionError),
        ("broken_by_an_exit", "raise SystemExit(3)", SystemExit),
    ],
)
def test_what_an_import_raises_is_the_callers(tmp_path, monkeypatch, name, code, error):
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(error):
            imports.load(name)


def test_at_the_top_of_a_module_an_import_of_the_same_package_does_not_wait_for_itself(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "__init__.py").write_text("from oai_nb import imports\nimports.load('whole.part')")
    (tmp_path / "whole" / "part.py").write_text("from whole import imports")
    assert run("sys.path.insert(0, ''); import whole; print(whole.part.__name__)", tmp_path) == ["whole.part"]


def test_in_the_main_thread_an_import_is_given_a_thread_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "plain_alone.py").write_text("import threading\nthread = threading.current_thread().name\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert imports.load("plain_alone").thread == "import plain_alone"


def test_in_a_module_that_is_being_imported_and_in_another_thread_it_is_a_plain_import(tmp_path, monkeypatch):
    for name in ("plain_inner", "plain_other"):
        (tmp_path / f"{name}.py").write_text("import threading\nthread = threading.current_thread().name\n")
    (tmp_path / "plain_outer.py").write_text(
        "from oai_nb import imports\ninner = imports.load('plain_inner')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("plain_outer").inner.thread == threading.current_thread().name
    thread = threading.Thread(target=imports.load, args=("plain_other",), name="another")
    thread.start()
    thread.join(60)
    assert imports.load("plain_other").thread == "another"


def test_a_loaded_module_is_returned_as_it_is(monkeypatch):
    monkeypatch.setattr(imports.threading, "Thread", None)
    assert imports.load("subprocess") is subprocess
