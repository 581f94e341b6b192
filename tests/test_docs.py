"""The pages that are made from the code, and the tables that name its modules, against the code."""

import importlib.util
import re
from pathlib import Path

import oai_nb

ROOT = Path(__file__).parents[1]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_parameters_is_what_the_declaration_makes():
    made = load(ROOT / "docs" / "parameters.py")
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run: uv run python docs/parameters.py"


def test_contributing_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| layer |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)/?`", table))
    package = Path(oai_nb.__file__).parent
    there = {path.stem for path in package.glob("*.py")} - {"__init__"} | {"local"}
    assert named == there
