"""``%%complete`` in a real shell, against a real server: what is sent, seen and kept."""

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from IPython.core.completer import provisionalcompleter
from shell import HAS_TAB, needs_tab
from test_parser import requests
from wire import CASES, DONE, KEY, LIMIT, Forever, Stall, Wait, event, failure, logprobs, raw, stream, whole

from oai_nb import errors, live, magic
from oai_nb import settings as connection
from oai_nb.completion_stream import CompletionStream
from oai_nb.options import help_text

HELLO = stream(event("Hel"), event("lo", finish_reason="stop"), DONE)


@pytest.fixture
def lab(shell, wire, monkeypatch):
    """A shell with the extension, live, whose default server is the wire."""
    monkeypatch.setenv("OAI_NB_DISPLAY", "live")
    wire.on(HELLO)
    shell.run("%load_ext oai_nb")
    shell.run(f"%config OaiNb.base_url = {wire.url!r}\n%config OaiNb.model = 'm'")
    yield shell
    magic.unload(shell.ip)


@pytest.fixture
def asked(lab, wire):
    """Run a cell and return the JSON that it sent."""

    def ask(cell):
        before = len(wire.requests)
        ran = lab.run(cell)
        assert ran.error is None, ran.error
        assert len(wire.requests) == before + 1
        return wire.requests[-1].json

    return ask


@pytest.fixture
def refused(lab, wire):
    """Run a cell that is refused before anything is sent, and return the one line it leaves."""

    def refuse(cell):
        ran = lab.run(cell)
        assert ran.error is not None and len(ran.error.lines) == 1 and "\n" not in ran.error.lines[0]
        assert (ran.outputs, ran.stdout, ran.stderr, list(wire.requests)) == ([], "", "", [])
        return ran.error.lines[0]

    return refuse


def set_option(shell, name, value):
    shell.run(f"%config OaiNb.{name} = {value!r}")


# --- into a shell, and out again ---


def parts(ip):
    """Return all that an extension may leave in a shell."""
    return (
        {kind: dict(table) for kind, table in ip.magics_manager.magics.items()},
        dict(ip.magics_manager.registry),
        [id(one) for one in ip.configurables],
        {event: list(callbacks) for event, callbacks in ip.events.callbacks.items()},
        list(ip.input_transformers_cleanup),
        list(ip.input_transformer_manager.token_transformers),
        list(ip.Completer.custom_matchers),
    )


def test_unloading_is_the_mirror_image_of_loading(shell):
    shell.run("%config")  # loads the magics that IPython itself loads late
    shell.run("%load_ext autoreload\n%unload_ext autoreload")
    before = parts(shell.ip)
    shell.run("%load_ext oai_nb")
    assert sum(now != then for now, then in zip(parts(shell.ip), before)) == 6 + HAS_TAB
    set_option(shell, "full_tracebacks", True)
    set_option(shell, "base_url", "http://127.0.0.1:9")
    shell.run("%unload_ext oai_nb")
    for now, then in zip(parts(shell.ip), before):
        assert now == then
    assert errors.full_tracebacks is False and connection.configuration.base_url is None


def test_loading_twice_is_loading_once(lab):
    before = [len(part) for part in parts(lab.ip)]
    magic.load(lab.ip)
    lab.run("%reload_ext oai_nb")
    assert [len(part) for part in parts(lab.ip)] == before
    magic.unload(lab.ip)
    magic.unload(lab.ip)


@pytest.mark.parametrize("cell", ["%%complete?", "%complete?"])
def test_the_help_is_there(lab, cell):
    assert help_text() in lab.run(cell).stdout


def tab(shell, typed):
    """Return what Tab offers at the end of a line."""
    shell.ip.Completer.use_jedi = False
    with provisionalcompleter():
        return [one.text for one in shell.ip.Completer.completions(typed, len(typed))]


@needs_tab
def test_tab_offers_options_while_loaded(lab):
    assert tab(lab, "%%complete --tempe") == ["--temperature"]
    lab.run("%unload_ext oai_nb")
    assert tab(lab, "%%complete --tempe") == []


