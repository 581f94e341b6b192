"""The history's file: what of every run is kept in it, by whom it may be written, what it survives."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
import wire as scripts
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from wire import CASES, DONE, KEY, LIMIT, Stall, Wait, completion, event, failure, logprobs, stream, whole

import oai_nb
from oai_nb import Client, journal, ledger
from oai_nb.configuration import Configuration, configuration
from oai_nb.entry import BARE, HIDDEN, completion_of, entry_of
from oai_nb.errors import ConfigurationError, InvalidRequestError, OaiNbError
from oai_nb.fold import fold
from oai_nb.keys import Mask

OK = whole(completion("ok", finish_reason="stop"))
TOKENS = logprobs(["Hel", "lo"], [-0.1, -0.2], [{"Hel": -0.1, "Ho": -3.0}, {"lo": -0.2, "la": -2.0}])
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """Give every test a history of its own."""
    path = tmp_path / "data" / "history.sqlite3"
    monkeypatch.setenv("OAI_NB_HISTORY", str(path))
    monkeypatch.setattr(journal, "_noted", set())
    monkeypatch.setattr(journal, "_untold", [])
    yield path
    assert journal.flush(LIMIT)
    for name, value in vars(Configuration()).items():
        setattr(configuration, name, value)


@pytest.fixture
def client(wire):
    with Client(wire.url, model="m", api_key=KEY) as client:
        yield client


def numbers():
    return [run for run, _ in journal.lines()]


def last():
    return oai_nb.recall(numbers()[-1])


def query(path, text, *values):
    with sqlite3.connect(path) as connection:
        rows = connection.execute(text, values).fetchall()
    connection.close()
    return rows


def assert_same(recalled, original):
    """Compare all there is; by its JSON, since a NaN is never equal to another."""
    assert recalled.to_json() == original.to_json()
    assert (recalled.timing, recalled.server, recalled.sent) == (
        original.timing,
        original.server,
        original.sent,
    )
    assert (recalled.request, recalled.fidelity, recalled.incomplete) == (
        original.request,
        original.fidelity,
        original.incomplete,
    )
    for one, other in zip(recalled.choices, original.choices, strict=True):
        assert (one.asked_logprobs, one.asked_echo) == (other.asked_logprobs, other.asked_echo)
    assert_frame_equal(recalled.tokens_table(), original.tokens_table())
    assert_frame_equal(recalled.top_logprobs_table(), original.top_logprobs_table())


# --- what is kept ---


def test_a_whole_answer_is_recalled_as_it_was(wire, client):
    body = completion("Hello", finish_reason="length", logprobs=TOKENS, usage=USAGE, system_fingerprint="f")
    wire.on(whole(body))
    asked = {"temperature": 0.5, "logprobs": 2, "n": 2, "stop": ["a", "b"], "logit_bias": {50256: -100}}
    original = client.complete("Say", **asked, extra={"top_k": 40})
    assert_same(last(), original)
    assert last() == original and last().request.extra == {"top_k": 40}
    assert [note.parameter for note in original.fidelity] == ["n"]


def test_a_stream_is_recalled_as_it_was(wire, client):
    wire.on(stream(event("Hel", logprobs=None), event("lo", 1), event("x", finish_reason="stop"), DONE))
    with client.stream([[1, 2], [3]], echo=True) as running:
        original = running.result()
    assert last() == original and original.texts == ["Helx", "lo"]


@pytest.mark.parametrize("name", CASES)
def test_whatever_a_server_sends_is_recalled_as_it_was(wire, client, name):
    wire.on(CASES[name].script)
    running = client.stream("x", stream=CASES[name].streamed)
    assert running.wait(LIMIT)
    assert_same(last(), running.completion)


texts = st.text(max_size=6)
choices = st.fixed_dictionaries(
    {"index": st.integers(0, 3), "text": texts, "finish_reason": st.sampled_from([None, "stop"])}
)


@given(st.lists(st.lists(choices, max_size=2), max_size=6), st.text(st.characters(codec="utf-8"), max_size=9))
def test_any_events_are_recalled_as_they_were(chunks, prompt):
    events = [json.dumps({"id": "c", "choices": chunk}).encode() for chunk in chunks]
    request = oai_nb.Request(prompt, logprobs=1, extra={"prompt_": prompt})
    from oai_nb.decode import decode

    original = fold(map(decode, events), request)
    entry = entry_of(original, events, Mask([KEY]))
    assert completion_of(entry.record, entry.events) == original


def test_the_notes_of_the_magic_are_kept_too(wire, shell):
    wire.on(stream(event("Hello", finish_reason="stop", logprobs=TOKENS), DONE))
    shell.run("%load_ext oai_nb")
    shell.run(f"%%complete --server {wire.url} --model m --show table --out story\nx")
    original = shell.user_ns["story"]
    assert last() == original
    assert "logprobs=5 was asked for" in original.fidelity[0].text


def test_a_stopped_run_is_kept_with_what_had_come(wire, client):
    wire.on(stream(event("Once"), Stall()))
    with client.stream("x") as running:
        next(iter(running))
    assert last() == running.completion
    assert (last().text, last().incomplete) == ("Once", "stopped")


def test_a_failed_run_is_kept_with_its_cause(wire, client):
    wire.on(failure(401, f"Incorrect API key provided: {KEY}."))
    with pytest.raises(OaiNbError) as caught:
        client.complete("x")
    assert last() == caught.value.completion
    assert "Incorrect API key provided: [key]" in last().incomplete


def test_an_interrupted_run_is_kept(wire, shell, monkeypatch):
    monkeypatch.setenv("OAI_NB_DISPLAY", "live")
    wire.on(stream(event("Once"), Stall()))
    shell.run("%load_ext oai_nb")
    shell.run(f"%%complete --server {wire.url} --model m --out story\nx", stop_at="Once")
    assert last() == shell.user_ns["story"]
    assert last().incomplete == "interrupted"


def test_a_run_that_nobody_looks_at_is_kept(wire, client):
    wire.on(OK)
    client.stream("x", stream=False).wait(LIMIT)
    assert last().text == "ok"


LEFT = """
import sys
import oai_nb
chunks = iter(oai_nb.Client(sys.argv[1], model="m").stream("x"))
print(next(chunks))
"""


def test_a_run_that_is_under_way_when_the_program_ends_is_kept_with_what_had_come(wire):
    wire.on(stream(event("Once"), Stall()))
    python(LEFT, wire.url)
    assert (last().text, last().incomplete) == ("Once", "the program ended")


def test_an_answer_too_long_to_keep_is_kept_as_its_texts(wire, client, monkeypatch):
    monkeypatch.setattr("oai_nb.entry.MOST_ANSWER", 100)
    wire.on(whole(completion("Hello", finish_reason="stop", logprobs=TOKENS)))
    original = client.complete("x", logprobs=2)
    assert last().text == "Hello" and last().choices[0].logprobs is None
    assert last().fidelity == (*original.fidelity, BARE)


# --- the switch ---


@pytest.mark.parametrize("off", ["off", "OFF", " off ", "0", "false", "No"])
def test_nothing_is_written_where_the_environment_says_off(wire, client, path, monkeypatch, tmp_path, off):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OAI_NB_HISTORY", off)
    wire.on(OK)
    client.complete("x")
    assert journal.flush(LIMIT) and not path.parent.exists() and not list(tmp_path.iterdir())


def test_a_relative_place_stays_where_it_was(wire, client, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OAI_NB_HISTORY", "of mine.sqlite3")
    wire.on(OK)
    client.complete("x")
    assert numbers() == [1]
    monkeypatch.chdir(tmp_path / "elsewhere")
    client.complete("y")
    assert numbers() == [1, 2] and not list(Path().iterdir())


def test_the_configuration_switches_it_off_and_on_again(wire, client, path, shell):
    wire.on(OK)
    shell.run("%load_ext oai_nb\n%config OaiNb.history = False")
    client.complete("off")
    assert journal.flush(LIMIT) and not path.exists()
    shell.run("%config OaiNb.history = True")
    client.complete("on")
    shell.run("%unload_ext oai_nb")
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["on"]
    assert configuration.history is None


def test_the_switch_is_read_when_a_run_ends(wire, client, path):
    gate = Wait()
    wire.on(stream(event("x"), gate, event("y", finish_reason="stop"), DONE))
    with client.stream("x") as running:
        next(iter_ := iter(running))
        configuration.history = False
        gate.set()
        list(iter_)
    assert journal.flush(LIMIT) and not path.exists()


DEFAULT = """
import oai_nb, sys
from oai_nb import journal
try:
    oai_nb.Client("http://127.0.0.1:9/v1", model="m", max_retries=0).complete("x")
