"""What every test gets: an environment without a user's settings, a scripted server, an IPython shell."""

import os

import pytest
from shell import Shell
from wire import Wire

KEPT = {
    "OAI_NB_CACHE",
    "OAI_NB_BROWSER",
    "OAI_NB_CHROMIUM",
    "OAI_NB_SCREENSHOTS",
}  # the runner's, not the user's
PROXIES = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}


def _of_the_user(name: str) -> bool:
    return name.lower() in PROXIES or (name.startswith(("OPENAI_", "OAI_NB_")) and name not in KEPT)


def _forget(patch: pytest.MonkeyPatch) -> None:
    for name in filter(_of_the_user, list(os.environ)):
        patch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _environment_of_the_session():
    """Keep keys, addresses and proxies also from servers that live as long as the session."""
    with pytest.MonkeyPatch.context() as patch:
        _forget(patch)
        yield


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    _forget(monkeypatch)


@pytest.fixture
def wire():
    with Wire() as server:
        yield server


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with Shell() as shell:
        yield shell