@needs_tab
def test_tab_offers_the_models_that_are_known_and_asks_nobody(lab, wire):
    wire.on(whole({"data": [{"id": "smol"}, {"id": "big"}]}), path="/v1/models")
    assert "smol" not in tab(lab, "%%complete --model ")
    assert list(wire.requests) == []
    connection.default_client().models()
    assert tab(lab, "%%complete --model ") == ["smol", "big"]


# --- the prompt ---


@pytest.mark.parametrize(
    "body",
    [
        "def f(): return {v:k for k,v in d.items()}",
        '{"a": {"b": 1}}',
        "{{",
        "${x}",
        "$x {x} {x!r:>5}",
        "%s %(x)s %%",
        "\\n \\t \\\\",
        "\"\"\"'''",
        "<|endoftext|>",
        "!ls\n%time x\n?help",
        ">>> x = 1\n... y",
        "  leading\n\ttabs  ",
    ],
)
def test_d20_the_body_goes_out_byte_for_byte(asked, lab, body):
    lab.user_ns.update(x="WRONG", v="WRONG")
    assert asked(f"%%complete\n{body}")["prompt"] == body


@pytest.mark.parametrize(
    ("source", "prompt"),
    [
        ("%%complete\nHello", "Hello"),
        ("%%complete\nHello\n", "Hello"),
        ("%%complete\nHello\n\n\n", "Hello\n\n"),
        ("%%complete\n  Hello\r\nthere", "  Hello\r\nthere"),
        ("%%complete --raw\nHello", "Hello\n"),
        ("%%complete --raw\nHello\n", "Hello\n"),
        ("%%complete\n", ""),
        ("%%complete", ""),
    ],
)
def test_d21_exactly_one_final_newline_is_taken_off(asked, source, prompt):
    assert asked(source)["prompt"] == prompt


def test_an_empty_prompt_is_sent_and_said(lab):
    lab.run("%%complete --out c")
    assert [note.text for note in lab.user_ns["c"].fidelity] == ["the prompt is empty"]


def test_a_call_from_python_takes_its_own_argument(lab, asked):
    assert asked("get_ipython().run_cell_magic('complete', '-n 1', '>>> a\\n')")["prompt"] == ">>> a"


@pytest.mark.parametrize(
    "above", ["%%time", "%%capture", "%%time\n%%capture", "%%capture\n%%time", "%%capture\n%%capture"]
)
@pytest.mark.parametrize("body", [">>> a\n... b", "a\n    \nb"])
def test_the_magic_can_stand_below_others(asked, above, body):
    assert asked(f"{above}\n%%complete\n{body}")["prompt"] == body


def test_a_question_can_stand_behind_another_magic(asked):
    assert asked("%time %complete Why?")["prompt"] == "Why?"


def test_no_name_of_ipythons_is_taken(refused, lab):
    assert "IPython's own" in refused("%%complete --out get_ipython\nx")
    assert lab.user_ns["get_ipython"]() is lab.ip


@pytest.mark.parametrize(
    ("line", "prompt"),
    [
        ("Once upon a time ", "Once upon a time "),
        ('--max-tokens 3 What\'s "this" {x} $x?', 'What\'s "this" {x} $x?'),
        ("-- --dash", "--dash"),
        ("Is it 5? # no", "Is it 5? # no"),
    ],
)
def test_one_line_is_options_and_then_the_prompt_as_it_is(lab, asked, line, prompt):
    lab.user_ns["x"] = "WRONG"
    assert asked(f"%complete {line}")["prompt"] == prompt


@pytest.mark.parametrize("cell", ["%complete", "%complete -n 2", "%complete -n 2   "])
def test_one_line_without_a_prompt_is_refused(refused, cell):
    assert (
        refused(cell)
        == "ConfigurationError: there is no prompt: write it behind the options, or name a --file"
    )


def test_what_follows_the_options_of_a_cell_is_refused(refused):
    line = refused("%%complete -n 2 Once\nupon a time")
    assert line == "ConfigurationError: 'Once' is no option: the prompt begins on the next line"


