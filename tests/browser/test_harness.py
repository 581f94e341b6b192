"""The browser's testing ground itself, proved with plain Python cells."""

import pytest

LOOP = "print('on', flush=True)\nwhile True:\n    pass"
SHOW = """
from IPython.display import HTML, display
handle = display(HTML('<b style="color:rgb(200,0,0)">first</b>'), display_id=True)
handle.update(HTML('<b style="color:rgb(0,120,200)">second</b>'))
"""


def test_a_cell_is_run_and_its_output_read(front_end):
    page = front_end.open(
        "print('hello')",
        "6 * 7",
        "import os; print(os.environ['OAI_NB_DISPLAY'], 'PYTEST_VERSION' in os.environ)",
    )
    before = page.frames.received
    page.run_all()
    assert page.text(0).strip() == "hello" and page.outputs(1)[0]["data"]["text/plain"] == "42"
    assert page.text(2).strip() == "live True"
    assert page.frames.received > before and page.frames.received_bytes and page.frames.sent
    page.edit(0, "print('again')")
    page.run(0)
    assert page.text(0).strip() == "again"
    added = page.add("1 / 0")
    page.run(added)
    assert page.outputs(added)[0]["ename"] == "ZeroDivisionError"
    assert page.foreign == [] and page.errors == []


def test_the_stop_button_stops_a_running_cell(front_end):
    page = front_end.open(LOOP, "print('next')")
    page.run(0, wait=False)
    page.wait_text(0, "on")
    page.interrupt()
    page.finish(0)
    assert page.outputs(0)[-1]["ename"] == "KeyboardInterrupt"
    page.run(1)
    assert page.text(1).strip() == "next"


def test_waiting_for_a_text_that_does_not_come_fails(lab):
    page = lab.open("print('hello')")
    page.run(0)
    with pytest.raises(AssertionError, match="'bye' did not come; cell 0 shows 'hello"):
        page.wait_text(0, "bye", limit=0)


def test_a_page_reloaded_in_mid_run_and_a_kernel_restarted(lab):
    page = lab.open("x = 1\n" + LOOP, "x")
    page.run(0, wait=False)
    page.wait_text(0, "on")
    page.reload()
    page.interrupt()
    page.run(1)
    assert page.text(1).strip() == "1"
    page.restart()
    page.run(1)
    assert page.outputs(1)[0]["ename"] == "NameError"


def test_a_saved_notebook_shows_its_output_without_running(front_end):
    page = front_end.open(SHOW)
    page.run(0)
    assert "second" in page.html(0) and "first" not in page.html(0)
    page.save()
    assert "second" in page.saved["cells"][0]["outputs"][0]["data"]["text/html"][0]
    again = page.reopen()
    assert again.trusted and again.text(0).strip() == "second"
    afar = again.reopen(trusted=False)
    assert not afar.trusted and afar.text(0).strip() == "second"


def test_a_cell_far_below_is_read_and_clicked(front_end):
    tall = ["print('x\\n' * 60)"] * 12
    page = front_end.open(*tall, "import ipywidgets\nipywidgets.Button(description='here')", *tall)
    page.run_all()
    assert page.text(11).count("x") == page.text(24).count("x") == 60
    page.output(12).get_by_role("button", name="here").click()
    page.screenshot(f"harness-{front_end.server.app}-far-below")
    page.save()
    again = page.reopen()
    assert again.text(24).count("x") == again.text(6).count("x") == 60


def test_both_themes_are_drawn(front_end):
    page = front_end.open(SHOW)
    page.resize(1000, 600)
    page.run(0)
    for theme in ("dark", "light"):
        page.theme(theme)
        shot = page.screenshot(f"harness-{front_end.server.app}-{theme}")
        assert shot.read_bytes().startswith(b"\x89PNG")
    page.screenshot(f"harness-{front_end.server.app}-cell", cell=0)
    assert page.foreign == []


def test_a_click_reaches_the_kernel(front_end):
    page = front_end.open(
        "import ipywidgets\nb = ipywidgets.Button(description='press')\n"
        "b.on_click(lambda b: setattr(b, 'description', 'pressed'))\nb"
    )
    page.run(0)
    page.output(0).get_by_role("button", name="press").click()
    page.wait_text(0, "pressed")


def test_foreign_requests_and_console_errors_are_noticed(lab):
    page = lab.open("from IPython.display import HTML\nHTML('<img src=\"https://example.invalid/a.png\">')")
    page.run(0)
    page.wait("() => document.querySelector('.jp-OutputArea img')?.complete")
    assert page.foreign == ["https://example.invalid/a.png"] and page.errors
