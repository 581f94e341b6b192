"""The built pages in a real Chromium, opened from a folder: nothing is fetched, and the search works."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built pages; a warning of the generator is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = ["sphinx", "--quiet", "--fail-on-warning", "--keep-going", str(DOCS), str(folder)]
    built = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stderr
    return folder


@contextmanager
def opened(browser, page, **options):
    """Open a page without a network, and check at the end that it asked for none and had no error."""
    with browser.new_context(offline=True, **options) as context:
        tab, asked, errors = context.new_page(), [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(page.as_uri(), wait_until="load")
        yield tab
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert errors == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_opens_from_a_folder_and_asks_for_nothing(browser, site, page):
    with opened(browser, site / f"{page.stem}.html") as tab:
        assert tab.locator("h1").count() == 1
        assert tab.locator(".sidebar-tree a").count() >= 10


def test_the_search_finds_a_page(browser, site):
    with opened(browser, site / "index.html") as tab:
        tab.fill("input[name=q]", "wheelhouse")
        tab.keyboard.press("Enter")
        tab.locator("#search-results li a", has_text="In class").first.click()
        tab.wait_for_url("**/classroom.html**")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_light_and_dark(browser, site, scheme):
    with opened(browser, site / "index.html", color_scheme=scheme) as tab:
        style = "element => getComputedStyle(element)"
        ground = brightness(tab.evaluate(f"({style})(document.body).backgroundColor"))
        letters = brightness(tab.locator("article p").first.evaluate(f"element => ({style})(element).color"))
        assert (ground > 200 and letters < 80) if scheme == "light" else (ground < 80 and letters > 180)


def brightness(color):
    red, green, blue = (float(part) for part in color[4:-1].split(",")[:3])
    return (red + green + blue) / 3


def test_a_narrow_window_needs_no_scrolling_to_the_side(browser, site):
    for name in ("index", "magic", "parameters", "settings"):
        with opened(browser, site / f"{name}.html", viewport={"width": 400, "height": 800}) as tab:
            assert tab.evaluate("document.documentElement.scrollWidth") <= 400, name


def test_the_recorded_answer_opens_its_list_without_a_script(browser, site):
    with opened(browser, site / "index.html", java_script_enabled=False) as tab:
        tab.locator(".shown summary").first.click()
        tab.locator(".shown details[open]").first.wait_for()