# --- variables and files ---


def test_a_variable_is_filled_in_where_it_was_asked_for_and_only_there(lab, asked):
    lab.user_ns.update(name="Ada {other}", other=3)
    cell = "%%complete --var name --var other\n{name} has {other} of {name}, {x} {{name}} {}"
    assert asked(cell)["prompt"] == "Ada {other} has 3 of Ada {other}, {x} {Ada {other}} {}"


def test_a_name_may_be_spelled_as_python_lets_one(lab, asked):
    lab.run("µ = 5")
    assert asked("%%complete --var µ --out ªnswer\n{µ}, {μ}")["prompt"] == "5, {μ}"
    assert lab.run("ªnswer.text").result == "Hello"


class Textless:
    def __str__(self):
        raise ValueError("two\nlines")


def test_a_variable_whose_text_cannot_be_had_is_named(lab, refused):
    lab.user_ns["b"] = Textless()
    assert refused("%%complete --var b\n{b}") == "ConfigurationError: --var b: str(b) raises ValueError"


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("%%complete --var nmae\n{nmae}", "--var nmae: there is no variable nmae. did you mean name?"),
        ("%%complete --var zzz\n{zzz}", "--var zzz: there is no variable zzz"),
        ("%%complete --var name\n{nmae}", "--var name: there is no {name} in the prompt"),
    ],
)
def test_an_unknown_name_is_one_clear_line(lab, refused, cell, line):
    lab.user_ns["name"] = "Ada"
    assert refused(cell) == f"ConfigurationError: {line}"


@pytest.mark.parametrize("cell", ["%%complete --file 'a file.txt'", "%complete --file 'a file.txt'"])
def test_a_file_is_the_prompt_byte_for_byte(asked, tmp_path, monkeypatch, cell):
    monkeypatch.chdir(tmp_path)
    text = "\ufeff one\r\n>>> two\n\n"
    (tmp_path / "a file.txt").write_bytes(text.encode())
    assert asked(cell)["prompt"] == text


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        (
            "%%complete --file p.txt\nbody",
            "--file gives the prompt, and so does the cell: leave one of them out",
        ),
        (
            "%complete --file p.txt body",
            "--file gives the prompt, and so does the cell: leave one of them out",
        ),
        ("%%complete --file none.txt", "--file none.txt: No such file or directory"),
        ("%%complete --file latin.txt", "--file latin.txt is not UTF-8: byte 2 is wrong"),
        ("%%complete --file .", "--file .: Is a directory"),
        ("%%complete --file ''", "--file '' names no file"),
        ("%%complete --file ~no-such-user/x", "--file ~no-such-user/x: Could not determine home directory."),
        ("%%complete --file a\0b", "--file 'a\\x00b': a name has no NUL in it"),
        ("%%complete --file 'a\x0cb'", "--file 'a\\x0cb': No such file or directory"),
        ("%%complete --file /dev/zero", "--file /dev/zero: not a regular file"),
        ("%%complete --file pipe", "--file pipe: not a regular file"),
    ],
)
def test_a_file_that_cannot_be_taken_is_one_clear_line(refused, tmp_path, monkeypatch, cell, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.txt").write_text("x")
    (tmp_path / "latin.txt").write_bytes(b"ab\xe9")
    os.mkfifo(tmp_path / "pipe")
    assert refused(cell) == f"ConfigurationError: {line}"


# --- options ---


def test_d22_stops_with_quotes_spaces_and_escapes(asked):
    body = asked('%%complete --stop "\\n" --stop "User:" --stop "don\'t" --stop "a b"\nx')
    assert body["stop"] == ["\n", "User:", "don't", "a b"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("-t 0,7", "InvalidRequestError: temperature='0,7' is not a number: it must be one from 0 to 2"),
        ("--temperature 3", "InvalidRequestError: temperature=3 is out of range: it must be from 0 to 2"),
        (
            "--temprature 1",
            "ConfigurationError: there is no option --temprature: did you mean --temperature?",
        ),
        ("--tem 1", "ConfigurationError: there is no option --tem: did you mean --temperature?"),
        ("--show heatmp", "ConfigurationError: --show has no view 'heatmp': did you mean heatmap?"),
        ("--out 1", "ConfigurationError: --out '1' is not a name that a variable can have"),
        ("--stop a --stop b --stop c --stop d --stop e", "InvalidRequestError: stop=("),
        ("-n 3 --best-of 2", "InvalidRequestError: best_of=2 is less than n=3"),
        ("--extra temperature=1", "InvalidRequestError: extra may not hold 'temperature'"),
        ("--server htp://x", "ConfigurationError: "),
        ("--stop 'a", "ConfigurationError: this is opened and never closed: 'a"),
    ],
)
def test_a_bad_option_is_one_line_that_names_it_and_nothing_is_sent(refused, options, line):
    assert refused(f"%%complete {options}\nx").startswith(line)


