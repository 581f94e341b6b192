"""A real JupyterLab or Notebook 7 and a real Chromium, for tests to sit in front of.

It knows Jupyter's server, its page (`window.jupyterapp`) and Playwright; it knows nothing of `oai_nb`.
Everything that Jupyter would keep in a home directory is in a temporary one, nothing goes outside, and no
process outlives the test run, however that ends. Every wait is for a condition, with a generous limit against
hanging.

    page = lab.open("print('hello')", "1 + 1")
    page.run(0)
    assert "hello" in page.text(0)
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import nbformat
import psutil
from playwright.sync_api import Locator, sync_playwright

LIMIT = 120.0  # seconds; against hanging, never a measure

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

APPS = {  # module, its settings, the page of a notebook
    "lab": (
        "jupyterlab",
        {
            "expose_app_in_browser": True,
            "extension_manager": "readonly",
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        },
        "lab/tree/{}?reset",
    ),
    "notebook": ("notebook", {"expose_app_in_browser": True}, "notebooks/{}?"),
}
CLASSES = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}

# The server must go when pytest is gone, even killed: then its standard input ends.
START = """
import os, runpy, signal, sys, threading
def end():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end, daemon=True).start()
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def chromium() -> str | None:
    """Find the installed Chromium: `OAI_NB_CHROMIUM`, else the usual names."""
    return os.environ.get("OAI_NB_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def screenshots() -> Path:
    folder = os.environ.get("OAI_NB_SCREENSHOTS")
    return Path(folder) if folder else Path(__file__).resolve().parents[2] / "screenshots"


# --- the server ---


class Jupyter:
    """Run `jupyter lab` or `jupyter notebook` on a free port, with all its folders under `home`."""

    def __init__(self, app: str, home: Path):
        self.app, self.home, self.root = app, home, home / "root"
        self.token = secrets.token_hex(16)
        self.log = home / "server.log"
        self.url = ""

    def __enter__(self):
        self._configure()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, APPS[self.app][0]],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                env=self._environment(),
                start_new_session=True,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        children = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)
        _, alive = psutil.wait_procs(children, 10)
        for child in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def page(self, notebook: Path) -> str:
        """The address of a notebook's page, with the token."""
        path = quote(str(notebook.relative_to(self.root)))
        return f"{self.url}{APPS[self.app][2].format(path)}&token={self.token}"

    def forget(self) -> None:
        """End all kernels and lose the user's settings (the theme) and workspaces."""
        for kernel in json.loads(self._ask("GET", "api/kernels")):
            self._ask("DELETE", f"api/kernels/{kernel['id']}")
        for name in ("user-settings", "workspaces"):
            shutil.rmtree(self.home / "config" / "lab" / name, ignore_errors=True)

    def _configure(self) -> None:
        self.root.mkdir(parents=True)
        server = {
            "ip": "127.0.0.1",
            "port": _free_port(),
            "open_browser": False,
            "allow_root": True,
            "terminals_enabled": False,
            "root_dir": str(self.root),
        }
        settings = {"ServerApp": server, CLASSES[self.app]: APPS[self.app][1]}
        quiet = {"fetchNews": "false", "checkForUpdates": False}
        self._config("jupyter_server_config.json", settings)
        self._config(f"jupyter_{self.app}_config.json", settings)
        self._config(
            "labconfig/default_setting_overrides.json", {"@jupyterlab/apputils-extension:notification": quiet}
        )

    def _config(self, name: str, settings: Any) -> None:
        path = self.home / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))

    def _environment(self) -> dict[str, str]:
        """What pytest has (kernels are to see that), with our own folders and the live display."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython",
        }
        return {
            **kept,
            **{name: str(self.home / folder) for name, folder in folders.items()},
            "JUPYTER_PREFER_ENV_PATH": "1",
            "JUPYTER_TOKEN": self.token,
            "OAI_NB_DISPLAY": "live",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        }

    def _wait_until_it_answers(self) -> None:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self._process.poll() is None:
            for file in (self.home / "runtime").glob("jpserver-*.json"):
                with contextlib.suppress(OSError, ValueError):
                    self.url = json.loads(file.read_text())["url"]
                    self._ask("GET", "api/status")
                    return
            time.sleep(0.1)
        raise AssertionError(f"jupyter {self.app} did not start:\n{self.log.read_text()[-3000:]}")

    def _ask(self, method: str, path: str) -> bytes:
        headers = {"authorization": f"token {self.token}"}
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.read()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# --- the browser ---


@contextlib.contextmanager
def launch(executable: str):
    """Give a headless Chromium; never the browser of Playwright itself."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=CHROMIUM_OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


