"""What every test gets: an environment without a user's settings, a scripted server, an IPython shell."""

import os
import sys

import hypothesis
import pytest
from shell import Shell
from wire import Wire

KEPT = {
    "OAI_NB_CACHE",
    "OAI_NB_BROWSER",
    "OAI_NB_CHROMIUM",
    "OAI_NB_SCREENSHOTS",
}  # the runner's, not the user's
HISTORY = "OAI_NB_HISTORY"
UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("untimed", **UNTIMED)  # no test measures time
hypothesis.settings.load_profile("untimed")
PROXIES = {"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}


def _of_the_user(name: str) -> bool:
    return name.lower() in PROXIES or (name.startswith(("OPENAI_", "OAI_NB_")) and name not in KEPT)


def _forget(patch: pytest.MonkeyPatch, history: object) -> None:
    """Leave nothing of the user's in the environment, and the user's own history alone."""
    for name in filter(_of_the_user, list(os.environ)):
        patch.delenv(name)
    patch.setenv(HISTORY, str(history))


@pytest.fixture(scope="session", autouse=True)
def _environment_of_the_session(tmp_path_factory):
    """Keep keys, addresses and proxies also from servers that live as long as the session."""
    with pytest.MonkeyPatch.context() as patch:
        _forget(patch, tmp_path_factory.mktemp("history") / "history.sqlite3")
        yield


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    _forget(monkeypatch, os.environ[HISTORY])


@pytest.fixture(autouse=True)
def _no_default_client():
    """Leave no default client to the next test, as a cell with `connect` would."""
    yield
    if "oai_nb.settings" in sys.modules:
        sys.modules["oai_nb.settings"]._connected = None


@pytest.fixture
def wire():
    with Wire() as server:
        yield server


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with Shell() as shell:
        yield shell