except oai_nb.ConnectError:
    pass
print(journal._place(""))
"""


def test_the_file_is_in_the_user_s_data_folder_and_flushed_when_python_ends(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "share"), "PATH": ""}
    path = Path(python(DEFAULT, env=env).stdout.strip())
    assert path.is_relative_to(tmp_path) and path.name == "history.sqlite3"
    assert len(query(path, "SELECT * FROM runs")) == 1


def python(code, *arguments, **more):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=4 * LIMIT,
        **more,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes here")
def test_only_the_owner_can_read_it(wire, client, path):
    wire.on(OK)
    client.complete("x")
    assert journal.flush(LIMIT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# --- recall and forget ---


def test_a_number_that_is_none_is_one_clear_line():
    with pytest.raises(InvalidRequestError, match=r"^there is no run 7: history\(\) lists them$"):
        oai_nb.recall(7)
    for wrong in ("x", -1, 2**63, 1.0, None, True):
        for use in (oai_nb.recall, oai_nb.forget):
            with pytest.raises(InvalidRequestError, match=r"^run=\S+ is not the number of a run: history"):
                use(wrong)


def test_a_run_is_forgotten_and_the_others_keep_their_numbers(wire, client, path):
    wire.on(OK)
    for prompt in ("first", "a secret of mine", "third"):
        client.complete(prompt)
    assert oai_nb.forget(2) == 1 and oai_nb.forget(2) == 0
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["first", "third"] and numbers() == [
        1,
        3,
    ]
    assert b"a secret of mine" not in path.read_bytes()


def test_all_is_forgotten_and_numbers_are_not_given_twice(wire, client, path):
    wire.on(OK)
    for prompt in ("first", "second"):
        client.complete(prompt + " long" * 20_000)
    assert journal.flush(LIMIT)
    before = path.stat().st_size
    assert oai_nb.forget("all") == 2 and numbers() == []
    assert path.stat().st_size < before / 4 and b"long" not in path.read_bytes()
    client.complete("third")
    assert numbers() == [3]


def test_there_is_nothing_to_forget_where_nothing_was_run(path):
    assert oai_nb.forget("all") == 0 and oai_nb.forget(1) == 0 and not path.exists()


def test_a_run_whose_answer_is_damaged_is_one_clear_line(wire, client, path):
    wire.on(OK)
    client.complete("x")
    assert numbers() == [1]
    query(path, "UPDATE runs SET events = x'00'")
    with pytest.raises(ConfigurationError, match=r"^run 1 cannot be read: "):
        oai_nb.recall(1)


# --- bounds ---


def test_the_oldest_runs_make_room_for_the_newest(wire, client, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_RUNS", 3)
    wire.on(OK)
    for number in range(5):
        client.complete(str(number))
        assert journal.flush(LIMIT)
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["2", "3", "4"]


def test_the_file_stays_within_its_bytes_and_the_newest_run_in_it(wire, client, path, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_BYTES", 200_000)
    wire.on(OK)
    for number in range(12):
        client.complete(str(number) + " x" * 20_000)
        assert journal.flush(LIMIT)
    assert path.stat().st_size < 400_000
    prompts = [oai_nb.recall(run).request.prompt.split()[0] for run in numbers()]
    assert prompts == [str(number) for number in range(12)][-len(prompts) :] and len(prompts) < 6
    monkeypatch.setattr(ledger, "MOST_BYTES", 1)
    client.complete("the newest")
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["the newest"]


# --- several kernels ---

MANY = """
import os, sys
import oai_nb
from oai_nb import journal
client = oai_nb.Client(sys.argv[1], model="m")
for k in range(int(sys.argv[3])):
    client.complete(f"{sys.argv[2]} {k}")
