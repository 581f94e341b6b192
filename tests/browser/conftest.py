"""Fixtures for tests in a browser: `lab`, `notebook7`, `front_end`, which is both in turn, and `export`.

Without an installed Chromium these tests are skipped, loudly; with OAI_NB_BROWSER=1 they fail instead. They
come last: while Playwright lives, its event loop is the main thread's, and `asyncio.run` of other tests would
fail.
"""

import os
import re
from pathlib import Path

import pytest
from browser.lab import FrontEnd, Jupyter, chromium, launch
from nbconvert import HTMLExporter
from playwright.sync_api import Error

HERE = Path(__file__).parent
MISSING = "NO CHROMIUM FOUND (set OAI_NB_CHROMIUM, or install chromium): nothing was proved in a browser"
FRONT_END = pytest.StashKey[FrontEnd]()
SKIPPED = pytest.StashKey[int]()


def _must_run() -> bool:
    return os.environ.get("OAI_NB_BROWSER") == "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    items[:] = [item for item in items if not item.path.is_relative_to(HERE)] + ours
    skip = not chromium() and not _must_run()
    config.stash[SKIPPED] = len(ours) if skip else 0
    for item in ours:
        item.add_marker(pytest.mark.browser)
        if skip:
            item.add_marker(pytest.mark.skip(reason=MISSING))


def pytest_terminal_summary(terminalreporter, config):
    if skipped := config.stash.get(SKIPPED, 0):
        terminalreporter.section("browser", sep="!", red=True, bold=True)
        terminalreporter.line(f"{skipped} tests skipped: {MISSING}", red=True, bold=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what was on the screen and in the console when a test failed."""
    report = yield
    front = item.stash.get(FRONT_END, None)
    if front and report.failed and report.when != "teardown":
        for number, page in enumerate(front.pages):
            report.sections.append(("browser", _last_words(page, f"failed-{front.name}-{number}")))
    return report


def _last_words(page, name):
    console = "\n".join(f"{kind}: {text}" for kind, text in page.console[-20:])
    try:
        return f"{page.screenshot(name)}\n{console}"
    except Error as error:
        return f"no screenshot ({error})\n{console}"


@pytest.fixture(scope="session")
def browser():
    executable = chromium()
    if executable is None:
        pytest.fail(MISSING)
    with launch(executable) as browser:
        yield browser


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory):
    with Jupyter("lab", tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def notebook_server(tmp_path_factory):
    with Jupyter("notebook", tmp_path_factory.mktemp("notebook")) as server:
        yield server


def _front_end(request, browser, server):
    front = FrontEnd(server, browser, re.sub(r"^test_", "", request.node.name))
    request.node.stash[FRONT_END] = front
    yield front
    front.close()


@pytest.fixture
def lab(request, browser, lab_server):
    """JupyterLab."""
    yield from _front_end(request, browser, lab_server)


@pytest.fixture
def notebook7(request, browser, notebook_server):
    """Notebook 7."""
    yield from _front_end(request, browser, notebook_server)


@pytest.fixture(params=["lab", "notebook7"])
def front_end(request):
    """Both, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def export(browser, tmp_path):
    """Export notebooks, and open each with no network; a page's `asked` are the addresses that it wanted."""
    contexts = []

    def export(notebook):
        path = tmp_path / f"{len(contexts)}.html"
        path.write_text(HTMLExporter().from_notebook_node(notebook)[0], "utf-8")
        contexts.append(browser.new_context(offline=True, viewport={"width": 1000, "height": 900}))
        page, asked = contexts[-1].new_page(), []
        contexts[-1].on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        page.asked = {url for url in asked if not url.startswith(("file:", "data:"))}
        return page

    yield export
    for context in contexts:
        context.close()