def test_every_option_reaches_the_server(asked):
    options = (
        "-t 0.5 --top-p 0.9 --frequency-penalty -1 --presence-penalty 1 --logit-bias 5=-100 --seed 7 "
        "--max-tokens 3 --stop x -n 2 --best-of 2 --logprobs 2 --echo --suffix s --user u --model other "
        "--extra top_k=40 --stream-options '{\"include_usage\": false}'"
    )
    assert asked(f"%%complete {options}\nx") == {
        "prompt": "x",
        "model": "other",
        "temperature": 0.5,
        "top_p": 0.9,
        "frequency_penalty": -1.0,
        "presence_penalty": 1.0,
        "logit_bias": {"5": -100},
        "seed": 7,
        "max_tokens": 3,
        "stop": ["x"],
        "n": 2,
        "best_of": 2,
        "logprobs": 2,
        "echo": True,
        "suffix": "s",
        "user": "u",
        "top_k": 40,
        "stream": True,
        "stream_options": {"include_usage": False},
    }


def test_the_cell_streams_unless_it_is_told_not_to(asked, wire):
    assert asked("%%complete\nx")["stream"] is True
    wire.on(whole({"choices": [{"index": 0, "text": "Hello", "finish_reason": "stop"}]}))
    assert "stream" not in asked("%%complete --no-stream\nx")
    assert "stream" not in asked("%%complete --best-of 3\nx")


def test_another_server_is_asked_once_and_the_default_stays(lab, wire, asked):
    set_option(lab, "base_url", "http://127.0.0.1:9/v1")
    assert asked(f"%%complete --server {wire.url}\nx")["prompt"] == "x"
    assert connection.default_client().server.base_url == "http://127.0.0.1:9/v1"


class Asked(errors.OaiNbError):
    """Carry the request that a cell made, in place of an answer; drawn in one line, which is quick."""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request_=requests())
def test_the_cell_of_a_request_makes_an_equal_request(shell, request_):
    class Client:
        def stream_request(self, prompt, **parameters):
            return magic_request(prompt, **parameters)

        def start(self, request, notes):
            raise Asked(request)

    magic_request = type(request_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(magic, "client_of", lambda _: Client())
        magic.load(shell.ip)
        ran = shell.run(request_.to_magic())
        magic.unload(shell.ip)
    assert isinstance(ran.error.exception, Asked), ran.error
    assert ran.error.exception.args == (request_,)


# --- configuration ---


def test_a_default_of_the_users_own_is_used_and_seen_in_the_result(lab, asked):
    set_option(lab, "temperature", 0.25)
    assert asked("%%complete --out c\nx")["temperature"] == 0.25
    assert lab.user_ns["c"].sent["temperature"] == 0.25 and "temperature 0.25" in lab.outputs[-1].text
    assert asked("%%complete -t 1.5\nx")["temperature"] == 1.5
    set_option(lab, "temperature", None)
    assert asked("%%complete\nx")["temperature"] == 1.0


def test_a_switch_that_is_on_by_default_can_be_turned_off(lab, asked):
    set_option(lab, "echo", True)
    assert asked("%%complete\nHe")["echo"] is True and asked("%%complete --no-echo\nx")["echo"] is False


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 3, "OaiNb.temperature=3 is out of range: it must be from 0 to 2"),
        ("n", "3", "OaiNb.n='3' is not a whole number: it must be one from 1 to 128"),
        ("timeout", -1, "OaiNb.timeout: "),
        ("base_url", "no address", "OaiNb.base_url: "),
    ],
)
def test_a_bad_default_is_refused_when_it_is_assigned(lab, caplog, name, value, message):
    trait = getattr(lab.ip.magics_manager.registry["CompleteMagics"].settings, name)
    set_option(lab, name, value)
    assert caplog.records[-1].getMessage().startswith(message)
    assert getattr(lab.ip.magics_manager.registry["CompleteMagics"].settings, name) == trait