"""
ENDLESS = """
import sys
import oai_nb
from oai_nb import journal
client = oai_nb.Client(sys.argv[1], model="m")
while True:
    client.complete("x" * 5000)
    if journal.flush():
        print("written", flush=True)
"""


def test_kernels_that_write_at_once_lose_nothing(wire):
    wire.on(OK)
    command = [sys.executable, "-c", MANY, wire.url]
    started = [subprocess.Popen([*command, str(k), "50"]) for k in range(4)]
    try:
        assert [one.wait(8 * LIMIT) for one in started] == [0] * 4
    finally:
        for one in started:
            one.kill()
    assert len(numbers()) == 200
    prompts = {json.loads(entry.record)["request"]["prompt"] for _, entry in journal.lines()}
    assert prompts == {f"{k} {j}" for k in range(4) for j in range(50)}


AT_ONCE = """
import sys
from pathlib import Path
from oai_nb.entry import Entry
from oai_nb.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), lambda line: print(line, flush=True))
print("ready", flush=True)
sys.stdin.readline()
for k in range(10):
    ledger.add([Entry(1.0, "m", "t", None, None, None, "{}", b"x" * 3000)])
"""


def test_kernels_that_find_it_damaged_at_once_move_it_aside_once(path):
    path.parent.mkdir()
    path.write_bytes(b"damaged " * 4000)
    command = [sys.executable, "-c", AT_ONCE, path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(4)]
    try:
        assert [one.stdout.readline() for one in started] == ["ready\n"] * 4
        for one in started:
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [one.communicate(timeout=4 * LIMIT)[0] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0] * 4
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == b"damaged " * 4000 and str(aside) in "".join(said)
    assert len(numbers()) == 40


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here")
@pytest.mark.parametrize("after", [1, 7, 20])
def test_a_kernel_that_is_killed_while_it_writes_leaves_all_that_was_written(wire, client, path, after):
    wire.on(OK)
    with subprocess.Popen([sys.executable, "-c", ENDLESS, wire.url], stdout=subprocess.PIPE) as kernel:
        written = sum(1 for _ in zip(range(after), kernel.stdout))
        kernel.send_signal(signal.SIGKILL)
        written += len(kernel.stdout.read().splitlines())
    assert written >= after and len(numbers()) in (written, written + 1)
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    client.complete("afterwards")
    assert last().request.prompt == "afterwards"


def test_a_run_never_waits_for_another_kernel_that_writes(wire, client, path):
    wire.on(OK)
    client.complete("first")
    assert numbers() == [1]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    client.complete("second")
    assert not journal.flush(0)
    other.execute("ROLLBACK")
    other.close()
    assert numbers() == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads is what is tested
def test_a_child_writes_its_own_runs_and_the_parent_its_own(wire, client):
    wire.on(OK)
    client.complete("parent")
    assert numbers() == [1]
    child = os.fork()
    if child == 0:
        try:
            done = Client(wire.url, model="m").stream("child", stream=False).wait(LIMIT)
            os._exit(0 if done and journal.flush(LIMIT) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    client.complete("parent again")
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["parent", "child", "parent again"]


def test_the_thread_that_writes_keeps_no_interpreter_alive(wire, client):
    wire.on(OK)
    client.complete("x")
    (thread,) = [one for one in threading.enumerate() if one.name == journal.THREAD]
    assert thread.daemon


def test_nothing_of_it_is_imported_before_a_run_has_ended():
    code = "import oai_nb, sys; oai_nb.Client; print({'sqlite3', 'platformdirs'} & set(sys.modules))"
    assert python(code).stdout.strip() == "set()"


# --- what goes wrong ---


def told(capsys, client):
    """Return what is said of it, which the next run does."""
    assert journal.flush(LIMIT)
    capsys.readouterr()
    client.complete("the next one")
    return capsys.readouterr().err.splitlines()


def test_a_place_that_cannot_be_written_is_said_once_and_all_else_works(wire, client, path, capsys):
    path.parent.write_text("no folder")
    wire.on(OK)
    assert client.complete("x").text == "ok"
    (line,) = told(capsys, client)
    assert line.startswith(f"oai_nb: runs are missing from the history, as {path} cannot be written: ")
    assert told(capsys, client) == []
    assert numbers() == []


FULL = """
import resource, sys
import oai_nb
from oai_nb import journal
client = oai_nb.Client(sys.argv[1], model="m")
client.complete("first")
journal.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))
print(client.complete("x" * 50_000).text)
"""


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits here")
def test_a_full_disk_is_said_once_and_costs_no_run_that_was_written(wire):
    wire.on(OK)
    done = python(FULL, wire.url)
    assert done.stdout == "ok\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("oai_nb: runs are missing from the history, as ") and "cannot be written" in line
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["first"]


def test_a_file_that_is_locked_for_too_long_is_one_clear_line(wire, client, path, monkeypatch):
    wire.on(OK)
    client.complete("first")
    assert numbers() == [1]
    monkeypatch.setattr(ledger, "BUSY", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ConfigurationError, match=r"^the history .* cannot be used: database is locked$"):
        journal.lines()
    other.close()
    assert numbers() == [1]


def test_a_fault_of_ours_costs_one_run_and_no_other(wire, client, capsys):
    wire.on(OK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oai_nb.entry.MOST_ANSWER", "no number")
        client.complete("x")
        assert journal.flush(LIMIT)
    (line,) = told(capsys, client)
    assert line == "oai_nb: a run is missing from the history, because of a TypeError in oai_nb"
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["the next one"]


def test_a_model_s_name_that_cannot_be_sent_is_no_harm(wire):
    client = Client(wire.url, model="half \ud83d")
    with pytest.raises(OaiNbError):
        client.complete("x")
    assert last().incomplete and [entry.model for _, entry in journal.lines()] == ["half \ufffd"]


@pytest.mark.parametrize("damage", [b"no database at all, only some text" * 9, b""], ids=["head", "middle"])
def test_a_damaged_file_is_moved_aside_and_the_history_begins_anew(wire, client, path, capsys, damage):
    wire.on(OK)
    for prompt in ("before", "x" * 50_000):
        client.complete(prompt)
    assert numbers() == [1, 2]
    data = path.read_bytes()
    broken = damage + data[len(damage) :] if damage else data[:4096] + bytes(4096) + data[8192:]
    path.write_bytes(broken)
    path.with_name("history.sqlite3-journal").write_bytes(b"")
    client.complete("after")
    (line,) = told(capsys, client)
    (aside,) = [one for one in path.parent.glob("*.damaged-*") if not one.name.endswith("-journal")]
    assert line == f"oai_nb: the history was damaged: it begins anew, and the old one is {aside}"
    assert aside.read_bytes() == broken
    assert [oai_nb.recall(run).request.prompt for run in numbers()] == ["after", "the next one"]


def test_a_damaged_file_is_moved_aside_also_by_who_only_reads_it(wire, client, path, capsys):
    wire.on(OK)
    client.complete("before")
    assert numbers() == [1]
    path.write_bytes(path.read_bytes()[:4096] + bytes(4096 * 8))
    assert numbers() == []
    assert "the history was damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [("PRAGMA user_version = 2", "by a newer oai_nb"), ("PRAGMA application_id = 7", "no history of oai_nb")],
)
def test_a_file_of_a_newer_version_or_another_program_is_left_alone(wire, client, path, capsys, change, why):
    wire.on(OK)
    client.complete("x")
    assert numbers() == [1]
    query(path, change)
    before = path.read_bytes()
    client.complete("x")
    (line,) = told(capsys, client)
    assert line.startswith(f"oai_nb: runs are missing from the history: {path} ") and why in line
    for use in (journal.lines, lambda: oai_nb.forget("all"), lambda: oai_nb.recall(1)):
        with pytest.raises(ConfigurationError, match=why):
            use()
    assert path.read_bytes() == before


def test_a_text_that_the_user_names_by_mistake_is_left_alone(wire, client, tmp_path, monkeypatch, capsys):
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n" * 100)
    monkeypatch.setenv("OAI_NB_HISTORY", str(notes))
    wire.on(OK)
    client.complete("x")
    (line,) = told(capsys, client)
    assert f"{notes} is no history of oai_nb: set OAI_NB_HISTORY to another file" in line
    assert notes.read_text() == "my notes\n" * 100


def test_an_empty_file_is_a_history_without_runs(wire, client, path):
    path.parent.mkdir()
    path.touch()
    assert numbers() == [] and oai_nb.forget("all") == 0
    wire.on(OK)
    client.complete("x")
    assert numbers() == [1]


def test_a_history_that_may_only_be_read_is_read(wire, client, path):
    wire.on(OK)
    client.complete("x")
    assert numbers() == [1]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # nobody else may write now
    assert last().request.prompt == "x"
    other.close()


# --- the key ---

LETTERS = [event(letter) for letter in KEY]
ESCAPED = json.dumps({"echo": KEY})[1:-1].replace("sk-", "\\u0073k-").replace("SECRET", "\\u0053ECRET")
ECHOES = {
    "in a text": (stream(event(f"Your key: {KEY}!", finish_reason="stop", logprobs=TOKENS), DONE), {}),
    "in pieces": (stream(*LETTERS, event("", finish_reason="stop"), DONE), {}),
    "in a field of its own": (whole(completion("Hello", 0, "stop", TOKENS, echo={"auth": KEY})), {}),
    "in escapes": (whole(json.dumps(completion("Hello", 0, "stop", TOKENS))[:-1] + f", {ESCAPED}}}"), {}),
    "in the tokens": (whole(completion("hello", 0, "stop", {"tokens": list(KEY)})), {}),
    "in the tokens of a chat": (
        whole(completion("hello", 0, "stop", {"content": [{"token": one, "logprob": -1.0} for one in KEY]})),
        {},
    ),
    "in a name": (whole(completion("Hello", 0, "stop", TOKENS, **{KEY: 1})), {}),
    "in an error": (failure(400, f"bad key {KEY}"), {}),
    "in an error amid": (stream(event("He"), scripts.event("", error={"message": f"no {KEY}"})), {}),
    "in the prompt": (OK, {"prompt": f"My key is {KEY}"}),
    "behind a backslash": (OK, {"prompt": f"\\{KEY}"}),
    "in the extra": (OK, {"extra": {"metadata": {"token": KEY}}}),
}


def unpacked(path):
    """Return every byte of the file, and every answer in it as it was before it was compressed."""
    packed = [events for (events,) in query(path, "SELECT events FROM runs")]
    return path.read_bytes() + b"".join(map(zlib.decompress, packed))


@pytest.mark.parametrize("name", ECHOES)
def test_the_key_is_in_no_byte_of_the_file_nor_in_what_is_recalled(wire, client, path, name):
    script, asked = ECHOES[name][0], dict(ECHOES[name][1])
    wire.on(script)
    client.stream(asked.pop("prompt", "x"), **asked).wait(LIMIT)
    recalled = last()
    everything = unpacked(path) + recalled.to_json().encode()
    assert KEY.encode() not in everything and KEY[3:20].encode() not in everything
    if "error" not in name:
        assert HIDDEN in recalled.fidelity
    if "Hello" in recalled.text:
        assert recalled.choices[0].logprobs is not None, "only the key is lost"


@pytest.mark.parametrize("key", ["test", "none", "ollama"])
def test_a_key_that_is_a_word_is_no_reason_to_change_a_text(wire, key):
    wire.on(stream(event(f"a {key}, tested", finish_reason="stop", logprobs=TOKENS), DONE))
    with Client(wire.url, model="m", api_key=key) as client, client.stream(f"a {key}") as running:
        assert running.wait(LIMIT)
    assert last() == running.completion and last().text == f"a {key}, tested"


def test_a_bearer_of_news_is_no_key(wire, client):
    wire.on(stream(event("a bearer of bad news", finish_reason="stop"), DONE))
    with client.stream("Bearer of x, sk-learn-is-no-key-at-all") as running:
        assert running.wait(LIMIT)
    assert last() == running.completion
