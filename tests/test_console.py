"""The width of a real terminal."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oai_nb import console

pty = pytest.importorskip("pty")
TESTS = Path(__file__).parent
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from made import completion, words
from oai_nb import console, plots, strip, tables
answer = completion(words(12))
bundles = [strip.bundle(answer, ("tokens",)), tables.table_bundle(answer)]
bundles.append(plots.heatmap(answer)._repr_mimebundle_())
print(console.columns(), *(bundle["text/plain"] for bundle in bundles), sep="\\n")
"""


def printed(columns):
    """What a program prints in a terminal so wide, line by line."""
    import fcntl
    import struct
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", CODE, str(TESTS)], stdout=its)
    os.close(its)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # Linux says so when the program has closed the terminal
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return text.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [70, 100])
def test_every_table_fits_the_terminal(columns):
    first, *lines = printed(columns)
    assert first == str(columns) and len(lines) > 60
    assert max(len(line) for line in lines if "_table()" not in line) <= columns


def test_a_terminal_is_as_wide_as_it_is_now(monkeypatch):
    import termios

    ours, its = pty.openpty()
    with os.fdopen(ours), os.fdopen(its, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        for columns in (60, 132):
            termios.tcsetwinsize(its, (24, columns))
            assert console.columns() == columns


def test_a_file_or_a_notebook_has_no_width(capsys):
    assert console.columns() is None


class Claims(io.StringIO):
    """Say that it is a terminal, which it is not, as some notebooks' streams do."""

    def isatty(self):
        return True


def test_what_is_no_terminal_after_all_has_no_width(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stdout in (None, closed, Claims()):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            width = console.columns()
        assert width is None
