"""The thread of the model: one call after another, and an end that finishes the one that is running."""

import atexit
import threading

import pytest

from oai_nb.local import worker as worker_module
from oai_nb.local.worker import NAME, Worker

LIMIT = 30  # seconds; against hanging, never a measure


class Gate:
    """A call that runs until the test lets it end."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.go_on.wait(LIMIT)
        return "done"


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.go_on.set()


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    atexit.unregister(worker._stop)
    worker._stop()


def test_calls_run_one_after_another_in_a_thread_of_their_own(worker, gate):
    order = []
    first, name = worker.submit(gate), worker.submit(lambda: threading.current_thread().name)
    rest = [worker.submit(order.append, number) for number in range(5)]
    assert gate.begun.wait(LIMIT) and not name.done() and order == []
    gate.go_on.set()
    assert (first.result(LIMIT), name.result(LIMIT)) == ("done", NAME)
    assert rest[-1].result(LIMIT) is None and order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_what_a_call_raises_is_its_callers_and_the_thread_goes_on(worker, error):
    def fail():
        raise error("why")

    with pytest.raises(error, match="why"):
        worker.submit(fail).result(LIMIT)
    assert worker.submit(int, "5").result(LIMIT) == 5


def test_a_call_that_is_cancelled_before_it_begins_never_runs(worker, gate):
    ran = []
    worker.submit(gate)
    assert gate.begun.wait(LIMIT) and worker.submit(ran.append, 1).cancel()
    last = worker.submit(ran.append, 2)
    gate.go_on.set()
    last.result(LIMIT)
    assert ran == [2]


def test_at_the_end_the_call_that_runs_is_finished_and_the_others_are_dropped(worker, gate, monkeypatch):
    monkeypatch.setattr(worker_module, "PATIENCE", 0.0)
    ran = []
    running, dropped = worker.submit(gate), worker.submit(ran.append, 1)
    assert gate.begun.wait(LIMIT)
    worker._stop()  # which the interpreter calls at its exit
    gate.go_on.set()
    worker._thread.join(LIMIT)
    assert running.result(LIMIT) == "done" and not worker._thread.is_alive()
    assert ran == [] and not dropped.done()
