"""Streams into completions: however cut and interleaved, the result is that of the whole answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.completion import Completion
from oai_nb.decode import decode
from oai_nb.errors import BrokenStreamError
from oai_nb.fold import NO_END, Fold, fold, from_json
from oai_nb.request import Request
from oai_nb.sse import Decoder

texts = st.text(max_size=6)
logprob = st.floats(-30, 0) | st.none()


@st.composite
def token_rows(draw):
    text = draw(texts)
    return text, draw(logprob), draw(st.none() | st.dictionaries(texts, st.floats(-30, 0), max_size=3)), 0


@st.composite
def answers(draw):
    """Make a whole answer with 1 to 3 choices, with logprobs or without."""
    with_logprobs = draw(st.booleans())
    choices = []
    for index in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(token_rows(), min_size=1, max_size=5))
        columns = [list(column) for column in zip(*rows)]
        choices.append(
            {
                "index": index,
                "text": "".join(columns[0]),
                "logprobs": dict(zip(NAMES, columns)) if with_logprobs else None,
                "finish_reason": draw(st.sampled_from(["stop", "length"])),
            }
        )
    return {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": choices}


NAMES = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def events_of(choice):
    """Cut one choice into one event a token, then one with the finish reason."""
    lists = choice["logprobs"]
    pieces = lists["tokens"] if lists else [choice["text"]]
    for i, piece in enumerate(pieces):
        one = {name: lists[name][i : i + 1] for name in NAMES} if lists else None
        yield {"index": choice["index"], "text": piece, "logprobs": one, "finish_reason": None}
    yield {"index": choice["index"], "text": "", "logprobs": None, "finish_reason": choice["finish_reason"]}


@given(answers(), st.data())
def test_any_split_and_interleaving_gives_the_completion_of_the_whole_answer(answer, data):
    queues = [list(events_of(choice)) for choice in answer["choices"]]
    raw = b""
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        raw += b"data: " + json.dumps(answer | {"choices": [queue.pop(0)]}).encode() + b"\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    decoder = Decoder()
    events = [event for a, b in zip([0, *cuts], [*cuts, len(raw)]) for event in decoder.feed(raw[a:b])]
    streamed = fold(map(decode, events))
    assert streamed == fold([decode(json.dumps(answer).encode())])
    assert streamed.incomplete is None
    assert [choice.tokens for choice in streamed.choices] == [
        choice.tokens for choice in fold([decode(json.dumps(answer).encode())]).choices
    ]


def chunks(*choices, **more):
    return [decode(json.dumps({"choices": [choice], **more}).encode()) for choice in choices]


def piece(text, index=0, finish_reason=None):
    return {"index": index, "text": text, "finish_reason": finish_reason}


def test_choices_are_placed_by_index():
    """D19."""
    done = fold(
        chunks(
            piece("A"),
            piece("x", 1),
            piece("B"),
            piece("y", 1),
            piece("", 1, "stop"),
            piece("C", 0, "length"),
        )
    )
    assert done.texts == ["ABC", "xy"]
    assert [choice.finish_reason for choice in done.choices] == ["length", "stop"]


@pytest.mark.parametrize(
    "pieces", [[], [piece("a")], [piece("a", 0, "stop"), piece("b", 1)], [piece("a", 0, "")]]
)
def test_an_answer_without_its_end_is_never_reported_as_whole(pieces):
    assert fold(chunks(*pieces)).incomplete == NO_END


def test_done_ends_an_answer_without_finish_reasons():
    state = Fold()
    state.add(chunks(piece("a"))[0])
    assert not state.finished
    state.done = True
    assert state.finished and state.completion().incomplete is None


def test_an_empty_finish_reason_does_not_end_a_choice():
    state = Fold()
    for chunk in chunks(piece("a", 0, ""), piece("b", 0, "stop")):
        state.add(chunk)
    assert state.texts == {0: "ab"} and state.finished


def test_halves_of_a_character_in_neighbouring_events_join():
    raw = [b'{"choices":[{"text":"x\\ud83d"}]}', b'{"choices":[{"text":"\\ude00y\\ud800"}]}']
    done = fold(map(decode, raw))
    assert done.text == "x😀y\ufffd"
    assert [note.sign for note in done.fidelity] == ["changed"] and "1 ×" in done.fidelity[0].text


def test_usage_of_the_last_event_counts():
    """D05."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    last = decode(json.dumps({"choices": [], "usage": usage}).encode())
    done = fold([*chunks(piece("Hello", 0, "stop"), usage=None), last])
    assert done.usage.completion_tokens == 2 and done.completion_tokens == 2


def test_usage_that_comes_once_a_choice_is_summed():
    pieces = [piece("a", 0, "stop"), piece("b", 1, "stop")]
    done = fold(chunks(*pieces, usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}))
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens) == (5, 14, 19)


def test_usage_full_of_zeros_is_no_usage():
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert fold(chunks(piece("a", 0, "stop"), usage=zeros)).usage is None


def test_logprobs_that_were_left_out_are_noted():
    chunk = decode(b'{"choices":[{"text":"a","finish_reason":"stop","logprobs":{"tokens":3}}]}')
    assert [note.parameter for note in fold([chunk]).fidelity] == ["logprobs"]


RECORDED = b"""{"id":"c","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"text":" a",
"finish_reason":"stop",
"logprobs":{"content":[{"id":5,"token":" a","bytes":[32,97],"logprob":-0.5,"top_logprobs":[]}]}}],
"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"""


def test_a_record_is_read_back_whole():
    done = fold([decode(RECORDED)], Request("hi", logprobs=2, extra={"top_k": 4}))
    again = Completion.from_json(done.to_json())
    assert again == done and again.choices[0].tokens[0].id == 5
    assert again.request == done.request and again.request.extra == {"top_k": 4}
    assert from_json(RECORDED).text == " a"


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"oai_nb": 99}'])
def test_what_is_no_record_is_refused_in_one_line(text):
    with pytest.raises(BrokenStreamError) as caught:
        Completion.from_json(text)
    assert "\n" not in str(caught.value)


def test_a_completion_is_short_in_its_repr():
    assert repr(fold(chunks(piece("x" * 500)))) == f"Completion('{'x' * 60}'…, incomplete: {NO_END})"
