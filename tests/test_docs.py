"""The pages: what is made from the code against the code, and every example run in a real shell."""

import re
import subprocess
import sys
from pathlib import Path

import examples
import pytest
from wire import completion, whole

import oai_nb

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(oai_nb.__file__).parent
PAGES = sorted(DOCS.glob("*.md"))
RUN = [page for page in PAGES if list(examples.cells(page))]


def named(page):
    return pytest.mark.parametrize("page", page, ids=lambda one: one.stem)


def test_the_made_pages_are_what_the_code_makes_of_them(tmp_path):
    command = [sys.executable, str(DOCS / "make.py"), str(tmp_path)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    for page in tmp_path.iterdir():
        there = (DOCS / page.name).read_text(encoding="utf-8")
        assert there == page.read_text(encoding="utf-8"), "run: uv run python docs/make.py"
    assert {page.name for page in tmp_path.iterdir()} == {"parameters.md", "kinds.md"}


def test_contributing_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| layer |")[2].partition("\n\n")[0]
    found = set(re.findall(r"`([a-z_]+)/?`", table))
    there = {path.stem for path in PACKAGE.glob("*.py")} | {"local"}
    assert found == there


@pytest.fixture
def server(wire):
    """A server for the examples, where theirs is not."""
    wire.on(whole(completion(" world", finish_reason="length", model="my-model")))
    wire.on(whole({"data": [{"id": "my-model", "owned_by": "someone"}]}), path="/v1/models")
    return wire.root


@pytest.fixture
def desk(shell, tmp_path, monkeypatch):
    """A shell in an empty folder and with an empty history, which leaves nothing on behind it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OAI_NB_HISTORY", str(tmp_path / "history.sqlite3"))
    yield shell
    for end in (oai_nb.record, oai_nb.replay, oai_nb.connect):
        end()


@named(RUN)
def test_the_examples_of_a_page_run_and_show_what_it_says(page, desk, server):
    examples.run(desk, page, server)


def test_the_answer_on_the_first_page_is_what_its_cell_gives(desk):
    recorded = oai_nb.Completion.from_json((DOCS / "story.json").read_bytes())
    for example in [*examples.cells(DOCS / "index.md")][:2]:
        desk.run(example.cell)
    assert desk.user_ns["story"].text == recorded.text


@named([page for page in PAGES if examples.commands(page)])
def test_the_commands_of_a_page_are_a_shells(page):
    for command in examples.commands(page):
        checked = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, timeout=60)
        assert checked.returncode == 0, checked.stderr


def test_the_commands_of_ours_on_the_pages_are_there():
    lines = "\n".join(command for page in PAGES for command in examples.commands(page))
    names = set(re.findall(r"python -m oai_nb (\w+)", lines))
    assert "fetch" in names
    for name in names:
        command = [sys.executable, "-m", "oai_nb", name, "--help"]
        helped = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert helped.returncode == 0 and name in helped.stdout, helped.stderr


def test_the_settings_name_every_variable_that_the_package_reads():
    read = set()
    for path in PACKAGE.rglob("*.py"):
        read |= set(re.findall(r"\bOAI_NB_[A-Z]+\b", path.read_text(encoding="utf-8")))
    told = re.findall(
        r"^\| `(OAI_NB_[A-Z]+)`", (DOCS / "settings.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(told) == sorted(read)


def test_the_settings_name_every_setting_that_is_no_parameter():
    from oai_nb.config import OaiNb

    there = set(OaiNb.class_own_traits(config=True)) | {"model"}
    table = (
        (DOCS / "settings.md").read_text(encoding="utf-8").partition("| setting |")[2].partition("\n\n")[0]
    )
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == there


def test_the_pages_name_no_variable_that_is_not_read():
    known = (DOCS / "settings.md").read_text(encoding="utf-8")
    for page in PAGES:
        for name in re.findall(r"\bOAI_NB_[A-Z]+\b", page.read_text(encoding="utf-8")):
            assert f"| `{name}`" in known, f"{page.name}: {name}"


def test_the_reference_has_every_public_name():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^\.\. auto\w+:: oai_nb\.(\w+)$", page, re.MULTILINE))
    assert found == set(oai_nb.__all__) - {"__version__"}


def test_the_pages_name_every_view_sign_and_error():
    from oai_nb.completion import Note
    from oai_nb.live import VIEWS

    magic = (DOCS / "magic.md").read_text(encoding="utf-8")
    python = (DOCS / "python.md").read_text(encoding="utf-8")
    for view in VIEWS:
        assert f"| `{view}` |" in magic
    for sign in Note.SIGNS.values():
        assert f"| {sign} |" in magic
    for name in oai_nb.__all__:
        if name.endswith("Error") and name != "OaiNbError":
            assert f"| `{name}` |" in python
