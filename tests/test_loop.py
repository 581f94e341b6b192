"""The background loop: one thread, any caller, a new one after a fork."""

import asyncio
import os
import threading

import pytest

from oai_nb import loop

LIMIT = 30


async def name_of_thread():
    return threading.current_thread().name


def test_a_coroutine_runs_in_the_thread_of_the_loop():
    assert loop.submit(name_of_thread()).result(LIMIT) == loop.THREAD


def test_all_callers_from_any_thread_share_one_loop():
    loops = []
    threads = [threading.Thread(target=lambda: loops.append(loop.running())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert loops == [loop.running()] * 8


def test_the_loop_does_not_keep_the_interpreter_alive():
    loop.running()
    (thread,) = [one for one in threading.enumerate() if one.name == loop.THREAD]
    assert thread.daemon


def test_errors_come_out_of_the_future():
    async def fail():
        raise LookupError("why")

    with pytest.raises(LookupError, match="why"):
        loop.submit(fail()).result(LIMIT)


def test_cancelling_the_future_cancels_the_coroutine():
    begun, ended = threading.Event(), threading.Event()

    async def wait():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    future = loop.submit(wait())
    assert begun.wait(LIMIT)
    future.cancel()
    assert ended.wait(LIMIT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork with threads is what is tested
def test_a_child_has_a_loop_of_its_own_and_the_parent_keeps_its():
    before = loop.running()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, loop.submit(name_of_thread()).result(LIMIT).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == loop.THREAD
    os.waitpid(child, 0)
    assert loop.running() is before and loop.submit(name_of_thread()).result(LIMIT) == loop.THREAD
