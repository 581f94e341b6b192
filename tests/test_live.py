"""The drawing of a run: how often, what last, and nothing lost however often somebody presses stop."""

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.displaypub import DisplayPublisher
from IPython.utils.capture import capture_output
from wire import DONE, Wait, event, stream, whole

from oai_nb import live
from oai_nb.completion import Choice, Completion, Usage
from oai_nb.errors import BrokenStreamError, ConfigurationError, Interrupted
from oai_nb.live import LiveCell, StaticCell, Terminal, screen_of, show_run
from oai_nb.visible import printable


class FakeStream:
    """A stream without a clock: one moment is (texts, state, status), and each wait brings the next.

    A moment may also be an exception to be raised by the wait.
    """

    def __init__(self, *moments, error=None, completion=None):
        self.moments = list(moments)
        self.texts, self.state, self.status = {}, "connecting", "connecting"
        self.error = error
        self.whole = completion or Completion(choices=(Choice(0, "whole", "stop"),))
        self.waits, self.closed = [], []

    def wait(self, timeout=None):
        self.waits.append(timeout)
        if not self.moments:
            return True
        moment = self.moments.pop(0)
        if isinstance(moment, BaseException):
            raise moment
        self.texts, self.state, self.status = moment
        return False

    def close(self, cause):
        self.closed.append(cause)
        self.moments = []

    @property
    def completion(self):
        cause = self.closed[0] if self.closed else self.error and str(self.error)
        return Completion(choices=self.whole.choices, usage=self.whole.usage, incomplete=cause)


@dataclass
class FakeScreen:
    """A screen that keeps what is drawn, sends `size` bytes each time, and has somebody press stop."""

    size: int = 10
    presses: int = 0
    drawn: list = field(default_factory=list)
    ended: list = field(default_factory=list)

    def grow(self, texts, status):
        self.drawn.append((dict(texts), status))
        return self.size

    def end(self, completion):
        if self.presses:
            self.presses -= 1
            raise KeyboardInterrupt
        self.ended.append(completion)


def run(stream, screen, kept=None, **options):
    kept = [] if kept is None else kept
    return show_run(
        stream, screen, lambda completion: kept.append(completion) or completion, "story", **options
    )


def text(value, status="streaming", state="streaming"):
    return ({0: value}, state, status)


# --- how often ---


def test_every_new_text_is_drawn_and_the_answer_last():
    stream, screen = FakeStream(text("a"), text("ab"), text("abc")), FakeScreen()
    completion = run(stream, screen)
    assert [texts for texts, _ in screen.drawn] == [{0: "a"}, {0: "ab"}, {0: "abc"}]
    assert screen.ended == [completion] and completion.text == "whole"


def test_the_first_state_is_drawn_at_once_and_then_about_ten_a_second():
    stream = FakeStream(*[text("a" * n) for n in range(5)])
    run(stream, FakeScreen())
    assert stream.waits == [0.0] + [live.TICK] * 5 and live.TICK == 0.1


def test_what_has_not_changed_is_not_drawn_again():
    stream, screen = FakeStream(*[text("a")] * 8, text("ab")), FakeScreen()
    run(stream, screen)
    assert len(screen.drawn) == 2


def test_seconds_that_go_by_are_drawn_once_a_second_and_a_new_state_at_once():
    waiting = [({}, "waiting", f"waiting, {n / 10:.1f} s") for n in range(25)]
    retrying = [({}, "retrying", "retrying")]
    screen = FakeScreen()
    run(FakeStream(*waiting, *retrying), screen)
    assert 3 <= len(screen.drawn) <= 4 and screen.drawn[-1] == ({}, "retrying")


def test_the_interval_grows_with_the_size_of_what_is_sent():
    stream = FakeStream(*[text("a" * n) for n in range(4)])
    run(stream, FakeScreen(size=3_000_000))
    assert stream.waits[1:] == [3.0] * 4


# --- stop ---


@pytest.mark.parametrize("before", [[], [text("a")], [({}, "waiting", "waiting")]])
def test_stop_closes_the_stream_keeps_the_text_and_shows_it(before):
    stream, screen, kept = FakeStream(*before, KeyboardInterrupt()), FakeScreen(), []
    with pytest.raises(Interrupted) as caught:
        run(stream, screen, kept)
    assert stream.closed == ["interrupted"]
    assert screen.ended == kept and kept[-1].incomplete == "interrupted"
    assert caught.value.completion is kept[-1] and caught.value.__suppress_context__
    assert str(caught.value) == "5 characters kept in story"


def test_pressing_stop_again_while_the_end_is_drawn_loses_nothing():
    stream, screen, kept = FakeStream(text("a"), KeyboardInterrupt()), FakeScreen(presses=3), []
    with pytest.raises(Interrupted):
        run(stream, screen, kept)
    assert screen.ended == [kept[-1]] and kept[-1].incomplete == "interrupted"


