"""Time limits: their values, and what runs out first."""

import asyncio
import math

import pytest

from oai_nb.deadline import Deadline, Limits, as_limits
from oai_nb.errors import ConfigurationError, TimeLimitError

SHORT, LONG = 0.01, 30


def run(limits, *phases, cause=None):
    """Wait forever in the last of the phases; return the error that ends it."""

    async def main():
        with Deadline(limits) as deadline:
            for phase in phases:
                deadline.enter(phase)
            if cause is not None:
                asyncio.get_running_loop().call_soon(cause, asyncio.current_task())
            await asyncio.Event().wait()

    with pytest.raises((TimeLimitError, asyncio.CancelledError)) as caught:
        asyncio.run(asyncio.wait_for(main(), LONG))
    return caught.value


@pytest.mark.parametrize("phase", ["connect", "first_token", "idle"])
def test_each_phase_has_its_limit_and_the_error_says_which_and_how_to_change_it(phase):
    error = run(Limits(**{phase: SHORT}), phase)
    assert (error.phase, error.seconds) == (phase, SHORT)
    assert "0.01 s" in str(error) and f"Limits({phase}=" in str(error)


def test_the_total_runs_on_through_all_phases():
    error = run(Limits(total=SHORT), "first_token", "idle", "retry")
    assert error.phase == "total" and "timeout" in str(error)


def test_a_phase_that_was_left_does_not_count():
    assert run(Limits(connect=SHORT, first_token=2 * SHORT), "first_token").phase == "first_token"


def test_the_error_hides_the_cancellation_behind_it():
    assert run(Limits(total=SHORT)).__suppress_context__


def test_somebody_else_s_cancellation_is_left_alone():
    assert isinstance(run(Limits(), "idle", cause=lambda task: task.cancel()), asyncio.CancelledError)


def test_what_comes_begins_the_idle_time_again():
    """On a clock that the test moves."""
    now = 0.0

    async def pass_time(seconds):
        nonlocal now
        now += seconds
        for _ in range(3):
            await asyncio.sleep(0)

    async def main():
        asyncio.get_running_loop().time = lambda: now
        with Deadline(Limits(first_token=1, idle=1)) as deadline:
            deadline.enter("first_token")
            for _ in range(5):
                await pass_time(0.9)
                deadline.came()
            await pass_time(0.9)
            assert deadline.phase == "idle"
            await pass_time(0.2)

    with pytest.raises(TimeLimitError) as caught:
        asyncio.run(main())
    assert caught.value.phase == "idle" and now == pytest.approx(5 * 0.9 + 1.1)


def test_no_limit_is_no_limit():
    async def main():
        with Deadline(Limits(None, None, None, None)) as deadline:
            assert deadline.left() == math.inf
            deadline.enter("idle")
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_number_is_the_seconds_for_the_whole():
    assert (
        as_limits(5) == Limits(total=5)
        and as_limits(None) == Limits()
        and as_limits(Limits(idle=1)).idle == 1
    )


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "5", True])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ConfigurationError, match="timeout="):
        as_limits(value)
    with pytest.raises(ConfigurationError, match="idle="):
        Limits(idle=value)