def test_a_key_in_the_place_of_an_address_is_refused_without_being_repeated(lab, caplog):
    set_option(lab, "base_url", KEY)
    assert "key" in caplog.text and KEY not in caplog.text
    assert connection.configuration.base_url != KEY


def test_config_lists_every_default_and_no_key(lab):
    assert "OaiNb" in lab.run("%config").stdout
    shown = lab.run("%config OaiNb").stdout
    assert "OaiNb.temperature=" in shown and "OaiNb.base_url=" in shown and "key" not in shown.lower()


def test_model_server_and_timeout_reach_the_client(lab):
    set_option(lab, "timeout", 7)
    set_option(lab, "model", "other")
    client = connection.default_client()
    assert (client.model, client.timeout.total) == ("other", 7)


# --- what is seen and kept ---


def test_the_text_grows_in_one_place_and_ends_with_its_footer(lab, wire):
    gate = Wait()
    wire.on(stream(event("Hel"), gate, event("lo", finish_reason="stop"), DONE))
    ran = run_looking(lab, "%%complete --out story\nx", lambda output: "Hel" in output.text and gate.set())
    assert ran.error is None and ran.result is None
    kinds = {output.kind for output in ran.outputs[1:]}
    assert ran.outputs[0].kind == "display_data" and kinds == {"update_display_data"}
    (seen,) = ran.screen
    assert seen.text.startswith("Hello\n\n") and wire.url in seen.text and "Hello" in seen.html
    assert any(output.text.startswith("Hel\n") for output in ran.outputs)


def run_looking(shell, cell, look):
    """Run a cell and look at each output as it comes."""
    record = shell.ip.record

    def looking(output):
        record(output)
        look(output)

    shell.ip.record = looking
    try:
        return shell.run(cell)
    finally:
        shell.ip.record = record


def test_the_completion_is_kept_in_the_variable_and_always_in_completion(lab):
    lab.run("%%complete --out story\nx")
    assert lab.user_ns["story"].text == "Hello" and lab.user_ns["_completion"] is lab.user_ns["story"]
    ran = lab.run("%complete y")
    assert lab.user_ns["_completion"].request.prompt == "y" and ran.result is None
    assert len(ran.screen) == 1


def test_static_mode_is_one_display_the_same_as_the_last_of_live(lab, monkeypatch):
    last = lab.run("%%complete\nx").screen[-1]
    monkeypatch.setenv(live.MODE, "static")
    (only,) = lab.run("%%complete\nx").outputs
    assert only.kind == "display_data" and set(only.data) == set(last.data)
    monkeypatch.delenv(live.MODE)
    assert len(lab.run("%%complete\nx").outputs) == 1, "PYTEST_VERSION is set, as it is for nbval"


def test_a_wrong_display_mode_is_refused_before_anything_is_sent(refused, monkeypatch):
    monkeypatch.setenv(live.MODE, "lively")
    assert "OAI_NB_DISPLAY='lively'" in refused("%%complete\nx")


