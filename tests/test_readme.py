"""The README's commands and examples, run as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import examples
import pytest

from oai_nb.options import BY_FLAG

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
SHELL = examples.commands(PAGE)


def test_the_cells_and_lines_run_one_after_the_other(shell):
    examples.run(shell, PAGE)
    assert shell.user_ns["completion"].text == " Paris", "as the README says"
    assert len(shell.user_ns["story"].top_logprobs_table()) >= 60 * 5


def test_the_commands_are_three_and_name_what_is_there():
    lab, tests, terminal = SHELL
    assert lab.startswith("pip install uv && uv run jupyter lab ") and (ROOT / lab.split()[-1]).is_file()
    assert tests == "uv run pytest"
    assert terminal.startswith("uv run ipython ")


def test_the_terminal_command_shows_a_text():
    words = shlex.split(SHELL[2])[2:]
    done = subprocess.run(
        [sys.executable, "-m", "IPython", *words[1:]], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert "smollm2" in done.stdout and "tokens/s" in done.stdout and len(done.stdout) > 80


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_every_link_leads_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize("option", sorted({*re.findall(r"`(--[a-z-]+)`", README)} - {"--allow-root"}))
def test_every_option_that_is_named_is_there(option):
    assert option in BY_FLAG
