"""What importing and loading bring in, each in a Python of its own."""

import json
import subprocess
import sys

import pytest
from shell import HAS_TAB

import oai_nb

HEAVY = {
    "anywidget",
    "asyncio",
    "httpx",
    "ipywidgets",
    "msgspec",
    "numpy",
    "oai_nb.client",
    "oai_nb.completion",
    "oai_nb.request",
    "pandas",
    "platformdirs",
    "plotly",
    "sqlite3",
    "threadpoolctl",
}
SHELL = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
"""


def modules(code, tmp_path, before=""):
    """Return the modules that `code` adds to those that `before` has brought in."""
    start, end = (
        "import json, sys; then = set(sys.modules)",
        "print(json.dumps(sorted(set(sys.modules) - then)))",
    )
    script = "\n".join([before, start, code, end])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={"IPYTHONDIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_brings_in_nothing_else(tmp_path):
    added = modules("import oai_nb; dir(oai_nb); oai_nb.__all__", tmp_path)
    assert {name for name in added if name.startswith("oai_nb")} == {"oai_nb"}
    assert not added & HEAVY


def test_loading_the_extension_brings_in_nothing_heavy(tmp_path):
    added = modules("shell.run_line_magic('load_ext', 'oai_nb')", tmp_path, before=SHELL)
    assert "oai_nb.magic" in added and not added & HEAVY
    assert {name for name in added if name.startswith("oai_nb.")} <= {
        "oai_nb.cell",
        "oai_nb.checks",
        "oai_nb.code",
        "oai_nb.completer",
        "oai_nb.config",
        "oai_nb.configuration",
        "oai_nb.errors",
        "oai_nb.imports",
        "oai_nb.live",
        "oai_nb.magic",
        "oai_nb.options",
        "oai_nb.parameters",
        "oai_nb.parser",
        "oai_nb.visible",
    }


def test_the_help_tab_and_unloading_bring_in_nothing_heavy_either(tmp_path):
    code = "\n".join(
        [
            "shell.run_line_magic('load_ext', 'oai_nb')",
            "shell.run_cell('%%complete?')",
            "shell.Completer.use_jedi = False",
            "from IPython.core.completer import provisionalcompleter",
            "with provisionalcompleter():",
            "    list(shell.Completer.completions('%%complete --model ', 19))",
            "    offered = len(list(shell.Completer.completions('%%complete --t', 14)))",
            f"    assert offered == {2 if HAS_TAB else 0}, offered",
            "shell.run_line_magic('unload_ext', 'oai_nb')",
        ]
    )
    assert not modules(code, tmp_path, before=SHELL) & HEAVY


@pytest.mark.parametrize("name", oai_nb.__all__)
def test_every_public_name_is_there_and_stays_what_it_is(name):
    value = getattr(oai_nb, name)
    assert name in dir(oai_nb)
    assert type(value).__name__ != "module", "a module of that name would take the name's place"


def test_a_module_never_takes_a_public_names_place(tmp_path):
    code = (
        "import pkgutil, importlib, types, oai_nb\n"
        "for one in pkgutil.iter_modules(oai_nb.__path__):\n"
        "    one.name == '__main__' or importlib.import_module('oai_nb.' + one.name)\n"
        "wrong = [name for name in oai_nb.__all__ if isinstance(getattr(oai_nb, name), types.ModuleType)]\n"
        "assert wrong == [], wrong"
    )
    modules(code, tmp_path)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'oai_nb' has no attribute 'compleet'"):
        _ = oai_nb.compleet


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert oai_nb.__version__ == version("oai-nb")