def test_d19_choices_grow_in_fixed_places(lab, wire):
    wire.on(CASES["D19-two-interleaved"].script)
    (seen,) = lab.run("%%complete -n 2 --out c\nx").screen
    assert lab.user_ns["c"].texts == ["ABC", "xy"]
    assert seen.text.index("[0]") < seen.text.index("ABC") < seen.text.index("[1]") < seen.text.index("xy")


TOKENS = logprobs(["Hel", "lo"], [-0.1, -0.2], [{"Hel": -0.1, "Ho": -3.0}, {"lo": -0.2, "la": -2.0}])


@pytest.fixture
def with_logprobs(wire):
    wire.on(stream(event("Hello", finish_reason="stop", logprobs=TOKENS), DONE))


@pytest.mark.parametrize("view", ["tokens", "table", "heatmap"])
def test_a_view_that_needs_logprobs_asks_for_five_and_says_so(lab, asked, with_logprobs, view):
    assert asked(f"%%complete --show {view} --out c\nx")["logprobs"] == 5
    notes = [note for note in lab.user_ns["c"].fidelity if note.sign == "info"]
    assert [note.text for note in notes] == [f"logprobs=5 was asked for, because --show {view} needs some"]
    assert any(notes[0].text in output.text for output in lab.outputs)
    assert asked(f"%%complete --show {view} --logprobs 2 --out c\nx")["logprobs"] == 2
    assert not [note for note in lab.user_ns["c"].fidelity if note.sign == "info"]


def test_views_are_displays_of_their_own_in_the_order_asked(lab, asked, with_logprobs):
    lab.run("%%complete --logprobs 2 --show heatmap,table,tokens,compare\nx")
    text, heatmap, table, tokens, compare = lab.run(
        "%%complete --show heatmap,table,tokens,compare\nx"
    ).screen
    assert "application/vnd.plotly.v1+json" in heatmap.data and "<table" in table.html
    assert text.text.startswith("Hello") and "Hel" in tokens.html and "Hello" in compare.text
    assert "logprobs" not in asked("%%complete --show compare\nx")


# --- errors ---


@pytest.mark.parametrize("name", ["D06-cut-chunked", "D06-reset", "D07-error-in-stream"])
def test_a_broken_stream_keeps_shows_and_marks_what_came_and_stops_run_all(lab, wire, name):
    case = CASES[name]
    wire.on(case.script)
    ran = lab.run("%%complete --out story\nx")
    assert isinstance(ran.error.exception, errors.OaiNbError) and len(ran.error.lines) == 1
    story = lab.user_ns["story"]
    assert story.text == case.texts[0] and case.error in story.incomplete
    assert ran.error.exception.completion is story is lab.user_ns["_completion"]
    assert ran.screen[-1].text.startswith(story.text) and "incomplete" in ran.screen[-1].text