class FrontEnd:
    """Open notebooks in one Jupyter; a folder of its own, and fresh pages, for each test."""

    def __init__(self, server: Jupyter, browser: Any, name: str):
        self.server, self.browser = server, browser
        self.name = re.sub(r"\W+", "-", name).strip("-")
        self.folder = server.root / f"{self.name[:60]}-{secrets.token_hex(3)}"
        self.folder.mkdir()
        self.pages: list[Page] = []

    def open(self, *cells: str | dict, name: str = "test.ipynb", **options: Any) -> "Page":
        """Open a new notebook of these cells: text is code; other cells are made with `nbformat.v4`."""
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
        notebook.cells = [nbformat.v4.new_code_cell(c) if isinstance(c, str) else c for c in cells]
        nbformat.write(notebook, self.folder / name)
        return self._page(self.folder / name, **options)

    def open_file(self, path: Path, **options: Any) -> "Page":
        """Open a copy of a notebook."""
        return self._page(Path(shutil.copy(path, self.folder)), **options)

    def _page(self, path: Path, **options: Any) -> "Page":
        page = Page(self, path, **options)
        self.pages.append(page)
        page.load()
        return page

    def close(self) -> None:
        for page in self.pages:
            page.context.close()
        self.server.forget()


KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}

OPENED = """() => {
    const panel = window.jupyterapp?.shell?.currentWidget, session = panel?.sessionContext?.session;
    return !!(panel?.content?.widgets?.length && panel.context.isReady && panel.sessionContext.isReady)
        && session?.kernel?.connectionStatus === 'connected' && !document.getElementById('jupyterlab-splash');
}"""
THEMED = """theme => document.body.dataset.jpThemeName === theme
    && !document.getElementById('jupyterlab-splash')"""
IDLE = "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
EXECUTE = """(panel, [key, command]) => {
    const runs = window.oaiRuns ??= {}, run = runs[key] = {done: false};
    const end = value => { run.done = true; run.value = value; };
    jupyterapp.commands.execute(command).then(end, error => end(String(error)));
}"""
SHOW = """async i => {  // Jupyter makes and draws only the cells in view; lower ones get pushed out of it
    const panel = jupyterapp.shell.currentWidget, cell = panel.content.widgets[i];
    const node = cell.outputArea.node, frame = panel.node.getBoundingClientRect();
    const shown = () => {
        const box = node.getBoundingClientRect();
        return !cell.isPlaceholder() && node.checkVisibility({contentVisibilityAuto: true})
            && box.top < frame.bottom && box.bottom > frame.top;
    };
    const end = Date.now() + 10000;  // a cell folded away is never drawn
    while (!shown() && Date.now() < end) {
        await panel.content.scrollToItem(i);
        node.scrollIntoView({block: 'nearest'});
        await new Promise(later => setTimeout(later, 20));
    }
    return node;
}"""
WORDS = """node => [...node.querySelectorAll('.jp-OutputArea-output')]
    .filter(part => !part.parentElement.closest('.jp-OutputArea-output'))
    .map(part => part.innerText).join('\\n')"""
