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


def test_usage_of_one_choice_is_as_it_came():
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 20}
    assert fold(chunks(piece("a", 0, "stop"), usage=usage)).usage.total_tokens == 20


def test_usage_full_of_zeros_is_no_usage():
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert fold(chunks(piece("a", 0, "stop"), usage=zeros)).usage is None


def test_logprobs_that_were_left_out_are_noted():
    chunk = decode(b'{"choices":[{"text":"a","finish_reason":"stop","logprobs":{"tokens":3}}]}')
    assert [note.parameter for note in fold([chunk]).fidelity] == ["logprobs"]


def test_what_was_left_out_and_the_chats_form_are_noted():
    answer = {"id": 5, "usage": [], "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    done = fold([decode(json.dumps(answer).encode())])
    assert done.text == "Hi" and done.incomplete is None
    assert [(note.sign, note.text) for note in done.fidelity] == [
        ("info", "id came in an unknown shape"),
        ("info", "usage came in an unknown shape"),
        ("changed", "the server answered in the chat's form"),
    ]


@pytest.mark.parametrize(
    "logprobs",
    [
        {"tokens": ["a"], "token_logprobs": [800.0]},
        {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{"b": 3.0}]},
        {"content": [{"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": 9.0}]}]},
    ],
)
def test_logprobs_above_0_are_noted_and_no_probability_is_above_1(logprobs):
    done = fold(chunks(piece("a", 0, "stop") | {"logprobs": logprobs}))
    assert [note.text for note in done.fidelity] == ["logprobs above 0 came: not log probabilities"]
    token = done.choices[0].tokens[0]
    assert token.prob <= 1 and all(one.logprob <= 0 for one in token.top)


def test_a_logprob_of_0_by_rounding_is_not_noted():
    done = fold(chunks(piece("a", 0, "stop") | {"logprobs": {"tokens": ["a"], "token_logprobs": [1e-7]}}))
    assert done.fidelity == () and done.choices[0].tokens[0].prob == 1


@pytest.mark.parametrize("created", ["NaN", "1e999"])
def test_an_impossible_time_is_none(created):
    assert fold([decode(b'{"created": %b, "choices": [{"text": "a"}]}' % created.encode())]).created == 0


def test_the_chats_logprobs_grow_in_place():
    state, entry = Fold(), {"token": "a", "logprob": -1.0}
    lists = []
    for chunk in chunks(*[piece("a") | {"logprobs": {"content": [entry]}}] * 3):
        state.add(chunk)
        lists.append(state._choices[0].content)
    assert lists[0] is lists[2] and len(lists[0]) == 3


# --- echo ---


def echoing(prompt, pieces, n=1, finish_reason="stop", **more):
    """Fold one whole answer; a piece is the texts and logprobs of a choice's tokens."""
    choices = [
        piece("".join(texts), i, finish_reason) | {"logprobs": {"tokens": texts, "token_logprobs": values}}
        for i, (texts, values) in enumerate(pieces)
    ]
    answer = json.dumps({"choices": choices}).encode()
    return fold([decode(answer)], Request(prompt, echo=True, logprobs=0, n=n, **more))


def test_an_echoed_prompt_does_not_make_an_answer_likelier():
    echo, values = ["Once", " upon", " a"], [None, -3.0, -3.0]
    done = echoing(
        "Once upon a", [([*echo, " x"], [*values, -0.1]), (echo + [" y"] * 10, values + [-0.5] * 10)], n=2
    )
    first, second = done.choices
    assert (first.mean_logprob, second.mean_logprob) == (-0.1, -0.5)
    assert first.perplexity < second.perplexity
    assert (first.echoed, len(first.generated), len(second.generated)) == (3, 1, 10)
    assert done.completion_tokens == 11


def test_where_nothing_was_generated_the_prompt_itself_is_scored():
    only = echoing("a b", [(["a", " b"], [None, -2.0])], max_tokens=0).choices[0]
    assert only.generated == () and only.mean_logprob == -2.0


