"""The command line: `python -m oai_nb`, run as a person runs it."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from local import gguf_writer, tiny

LIMIT = 120  # seconds; against hanging, never a measure


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "oai_nb", *arguments],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


@pytest.fixture
def small(tmp_path):
    return tiny.write(tmp_path / "tiny.gguf")


def test_fetch_says_where_the_model_and_what_is_made_of_it_are(tmp_path, small):
    cache = tmp_path / "cache"
    done = command("fetch", OAI_NB_MODEL=small, OAI_NB_CACHE=cache)
    (made,) = cache.glob("*.f32")
    assert done.returncode == 0
    assert done.stdout == f"the model: {small} (0 MB)\nready to run: {made} (0 MB)\n"
    assert done.stderr == f"oai_nb: preparing the model once, into {made} (0 MB)\n"


def test_fetch_of_what_is_there_is_silent_on_stderr(tmp_path, small):
    for _ in range(2):
        done = command("fetch", OAI_NB_MODEL=small, OAI_NB_CACHE=tmp_path / "cache")
    assert (done.returncode, done.stderr) == (0, "")


def test_fetch_prepares_the_installed_model(tmp_path):
    done = command("fetch", OAI_NB_CACHE=tmp_path / "cache")
    assert done.returncode == 0
    assert "(98 MB)" in done.stdout.splitlines()[0] and "(538 MB)" in done.stdout.splitlines()[1]
    next((tmp_path / "cache").glob("*.f32")).unlink()  # pytest keeps the folders of three runs


def wrong_models(folder):
    yield "no file", folder / "absent.gguf", "is not a file"
    yield "a folder", folder, "is not a file"
    page = folder / "page.gguf"
    page.write_text("<!DOCTYPE html>")
    yield "a page", page, "page.gguf is not a GGUF file"
    empty = folder / "empty.gguf"
    empty.write_bytes(b"")
    yield "empty", empty, "empty.gguf is empty"
    yield (
        "another kind",
        gguf_writer.write(folder / "x.gguf", {"general.architecture": "gemma3"}, {}),
        "gemma3",
    )
    shape = (tiny.VOCABULARY, 256)
    tensors = {"token_embd.weight": (shape, 14, bytes(210 * tiny.VOCABULARY), 210 * tiny.VOCABULARY)}
    other = gguf_writer.write(folder / "q6.gguf", tiny.METADATA, tensors)
    yield "another quantisation", other, "is Q6_K, and only F32, F16"


def test_a_wrong_model_is_one_line_that_names_it_and_the_variable(tmp_path):
    cache = tmp_path / "cache"
    for kind, path, words in wrong_models(tmp_path):
        done = command("fetch", OAI_NB_MODEL=path, OAI_NB_CACHE=cache)
        said = done.stderr.splitlines()[-1]
        assert done.returncode == 1, kind
        assert words in said and str(path) in said and "OAI_NB_MODEL" in said, (kind, said)
        assert not [line for line in done.stderr.splitlines() if not line.startswith("oai_nb: ")], kind
        assert not list(cache.glob("*.f32")), kind


def test_fetch_fails_where_the_model_cannot_be_prepared(tmp_path, small):
    (tmp_path / "file").write_bytes(b"")
    done = command("fetch", OAI_NB_MODEL=small, OAI_NB_CACHE=tmp_path / "file" / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"oai_nb: {tmp_path / 'file' / 'cache'} cannot be written: Not a directory; "
        "set OAI_NB_CACHE to a folder that can\n"
    )


def test_without_a_command_the_commands_are_said():
    done = command()
    assert done.returncode == 2 and "usage: oai-nb" in done.stderr


def test_the_script_is_the_same_command():
    project = Path(__file__).parents[1] / "pyproject.toml"
    module, _, name = tomllib.loads(project.read_text())["project"]["scripts"]["oai-nb"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