READ = f"""async i => {{  // Jupyter writes text over several frames
    const show = {SHOW}, words = {WORDS}, begun = Date.now();
    const outputs = jupyterapp.shell.currentWidget.content.widgets[i].model.outputs.toJSON();
    const texts = outputs.some(output => ['stream', 'error'].includes(output.output_type));
    const frame = done => {{ requestAnimationFrame(done); setTimeout(done, 200); }};
    let text = words(await show(i)), same = 0;
    const settled = () => same >= 3 || Date.now() > begun + 3000;
    const expected = () => text.trim() || !texts || Date.now() > begun + 10000;
    while (!(settled() && expected())) {{
        await new Promise(frame);
        const now = words(await show(i));
        same = now === text ? same + 1 : 0;
        text = now;
    }}
    return text;
}}"""
AWAIT = f"""async ([i, text, limit]) => {{
    const end = Date.now() + limit;
    while (!({WORDS})(await ({SHOW})(i)).includes(text)) {{
        if (Date.now() > end) return false;
        await new Promise(later => setTimeout(later, 50));
    }}
    return true;
}}"""
MARK = """async (panel, i) => {
    await panel.content.scrollToItem(i);
    panel.content.widgets[i].node.dataset.oaiCell = i;
}"""
CHOOSE = """(panel, i) => {
    panel.content.mode = 'command';
    panel.content.activeCellIndex = i;
    panel.content.deselectAll();
}"""


@dataclass
class Frames:
    """Count what went over the kernels' websockets, in messages and bytes."""

    received: int = 0
    received_bytes: int = 0
    sent: int = 0