def test_each_choice_knows_its_own_prompt():
    rows = [(["a", "b", "x"], [-9, -9, -1]), (["a", "b", "y"], [-9, -9, -2]), (["abc", "z"], [-9, -3])] * 2
    done = echoing(["ab", "ab", "abc"], [rows[i] for i in (0, 1, 2)])
    assert [choice.mean_logprob for choice in done.choices] == [-1, -2, -3]
    assert [choice.asked_echo for choice in done.choices] == ["ab", "ab", "abc"]


def test_a_partial_answer_has_its_prompts_by_n():
    state = Fold(Request(["a", "b"], n=2, echo=True))
    for chunk in chunks(piece("ax", 0), piece("ay", 1)):
        state.add(chunk)
    assert [one.asked_echo for one in state.completion(incomplete="stopped").choices] == ["a", "a"]
    assert [one.asked_echo for one in state.completion().choices] == ["a", "b"]


def test_ids_are_counted_where_there_are_no_logprobs():
    done = fold(chunks(piece("ab") | {"token_ids": [1, 2, 3]}), Request("x"))
    assert done.completion_tokens == 3
    beside = {"tokens": ["x", "a"], "token_logprobs": [None, -1.0]}
    both = chunks(piece("xa") | {"token_ids": [7, 8], "logprobs": beside})
    assert fold(both, Request("x", echo=True)).completion_tokens == 1


# --- records ---


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


COLUMNS = b'{"tokens":["NaN","-Infinity"],"token_logprobs":[-9999.0,-Infinity],"top_logprobs":%b}'
TOPS = b'[{"NaN":-9999.0,"Infinity":-Infinity},null]'
ENTRIES = (
    b'{"content":[{"token":"NaN","logprob":-Infinity,"top_logprobs":[{"token":"b","logprob":-9999.0}]}]}'
)


@pytest.mark.parametrize("logprobs", [COLUMNS % TOPS, ENTRIES])
def test_a_record_keeps_what_json_has_no_number_for(logprobs):
    done = fold([decode(b'{"choices":[{"text":"a","finish_reason":"stop","logprobs":%b}]}' % logprobs)])
    again = from_json(done.to_json())
    assert again == done and again.choices[0].tokens == done.choices[0].tokens
    json.loads(done.to_json(), parse_constant=pytest.fail)


def test_a_partial_record_of_several_prompts_is_read_back_whole():
    state = Fold(Request(["a", "b"], n=2, echo=True))
    for chunk in chunks(piece("ax", 0, "stop"), piece("ay", 1, "stop")):
        state.add(chunk)
    done = state.completion(incomplete="stopped")
    assert from_json(done.to_json()) == done


@pytest.mark.parametrize(
    "damage",
    [
        {},
        {"answer": 3},
        {"answer": {}, "request": {"prompt": "x", "n": "y"}},
        {"answer": {}, "request": 3},
        {"answer": {}, "request": {"zzz": 1}},
        {"answer": {}, "server": {"name": 1}},
        {"answer": {}, "timing": 3},
        {"answer": {}, "fidelity": [{}]},
        {"answer": {}, "request": {"prompt": "x"}, "extra": ["k"]},
    ],
)
def test_a_damaged_record_is_a_broken_one(damage):
    with pytest.raises(BrokenStreamError):
        from_json(json.dumps({"oai_nb": 1, **damage}))


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"oai_nb": 99}'])
def test_what_is_no_record_is_refused_in_one_line(text):
    with pytest.raises(BrokenStreamError) as caught:
        Completion.from_json(text)
    assert "\n" not in str(caught.value)


def test_a_completion_is_short_in_its_repr():
    assert repr(fold(chunks(piece("x" * 500)))) == f"Completion('{'x' * 60}'…, incomplete: {NO_END})"
