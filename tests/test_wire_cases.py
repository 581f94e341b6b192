"""Every answer seen in the wild, through the whole client: what arrived is kept, what broke is said."""

import pytest
from wire import CASES, KEY

from oai_nb import Client
from oai_nb.errors import OaiNbError


def run(wire, case):
    wire.on(case.script)
    with Client(wire.url, model="m", api_key=KEY) as client:
        stream = client.stream("x", stream=case.streamed)
        assert stream.wait(30)
        return stream


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_as_it_should_be(wire, name):
    case = CASES[name]
    stream = run(wire, case)
    completion = stream.completion
    assert tuple(completion.texts) == case.texts
    assert tuple(choice.finish_reason for choice in completion.choices) == case.finish_reasons
    assert (stream.error is not None) == (completion.incomplete is not None) == (case.error is not None)
    if case.error is not None:
        assert case.error in str(stream.error) and stream.error.completion is completion
    if case.usage is not None:
        assert completion.usage.total_tokens == case.usage["total_tokens"]


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_must_not_appear_does(wire, name):
    case = CASES[name]
    stream = run(wire, case)
    shown = f"{stream.status} {stream.error!r} {stream.completion!r} {stream.completion.to_json()}"
    assert not [word for word in (*case.never, KEY) if word in shown]
    assert KEY not in repr(stream) and KEY not in repr(vars(stream))
    assert "\n" not in stream.status


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.error is not None])
def test_an_error_is_raised_with_what_had_arrived_and_no_other_error_behind_it(wire, name):
    stream = run(wire, CASES[name])
    for attempt in (stream.result, lambda: list(stream), stream.result):
        with pytest.raises(OaiNbError) as caught:
            attempt()
        assert tuple(caught.value.completion.texts) == CASES[name].texts
        assert caught.value.__cause__ is None and caught.value.__context__ is None
