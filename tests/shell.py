"""A real IPython shell in the test's own process, which keeps what a front end would have been sent.

It knows IPython's display protocol (displays, updates, results, errors, streams) and nothing of `oai_nb`.

    ran = shell.run("%%complete\\nOnce upon a time")
    assert ran.error is None and "Once" in ran.screen[0].text
"""

import atexit
import builtins
import contextlib
import io
import signal
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any

import IPython.core.completer
import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

HAS_TAB = hasattr(IPython.core.completer, "context_matcher")  # IPython 8.6 and later
needs_tab = pytest.mark.skipif(not HAS_TAB, reason="this IPython's matchers cannot see the cell")


@dataclass(frozen=True)
class Output:
    """Hold one message: `kind` is display_data, update_display_data, execute_result or clear_output."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str | None = None

    @property
    def text(self) -> str:
        return self.data.get("text/plain", "")

    @property
    def html(self) -> str:
        return self.data.get("text/html", "")


@dataclass(frozen=True)
class Failure:
    """Hold what the front end draws for an error; `exception` is the object itself."""

    name: str
    value: str
    lines: list[str]
    exception: BaseException


@dataclass(frozen=True)
class Ran:
    """Hold all that one cell left behind."""

    outputs: list[Output]
    stdout: str
    stderr: str
    error: Failure | None
    result: Any

    @property
    def screen(self) -> list[Output]:
        return screen(self.outputs)


def screen(outputs: list[Output]) -> list[Output]:
    """Apply updates and clearings: what is seen in the end."""
    seen: list[Output] = []
    for output in outputs:
        if output.kind == "clear_output":
            seen = []
        elif output.kind == "update_display_data":
            seen = [output if old.display_id == output.display_id else old for old in seen]
        else:
            seen.append(output)
    return seen


class _Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        kind = "update_display_data" if update else "display_data"
        self.shell.record(Output(kind, dict(data), dict(metadata or {}), (transient or {}).get("display_id")))

    def clear_output(self, wait=False):
        self.shell.record(Output("clear_output"))


class _Hook(DisplayHook):
    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.record(Output("execute_result", dict(format_dict), dict(md_dict or {})))

    def finish_displayhook(self):
        self._is_active = False


class _Shell(InteractiveShell):
    display_pub_class = Type(_Publisher)
    displayhook_class = Type(_Hook)

    def __init__(self, **options):
        self.outputs: list[Output] = []
        self.failure: Failure | None = None
        self.on_output = lambda output: None
        super().__init__(**options)

    def record(self, output: Output) -> None:
        self.outputs.append(output)
        self.on_output(output)

    def _showtraceback(self, etype, evalue, stb):
        self.failure = Failure(etype.__name__, str(evalue), list(stb), evalue)


class Shell:
    """Run cells in the one InteractiveShell of this process; `ip` is the shell itself."""

    def __enter__(self):
        self._builtins = {name: getattr(builtins, name, None) for name in ("display", "__IPYTHON__")}
        InteractiveShell.clear_instance()
        self.ip = _Shell.instance(config=Config(HistoryManager={"enabled": False}))
        return self

    def __exit__(self, *_):
        self.ip.atexit_operations()
        atexit.unregister(self.ip.atexit_operations)
        self.ip.restore_sys_module_state()
        _Shell.clear_instance()
        for name, value in self._builtins.items():
            builtins.__dict__.pop(name, None) if value is None else setattr(builtins, name, value)
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            sys.__dict__.pop(name, None)

    @property
    def user_ns(self) -> dict[str, Any]:
        return self.ip.user_ns

    @property
    def outputs(self) -> list[Output]:
        """All messages since the shell started, also those that came between cells."""
        return self.ip.outputs

    def run(self, cell: str, stop_at: str | None = None) -> Ran:
        """Run a cell; press the stop button (SIGINT) when the text `stop_at` is first shown as text/plain."""
        start, self.ip.failure = len(self.outputs), None
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), self._stopping(stop_at):
            result = self.ip.run_cell(cell, store_history=True)
        return Ran(self.outputs[start:], out.getvalue(), err.getvalue(), self._failure(result), result.result)

    @contextlib.contextmanager
    def _stopping(self, text: str | None):
        pressed = threading.Event()
        if text is not None and not hasattr(signal, "pthread_kill"):
            pytest.skip("nobody can press Stop here")

        def look(output: Output) -> None:
            if text is not None and text in output.text and not pressed.is_set():
                pressed.set()
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        self.ip.on_output = look
        try:
            yield
        except KeyboardInterrupt:
            raise AssertionError(f"the cell was over when {text!r} was shown") from None
        finally:
            self.ip.on_output = lambda output: None
        assert text is None or pressed.is_set(), f"{text!r} was never shown"

    def _failure(self, result: Any) -> Failure | None:
        """The error as drawn; a usage error is drawn on stderr and not as an error."""
        error = result.error_before_exec or result.error_in_exec
        if self.ip.failure or error is None:
            return self.ip.failure
        return Failure(type(error).__name__, str(error), traceback.format_exception_only(error), error)
