"""The order of the modules, kept by reading them: imports go down only, libraries stay in their rooms."""

import ast
import sys
from pathlib import Path

import pytest

import oai_nb

PACKAGE = Path(oai_nb.__file__).parent
LAYERS = [
    {"errors", "checks", "imports", "parameters", "signature", "sse", "sampling", "visible"},
    {"code", "request", "decode", "tokens", "measures", "completion", "fold"},
    {
        *("address", "keys", "deadline", "loop", "http", "intake", "servers", "peer", "run"),
        *("completion_stream", "client", "settings", "local"),
        *("configuration", "entry", "ledger", "journal"),
        *("deck", "exchange", "recorded", "recording", "replaying", "tape", "told"),
    },
    {
        *("markup", "pieces", "alternatives", "footer", "console", "strip", "plots"),
        *("frame", "tables", "table_view", "history_table"),
    },
    {"live"},
    {"options", "parser", "cell", "config", "completer", "magic"},
    {"__init__", "__main__"},
]
# Where each library may be imported; the standard library may be anywhere.
ROOMS = {
    "httpx": {"client", "http", "local", "recording", "replaying"},
    "numpy": {"sampling", "local", "tables"},
    "pandas": {"frame", "tables"},
    "plotly": {"plots"},
    "msgspec": {"decode"},
    "threadpoolctl": {"local"},
    "platformdirs": {"local", "journal"},
    "IPython": {"live", "cell", "completer", "magic"},
    "traitlets": {"config"},
}
FACES = {"magic"}


def modules():
    """Yield each module's room (its name, or its folder's), path and syntax tree."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield parts[0], path, ast.parse(path.read_text())


def imported(tree):
    """Return the dotted names that a module imports, at its top or in a function, but not for types alone."""
    names = set()
    skipped = {id(n) for node in ast.walk(tree) if is_typing_only(node) for n in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("load", "imports.load"):
            names |= {one.value for one in node.args if isinstance(one, ast.Constant)}
    return names


def is_typing_only(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def layer_of(room):
    return next((number for number, rooms in enumerate(LAYERS) if room in rooms), None)


ALL = [pytest.param(room, path, tree, id=str(path.relative_to(PACKAGE))) for room, path, tree in modules()]


@pytest.mark.parametrize(("room", "path", "tree"), ALL)
def test_every_module_has_a_layer(room, path, tree):
    assert layer_of(room) is not None


@pytest.mark.parametrize(("room", "path", "tree"), ALL)
def test_imports_go_down_only(room, path, tree):
    own = layer_of(room)
    for name in imported(tree):
        if name.startswith("oai_nb.") and room != "__init__":
            other = name.split(".")[1]
            number = layer_of(other)
            if number is not None:
                assert number <= own, f"{room} (layer {own}) imports {other} (layer {number})"
                assert not (room in FACES and other in FACES and room != other), (
                    "faces never import each other"
                )


@pytest.mark.parametrize(("room", "path", "tree"), ALL)
def test_each_library_stays_in_its_rooms(room, path, tree):
    for name in imported(tree):
        library = name.split(".")[0]
        if library != "oai_nb" and library not in sys.stdlib_module_names:
            assert room in ROOMS.get(library, ()), f"{path.name} imports {library}"


def test_no_two_modules_import_each_other():
    graph = {}
    for room, _, tree in modules():
        if room not in ("__init__", "local"):
            graph[room] = {name.split(".")[1] for name in imported(tree) if name.startswith("oai_nb.")} - {
                room
            }

    def reaches(start, goal, seen):
        return any(
            nxt == goal or (nxt not in seen and reaches(nxt, goal, seen | {nxt}))
            for nxt in graph.get(start, ())
        )

    assert [room for room in graph if reaches(room, room, {room})] == []


@pytest.mark.parametrize(("room", "path", "tree"), ALL)
def test_modules_and_functions_fit_their_screens(room, path, tree):
    lines = len(path.read_text().splitlines())
    assert lines <= 320, f"{path.name} has {lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 50, f"{path.name}: {node.name} does not fit a screen"