def test_stop_in_the_last_drawing_of_a_whole_answer_keeps_it_whole_and_stops_run_all():
    stream, screen, kept = FakeStream(text("a")), FakeScreen(presses=1), []
    stream.close = lambda cause: None  # it has ended
    with pytest.raises(Interrupted):
        run(stream, screen, kept)
    assert screen.ended == [kept[-1]] and kept[-1].incomplete is None


def test_stop_while_growing_is_a_stop(monkeypatch):
    stream, screen = FakeStream(text("a"), text("ab")), FakeScreen()
    monkeypatch.setattr(screen, "grow", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(Interrupted):
        run(stream, screen)
    assert len(screen.ended) == 1


@pytest.mark.parametrize(
    ("completion", "message"),
    [
        (Completion(choices=(Choice(0, "abc"),), usage=Usage(1, 1482, 1483)), "1,482 tokens kept in story"),
        (Completion(choices=(Choice(0, "abc"), Choice(1, "de"))), "5 characters kept in story"),
        (Completion(), "nothing had come yet"),
    ],
)
def test_the_one_line_says_how_much_is_kept_and_where(completion, message):
    with pytest.raises(Interrupted, match=f"^{message}$"):
        run(FakeStream(KeyboardInterrupt(), completion=completion), FakeScreen())


# --- failure, views ---


def test_a_failure_is_raised_after_what_had_come_was_kept_and_shown():
    error = BrokenStreamError("the connection broke")
    screen, kept = FakeScreen(), []
    with pytest.raises(BrokenStreamError) as caught:
        run(FakeStream(text("a"), error=error), screen, kept)
    assert caught.value is error and error.completion is kept[0] is screen.ended[0]
    assert kept[0].incomplete == "the connection broke"


@pytest.mark.parametrize("moments", [[text("a")], [text("a"), KeyboardInterrupt()]])
def test_a_fault_in_making_the_completion_is_raised_when_the_texts_are_kept_and_shown(moments, shown):
    class Faulty(FakeStream):
        @property
        def completion(self):
            raise ZeroDivisionError("ours")

    stream, screen, kept = Faulty(*moments), FakeScreen(), []
    with pytest.raises(ZeroDivisionError, match="ours"):
        run(stream, screen, kept, views=("table",))
    assert screen.ended == kept and kept[0].texts == ["a"] and shown == []
    assert kept[0].incomplete == "only its text could be read, because of a ZeroDivisionError in oai_nb"


@pytest.fixture
def shown(monkeypatch):
    views = []
    monkeypatch.setattr(live, "show_view", lambda view, completion: views.append((view, completion)))
    return views


def test_views_come_below_in_the_order_asked_also_of_a_partial_answer(shown):
    completion = run(FakeStream(), FakeScreen(), views=("table", "tokens"))
    assert shown == [("table", completion), ("tokens", completion)]
    with pytest.raises(BrokenStreamError):
        run(FakeStream(error=BrokenStreamError("x")), FakeScreen(), views=("table",))
    assert len(shown) == 3


def test_stop_shows_no_views_since_it_is_to_be_quick(shown):
    with pytest.raises(Interrupted):
        run(FakeStream(KeyboardInterrupt()), FakeScreen(), views=("table",))
    assert shown == []


def test_stop_among_the_views_is_one_line_too(monkeypatch):
    monkeypatch.setattr(live, "show_view", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(Interrupted, match="kept in story"):
        run(FakeStream(), FakeScreen(), views=("table",))


# --- which screen ---


def test_a_notebook_is_live_except_under_nbval(shell, monkeypatch):
    assert isinstance(screen_of(shell.ip, 1), StaticCell), "this is pytest, as nbval's kernels see it"
    monkeypatch.delenv("PYTEST_VERSION")
    assert isinstance(screen_of(shell.ip, 1), LiveCell)


def test_the_environment_chooses(shell, monkeypatch):
    monkeypatch.setenv(live.MODE, "live")
    assert isinstance(screen_of(shell.ip, 1), LiveCell)
    monkeypatch.delenv("PYTEST_VERSION")
    monkeypatch.setenv(live.MODE, "static")
    assert isinstance(screen_of(shell.ip, 1), StaticCell)
    monkeypatch.setenv(live.MODE, "lively")
    with pytest.raises(ConfigurationError, match="OAI_NB_DISPLAY='lively' is neither static nor live"):
        screen_of(shell.ip, 1)


def test_a_terminal_prints_and_a_capture_keeps_only_the_end(shell, monkeypatch):
    monkeypatch.delenv("PYTEST_VERSION")
    assert isinstance(screen_of(SimpleNamespace(display_pub=DisplayPublisher(shell=shell.ip)), 1), Terminal)
    with capture_output():
        assert isinstance(screen_of(shell.ip, 1), StaticCell)


# --- the screens ---


def test_a_live_cell_is_one_display_in_the_same_place(shell):
    screen = LiveCell(1)
    size = screen.grow({0: "Hel"}, "streaming")
    screen.grow({0: "Hello"}, "streaming")
    screen.end(Completion(choices=(Choice(0, "Hello!", "stop"),)))
    kinds = [output.kind for output in shell.outputs]
    assert kinds == ["display_data", "update_display_data", "update_display_data"]
    assert len({output.display_id for output in shell.outputs}) == 1
    assert size == sum(map(len, shell.outputs[0].data.values()))
    assert "Hello!" in shell.outputs[-1].text and "Hello!" in shell.outputs[-1].html


def test_a_static_cell_is_the_last_drawing_alone(shell):
    completion = Completion(choices=(Choice(0, "Hello!", "stop"),))
    static, growing = StaticCell(), LiveCell(1)
    assert static.grow({0: "Hel"}, "streaming") == 0 and shell.outputs == []
    static.end(completion)
    growing.grow({0: "Hel"}, "")
    growing.end(completion)
    assert [output.kind for output in shell.outputs[:1]] == ["display_data"]
    assert shell.outputs[0].data == shell.outputs[-1].data


def test_a_terminal_prints_one_choice_as_it_comes_with_controls_made_visible(capsys):
    screen = Terminal(1)
    screen.grow({0: "Hel\x1b[31m"}, "")
    screen.grow({0: "Hel\x1b[31mlo\ufffd"}, "")
    assert capsys.readouterr().out == "Hel␛[31mlo"
    screen.end(Completion(choices=(Choice(0, "Hel\x1b[31mlo😀", "stop"),)))
    assert capsys.readouterr().out.startswith("😀\n\n")


@given(st.text(alphabet="a 👩\u200d👧\n\ufffd\x1b❤\ufe0f\U0001f3f4\U000e0067\U000e007f"), st.data())
def test_a_terminal_prints_the_same_however_the_text_is_cut(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    screen, out = Terminal(1), io.StringIO()
    with contextlib.redirect_stdout(out):
        for cut in cuts:
            screen.grow({0: text[:cut]}, "")
        screen.end(Completion(choices=(Choice(0, text, "stop"),)))
    assert out.getvalue() == printable(text) + "\n\nended (stop)\n"


def test_a_terminal_prints_several_choices_when_they_are_whole(capsys):
    screen = Terminal(2)
    screen.grow({0: "a", 1: "b"}, "")
    assert capsys.readouterr().out == ""
    screen.end(Completion(choices=(Choice(0, "one", "stop"), Choice(1, "two", "stop"))))
    out = capsys.readouterr().out
    assert out.index("one") < out.index("two")


def test_a_real_terminal_shows_the_text_while_it_comes(wire, monkeypatch):
    gate = Wait()
    wire.on(stream(event("Hel\x1b[31m"), gate, event("lo", finish_reason="stop"), DONE))
    wire.on(whole({"data": [{"id": "m"}]}), path="/v1/models")
    monkeypatch.delenv("PYTEST_VERSION")
    line = f"%complete --server {wire.url} Say hello"
    command = [
        sys.executable,
        "-m",
        "IPython",
        "--ext",
        "oai_nb",
        "--no-banner",
        "--colors=NoColor",
        "-c",
        line,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        begun = b""
        while not begun.endswith("Hel␛[31m".encode()):
            byte = process.stdout.read(1)
            assert byte, begun
            begun += byte
        gate.set()
        rest, errors = process.communicate(timeout=60)
    assert rest.decode().startswith("lo\n\n") and wire.url in rest.decode(), errors
    assert b"\x1b[31m" not in begun + rest and process.returncode == 0


# --- views ---


def test_tokens_and_compare_are_drawn_by_the_strip(shell):
    completion = Completion(choices=(Choice(0, "one", "stop"), Choice(1, "two", "stop")))
    live.show_view("compare", completion)
    live.show_view("text", completion)
    (output,) = shell.outputs
    assert "one" in output.text and "two" in output.text and "<" in output.html


def test_each_view_says_whether_it_needs_logprobs():
    needy = [name for name, view in live.VIEWS.items() if view.needs_logprobs]
    assert needy == ["tokens", "table", "heatmap"] and [*live.VIEWS] == ["text", *needy, "compare"]


def test_a_heatmap_without_logprobs_is_a_line_and_no_error(shell):
    live.show_view("heatmap", Completion(choices=(Choice(0, "one", "stop"),)))
    assert [output.text for output in shell.outputs] == ["no heatmap: there are no logprobs in this answer"]