def test_an_error_of_the_server_is_one_line_and_no_key_is_anywhere(lab, wire, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", wire.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    wire.on(CASES["D09-key-in-the-401"].script)
    ran = lab.run("%%complete --out story\nx")
    assert ran.error.name == "AuthenticationError" and len(ran.error.lines) == 1
    assert wire.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    seen = repr(
        (ran.error, ran.outputs, ran.stdout, ran.stderr, lab.user_ns["story"], lab.user_ns["story"].to_json())
    )
    assert "SECRETKEY" not in seen


def test_one_line_holds_in_every_xmode_and_full_tracebacks_are_to_be_had(lab, wire):
    wire.on(failure(500, "boom"))
    lab.run("%xmode Verbose")
    assert len(lab.run("%%complete\nx").error.lines) == 1
    set_option(lab, "full_tracebacks", True)
    assert len(lab.run("%%complete\nx").error.lines) > 1
    assert len(lab.run("%%complete --bogus\nx").error.lines) > 1


def test_a_fault_of_our_own_keeps_its_traceback(lab, monkeypatch):
    monkeypatch.setattr(magic, "prompt_of", lambda *_: 1 / 0)
    error = lab.run("%%complete\nx").error
    assert error.name == "ZeroDivisionError" and len(error.lines) > 1


# --- D12: stop ---

PHASES = {
    "before the head": (raw(Stall()), "waiting", "nothing had come yet"),
    "before the first token": (stream(Stall()), "waiting", "nothing had come yet"),
    "stalled": (stream(event("abc"), Stall()), "abc", "3 characters kept in story"),
    "streaming": (stream(event("abc"), Forever(event("d"))), "abc", None),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("n", [1, 2])
def test_d12_stop_keeps_the_text_and_the_server_sees_the_close(lab, wire, phase, n):
    script, shown, message = PHASES[phase]
    route = wire.on(script)
    pressed = []

    def press(output):
        if shown in output.text and route.requests and not pressed:  # the request may be on its way still
            pressed.append(output)
            signal.raise_signal(signal.SIGINT)

    ran = run_looking(lab, f"%%complete --out story -n {n}\nx", press)
    assert isinstance(ran.error.exception, errors.Interrupted)
    assert len(ran.error.lines) == 1 and ran.error.lines[0].startswith("Interrupted: ")
    assert message is None or ran.error.value == message
    assert route.requests.at(0).closed.wait(LIMIT), "though the last traceback is kept"
    assert sys.last_value is ran.error.exception
    story = lab.user_ns["story"]
    assert story.incomplete == "interrupted" and ran.error.exception.completion is story
    assert "incomplete: interrupted" in ran.screen[-1].text and story.text in ran.screen[-1].text


def test_d12_a_second_stop_while_the_end_is_drawn_loses_nothing(lab, wire, monkeypatch):
    from oai_nb import strip

    wire.on(stream(event("abc"), Stall()))
    bundle, presses = strip.bundle, [1, 2]

    def pressed(*arguments):
        if presses:
            presses.pop()
            signal.raise_signal(signal.SIGINT)
        return bundle(*arguments)

    monkeypatch.setattr(strip, "bundle", pressed)
    ran = lab.run("%%complete --out story\nx", stop_at="abc")
    assert ran.error.name == "Interrupted" and not presses
    assert lab.user_ns["story"].text == "abc" and ran.screen[-1].text.startswith("abc\n\n")


def test_d12_the_next_cell_can_run_at_once(lab, wire):
    wire.on(stream(event("abc"), Stall()), HELLO)
    lab.run("%%complete\nx", stop_at="abc")
    assert lab.run("%%complete --out again\nx").error is None and lab.user_ns["again"].text == "Hello"


def test_stop_before_anything_was_sent_is_one_line_too(lab, monkeypatch):
    monkeypatch.setattr(magic, "prompt_of", lambda *_: signal.raise_signal(signal.SIGINT))
    assert lab.run("%%complete\nx").error.lines == ["Interrupted: nothing was sent yet"]


# --- D23: the flood ---


@pytest.mark.parametrize(("n", "each"), [(1, 200), (8, 4)])
def test_d23_a_flood_is_a_drawing_for_each_tick_and_the_last_state_is_drawn(lab, wire, monkeypatch, n, each):
    block = b"".join(event("word ", index) for index in range(n) for _ in range(each))
    ends = b"".join(event("", index, finish_reason="stop") for index in range(n))
    gates = [Wait() for _ in range(4)]  # a flood at each, which opens when the one before has been drawn
    wire.on(stream(*(step for gate in gates for step in (*[block] * 25, gate)), ends, DONE))
    ticks, wait = [], CompletionStream.wait

    def counted(self, timeout=None):
        ticks.append(timeout)
        return wait(self, timeout)

    def open_next(output):
        words = output.text.count("word") // (n * each * 25)
        for gate in gates[:words]:
            gate.set()

    monkeypatch.setattr(CompletionStream, "wait", counted)
    ran = run_looking(lab, f"%%complete --out story -n {n}\nx", open_next)
    assert ran.error is None and all(tick >= live.TICK for tick in ticks[1:])
    assert len(gates) <= len(ran.outputs) <= len(ticks) + 1
    assert lab.user_ns["story"].texts == ["word " * 25 * len(gates) * each] * n
    assert all(text in ran.screen[-1].text for text in lab.user_ns["story"].texts)
