"""What is handed out: the wheel and the source distribution, and on which Pythons the workflow tries them."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
INFO = f"oai_nb-{PROJECT['version']}.dist-info"


def package_files():
    paths = (path for path in (ROOT / "oai_nb").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in paths}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both as an installer does: the wheel from nothing but the source distribution."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("there is no uv to build with")
    folder = tmp_path_factory.mktemp("dist")
    done = build(uv, folder, "--offline")
    if done.returncode:  # what builds it is not in uv's cache, as where that was emptied
        done = build(uv, folder)
    assert done.returncode == 0, done.stderr
    return folder


def build(uv, folder, *options):
    command = [uv, "build", *options, "--out-dir", str(folder), str(ROOT)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    about = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE", "licenses/NOTICE"}
    if "scripts" in PROJECT:
        about.add("entry_points.txt")
    assert set(wheel) == package_files() | {f"{INFO}/{name}" for name in about}


def test_the_package_is_code_its_mark_of_types_and_what_a_browser_needs():
    assert {Path(name).suffix for name in package_files()} <= {".py", ".typed", ".js", ".css"}
    assert "oai_nb/py.typed" in package_files()


def test_the_wheel_is_for_every_system_and_the_supported_pythons(wheel):
    assert "Root-Is-Purelib: true\nTag: py3-none-any" in wheel[f"{INFO}/WHEEL"]
    metadata = message_from_string(wheel[f"{INFO}/METADATA"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata["License-Expression"] == "MIT"


def test_the_description_is_the_readme_with_links_that_lead_somewhere_from_anywhere(wheel):
    metadata = message_from_string(wheel[f"{INFO}/METADATA"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert metadata["Description-Content-Type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert len(targets) == len(re.findall(r"\]\(([^)]+)\)", readme))
    assert all(target.startswith("https://") for target in targets), targets
    assert re.sub(r"\]\([^)]+\)", "", metadata.get_payload()) == re.sub(r"\]\([^)]+\)", "", readme)


def test_the_source_distribution_holds_what_the_wheel_is_built_from(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    about = {"README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert names == package_files() | about


def pythons():
    """Return the supported Pythons: the classifiers are where they are written."""
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in PROJECT["classifiers"]
    )
    return [match[1] for match in found if match]


def test_the_pythons_that_are_supported_are_those_that_are_tested():
    assert PROJECT["requires-python"] == f">={pythons()[0]}"
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == pythons()
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tool["mypy"]["python_version"] == pythons()[0]
    assert tool["ruff"]["target-version"] == f"py{pythons()[0].replace('.', '')}"


def steps():
    return [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_workflow_may_only_read_and_knows_no_secret():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in WORKFLOW["jobs"].values())
    assert "secrets." not in str(WORKFLOW)
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(WORKFLOW["jobs"])
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_the_workflows_actions_have_versions_and_its_scripts_are_there():
    for step in steps():
        assert re.search(r"@v\d+(\.\d+)*$", step["uses"]) if "uses" in step else step["run"]
    for script in WORKFLOW["jobs"]["once"]["strategy"]["matrix"]["script"]:
        assert (ROOT / ".ci" / script).is_file()


BARE = """
import importlib, os, pkgutil, sys
import asyncio, httpx, IPython, msgspec, numpy, pandas, platformdirs, plotly.graph_objects
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "getuid", "mkfifo", "register_at_fork", "sched_getaffinity", "uname"):
    delattr(os, name)
import oai_nb
for module in pkgutil.walk_packages(oai_nb.__path__, "oai_nb."):
    importlib.import_module(module.name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes away what Linux has")
def test_every_module_can_be_imported_where_there_is_nothing_that_windows_lacks():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
