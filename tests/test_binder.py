"""Binder's files, by repo2docker's rules. `.ci/package` runs their steps, and then a notebook offline.

Where there is a folder `binder`, only the files in it count; each runs at the root of the repository.
"""

import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[1]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements():
    lines = (BINDER / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_there_is_nothing_else_that_would_be_preferred_or_run_at_the_start():
    assert {path.name for path in BINDER.iterdir()} == {"requirements.txt", "runtime.txt", "postBuild"}


def test_every_version_is_pinned():
    (constraint,) = (line.removeprefix("-c ") for line in requirements() if line.startswith("-c "))
    pinned = (BINDER / constraint).read_text(encoding="utf-8")
    names = [line for line in requirements() if not line.startswith(("-c ", "."))]
    needed = [re.match(r"[\w.-]+", line)[0] for line in PROJECT["dependencies"]]
    for name in names + needed:
        assert re.search(rf"^{re.escape(name)}==", pinned, re.MULTILINE), f"{name} is not pinned"


def test_the_project_itself_is_installed_from_the_repository():
    assert "." in requirements()


def test_the_python_is_the_one_that_the_steps_are_tried_with():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert (BINDER / "runtime.txt").read_text(encoding="utf-8").strip() == f"python-{lowest}"


def test_a_failing_step_stops_the_build_and_the_model_is_fetched_in_it():
    script = (BINDER / "postBuild").read_text(encoding="utf-8")
    assert script.startswith("#!/bin/bash\n") and "\nset -eu\n" in script
    assert "python -m oai_nb fetch" in script.splitlines()


def test_the_badge_opens_a_notebook_that_is_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (address,) = re.findall(r"\((https://mybinder\.org/v2/[^)]+)\)", readme)
    (place,) = parse_qs(urlsplit(address).query)["urlpath"]
    assert (ROOT / place.removeprefix("lab/tree/")).is_file()
    (project,) = {re.match(r"https://github\.com/([^/]+/[^/]+)", url)[1] for url in PROJECT["urls"].values()}
    assert urlsplit(address).path == f"/v2/gh/{project}/main"
