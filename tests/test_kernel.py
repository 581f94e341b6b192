"""The magic in a real kernel, over Jupyter's own messages: what a front end gets, and the stop button."""

import os

import pytest
from jupyter_client.manager import KernelManager
from wire import DONE, LIMIT, Stall, Wait, event, failure, stream, whole


class Kernel:
    """Run cells in a kernel; keep what a front end would be sent."""

    def __init__(self, tmp_path):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=env | {"IPYTHONDIR": str(tmp_path)})
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=2 * LIMIT)

    def run(self, cell, look=lambda content: None):
        """Run a cell; return its messages as (type, content), and its reply. `look` sees each as it comes."""
        messages = []

        def keep(message):
            messages.append((message["msg_type"], message["content"]))
            look(message["content"])

        reply = self.client.execute_interactive(
            cell, timeout=2 * LIMIT, output_hook=keep, stop_on_error=True, allow_stdin=False
        )
        ours = [one for one in messages if one[0] not in ("status", "execute_input")]
        return ours, reply["content"]

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    kernel = Kernel(tmp_path_factory.mktemp("ipython"))
    try:
        kernel.run("%load_ext oai_nb")
        yield kernel
    finally:
        kernel.stop()


@pytest.fixture
def model(wire, kernel):
    wire.on(whole({"data": [{"id": "m"}]}), path="/v1/models")
    kernel.run(f"%config OaiNb.base_url = {wire.url!r}")
    return wire


def plain(message):
    return message[1]["data"]["text/plain"]


def test_a_front_end_gets_one_display_and_updates_of_it(kernel, model):
    gate = Wait()
    model.on(stream(event("Hel"), gate, event("lo", finish_reason="stop"), DONE))
    messages, reply = kernel.run(
        "%%complete\nx", lambda content: "Hel" in str(content.get("data")) and gate.set()
    )
    assert [kind for kind, _ in messages] == ["display_data"] + ["update_display_data"] * (len(messages) - 1)
    assert len({content["transient"]["display_id"] for _, content in messages}) == 1
    assert plain(messages[-1]).startswith("Hello\n\n") and reply["status"] == "ok"
    assert "text/html" in messages[-1][1]["data"]


def test_the_prompt_goes_out_byte_for_byte(kernel, model):
    route = model.on(stream(event("Hello", finish_reason="stop"), DONE))
    kernel.run("%%complete\n>>> {x}\n   \n$y ")
    kernel.run("%complete Is it {x}?")
    assert [seen.json["prompt"] for seen in route.requests] == [">>> {x}\n   \n$y ", "Is it {x}?"]


def test_an_error_is_an_error_message_of_one_line_and_stops_run_all(kernel, model):
    model.on(failure(500, "boom"))
    messages, reply = kernel.run("%%complete\nx")
    (error,) = [content for kind, content in messages if kind == "error"]
    assert (
        len(error["traceback"]) == 1 and error["ename"] == "ServerError" and "boom" in error["traceback"][0]
    )
    assert reply["status"] == "error" and not [one for one in messages if one[0] == "stream"]


@pytest.mark.parametrize("steps", [(), (event("abc"),)], ids=["before the first token", "stalled"])
def test_the_stop_button_keeps_the_text_stops_the_server_and_run_all(kernel, model, steps):
    shown = "abc" if steps else "waiting"
    route = model.on(stream(*steps, Stall()))
    pressed = []

    def look(content):
        """Press once the server has been asked: until then it may wait for the list of models."""
        if shown in str(content.get("data")) and route.requests and not pressed:
            pressed.append(kernel.manager.interrupt_kernel())

    messages, reply = kernel.run("%%complete --out story\nx", look)
    assert route.requests.at(0).closed.wait(LIMIT)
    assert messages[-1][0] == "error" and len(messages[-1][1]["traceback"]) == 1
    assert messages[-1][1]["ename"] == "Interrupted" and reply["status"] == "error"
    assert "incomplete: interrupted" in plain(messages[-2])
    (result,), _ = kernel.run("story.text")
    assert plain(result) == repr("abc" if steps else "")


def test_a_bad_setting_is_one_line_on_stderr(kernel):
    (message,), _ = kernel.run("%config OaiNb.temperature = 3")
    assert message[0] == "stream" and message[1]["name"] == "stderr"
    assert "OaiNb.temperature=3 is out of range: it must be from 0 to 2" in message[1]["text"]