class Page:
    """Sit before one notebook. `page` is Playwright's own, for clicks and keys."""

    def __init__(self, front: FrontEnd, path: Path, *, width: int = 1300, height: int = 1000):
        self.front, self.path = front, path
        self.requests: list[str] = []
        self.console: list[tuple[str, str]] = []
        self._opened = 0  # how much of the console is Jupyter's own, from before the notebook stood there
        self.frames = Frames()
        self.context = front.browser.new_context(viewport={"width": width, "height": height})
        self.context.set_default_timeout(LIMIT * 1000)
        self.page = self.context.new_page()
        self._listen()

    def _listen(self) -> None:
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.console.append((message.type, message.text)))
        self.page.on("pageerror", lambda error: self.console.append(("pageerror", str(error))))
        self.page.on("websocket", self._count)

    def _count(self, websocket: Any) -> None:
        self.requests.append(websocket.url)
        if "/channels" not in websocket.url:
            return

        def received(data: str | bytes) -> None:
            self.frames.received += 1
            self.frames.received_bytes += len(data.encode() if isinstance(data, str) else data)

        def sent(_: str | bytes) -> None:
            self.frames.sent += 1

        websocket.on("framereceived", received)
        websocket.on("framesent", sent)

    # opening

    def load(self) -> None:
        """Load the page anew from its address and wait for an idle kernel."""
        self.page.goto(self.front.server.page(self.path))
        self.wait(OPENED)
        self.wait(IDLE)
        self.panel("() => jupyterapp.shell.collapseLeft?.()")
        self._opened = len(self.console)

    def reload(self) -> None:
        """Press the browser's reload button; the kernel goes on, and may be busy."""
        self.page.reload()
        self.wait(OPENED)

    def reopen(self, *, trusted: bool = True) -> "Page":
        """End the kernel, close the page, and open the saved file in a new one, where nothing has run.

        Untrusted is a notebook that comes from elsewhere: it is changed on the disk, so no signature fits.
        """
        self.panel("panel => panel.sessionContext.shutdown()")
        self.context.close()
        self.front.pages.remove(self)
        if not trusted:
            self.path.write_text(
                json.dumps({**self.saved, "metadata": {**self.saved["metadata"], "from": "afar"}})
            )
        return self.front._page(self.path)

    # acting

    def run(self, i: int, *, wait: bool = True, limit: float = LIMIT) -> None:
        """Run cell i as Ctrl+Enter does."""
        self.panel(CHOOSE, i)
        self.command("notebook:run-cell", i, wait=wait, limit=limit)

    def run_all(self, *, wait: bool = True, limit: float = LIMIT) -> None:
        self.command("notebook:run-all-cells", "all", wait=wait, limit=limit)

    def finish(self, key: int | str = "all", limit: float = LIMIT) -> None:
        """Wait for a run that was begun with `wait=False`: a cell's number or "all"."""
        self.wait("key => window.oaiRuns[key].done", key, limit)

    def command(
        self, name: str, key: int | str = "command", *, wait: bool = True, limit: float = LIMIT
    ) -> None:
        """Execute one of JupyterLab's commands."""
        self.panel(EXECUTE, [key, name])
        if wait:
            self.finish(key, limit)

    def interrupt(self) -> None:
        """Press the stop button. What is to be stopped must be running: wait for a text first."""
        self.command("notebook:interrupt-kernel", "interrupt")

    def restart(self) -> None:
        """Restart the kernel; what stands on the screen stays."""
        self.panel("panel => panel.sessionContext.restartKernel()")
        self.wait(IDLE)

    def save(self) -> None:
        self.command("docmanager:save", "save")
        self.wait("() => !jupyterapp.shell.currentWidget.context.model.dirty")

    def edit(self, i: int, source: str) -> None:
        self.panel(
            "(panel, [i, text]) => panel.content.widgets[i].model.sharedModel.setSource(text)", [i, source]
        )

    def add(self, source: str) -> int:
        """Add a code cell at the end; its number."""
        add = "(panel, source) => { panel.content.model.sharedModel.addCell({cell_type: 'code', source}); }"
        self.panel(add, source)
        return self.panel("panel => panel.content.widgets.length") - 1

    def theme(self, name: str) -> None:
        """Choose JupyterLab's "light" or "dark" theme."""
        theme = f"JupyterLab {name.title()}"
        change = "(panel, theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})"
        self.panel(change, theme)
        self.wait(THEMED, theme)

    def resize(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    # looking

    def outputs(self, i: int) -> list[dict[str, Any]]:
        """The outputs of cell i as the notebook's model has them."""
        return self.panel("(panel, i) => panel.content.widgets[i].model.outputs.toJSON()", i)

    def text(self, i: int) -> str:
        """The output of cell i as it is read on the screen (`innerText`), without the prompts."""
        return self.page.evaluate(READ, i)

    def html(self, i: int) -> str:
        return self.page.evaluate(f"async i => (await ({SHOW})(i)).innerHTML", i)

    def cell(self, i: int) -> Locator:
        """Cell i, scrolled into view, to look into and click in."""
        self.panel(MARK, i)
        return self.page.locator(f'[data-oai-cell="{i}"]')

    def output(self, i: int) -> Locator:
        """The output area of cell i, to look into and click in."""
        return self.cell(i).locator(".jp-Cell-outputArea")

    def wait_text(self, i: int, text: str, limit: float = LIMIT) -> None:
        """Wait until the output of cell i, as it is read, has this text in it."""
        if not self.page.evaluate(AWAIT, [i, text, limit * 1000]):
            raise AssertionError(f"{text!r} did not come; cell {i} shows {self.text(i)!r}")

    def screenshot(self, name: str, cell: int | None = None) -> Path:
        """Draw what is on the screen, or the whole of one cell, into the folder of screenshots."""
        path = screenshots() / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.page if cell is None else self.cell(cell)).screenshot(path=path)
        return path

    @property
    def saved(self) -> dict[str, Any]:
        """The notebook as it is on the disk."""
        return json.loads(self.path.read_text())

    @property
    def trusted(self) -> bool:
        """Whether every code cell may show its output as it is."""
        trusted = "panel => panel.content.widgets.every(c => c.model.type !== 'code' || c.model.trusted)"
        return self.panel(trusted)

    @property
    def foreign(self) -> list[str]:
        """The addresses asked by the page that are not of our server."""
        home = urlsplit(self.front.server.url).netloc
        return [u for u in self.requests if urlsplit(u).scheme in WEB and urlsplit(u).netloc != home]

    @property
    def errors(self) -> list[str]:
        """The errors in the browser's console since the notebook was opened."""
        return [text for kind, text in self.console[self._opened :] if kind in ("error", "pageerror")]

    # underneath

    def panel(self, function: str, argument: Any = None) -> Any:
        """Call a JavaScript function with the notebook's panel and an argument."""
        return self.page.evaluate(
            f"argument => ({function})(jupyterapp.shell.currentWidget, argument)", argument
        )

    def wait(self, condition: str, argument: Any = None, limit: float = LIMIT) -> None:
        """Wait until a JavaScript function gives true; it must not be async, for a promise counts as true."""
        self.page.wait_for_function(condition, arg=argument, timeout=limit * 1000, polling=50)


WEB = {"http", "https", "ws", "wss"}
