"""What is known of each kind of server, and what an answer shows."""

import json

import made
import pytest
from wire import completion, logprobs

from oai_nb import Request, servers
from oai_nb.address import parse
from oai_nb.completion import Choice, Note, Server
from oai_nb.decode import decode
from oai_nb.fold import Fold
from oai_nb.parameters import PARAMETERS, Range

# --- kinds ---


@pytest.mark.parametrize(
    ("address", "kind"),
    [(None, "local"), ("https://api.openai.com", "openai"), ("http://h:8000/v1", "unknown")],
)
def test_some_addresses_give_away_the_kind_of_server(address, kind):
    assert servers.at(parse(address)).name == kind


def test_others_are_recognised_by_their_header_or_by_who_owns_their_models():
    assert servers.recognised(header="llama.cpp").name == "llama.cpp"
    assert servers.recognised(owners=["llamacpp"]).name == "llama.cpp"
    assert servers.recognised(header="uvicorn", owners=[None, "vllm"]).name == "vllm"
    assert servers.recognised(header="uvicorn", owners=["me", {}]) is servers.UNKNOWN


@pytest.mark.parametrize("kind", servers.KINDS.values(), ids=lambda kind: kind.name)
def test_the_rows_name_only_parameters_that_exist(kind):
    assert set(kind.limits) | set(kind.notes) <= set(PARAMETERS)
    assert not set(kind.adds) & set(PARAMETERS)
    assert all(name == note.parameter and note.sign in Note.SIGNS for name, note in kind.notes.items())


# --- what is sent ---


def sent(kind="unknown", streamed=False, model=None, **parameters):
    return servers.sent(Request("x", **parameters), servers.KINDS[kind], streamed=streamed, model=model)


def test_the_contract_s_defaults_are_sent_and_nothing_else_that_is_not_set():
    assert sent() == {"prompt": "x", "temperature": 1.0, "top_p": 1.0, "max_tokens": 16}


def test_what_is_set_goes_out_as_it_is():
    body = sent(model="m", temperature=0, stop="\n", echo=False, extra={"top_k": 0})
    assert body == {
        "prompt": "x",
        "temperature": 0.0,
        "top_p": 1.0,
        "max_tokens": 16,
        "stop": ["\n"],
        "echo": False,
        "top_k": 0,
        "model": "m",
    }


def test_no_prompt_is_the_contract_s_own():
    assert servers.sent(Request(), servers.UNKNOWN, streamed=False, model=None)["prompt"] == "<|endoftext|>"


def test_a_stream_asks_for_its_usage_unless_told_otherwise():
    assert sent(streamed=True)["stream_options"] == {"include_usage": True}
    given = {"include_usage": False}
    assert sent(streamed=True, stream=True, stream_options=given)["stream_options"] == given
    more = {"include_obfuscation": False}
    assert (
        sent(streamed=True, stream=True, stream_options=more)["stream_options"]
        == {"include_usage": True} | more
    )


def test_a_whole_answer_is_not_asked_for_as_a_stream():
    assert not {"stream", "stream_options"} & set(sent(stream=True, stream_options={"include_usage": True}))


@pytest.mark.parametrize(
    ("kind", "asked"), [("local", True), ("vllm", True), ("openai", None), ("unknown", None)]
)
def test_token_ids_are_asked_for_where_there_are_any(kind, asked):
    assert sent(kind).get("return_token_ids") is asked
    assert sent("vllm", extra={"return_token_ids": False})["return_token_ids"] is False


# --- what an answer shows ---


def observed(answer, request, incomplete=None, kind="unknown"):
    fold = Fold(request)
    fold.add(decode(json.dumps(answer).encode()))
    from dataclasses import replace

    folded = replace(fold.completion(incomplete=incomplete), server=Server(kind, "http://h/v1"))
    return [(note.parameter, note.sign, note.text) for note in servers.observe(request, folded)]


def parameters(notes):
    return [parameter for parameter, _, _ in notes]


def several(*texts, **more):
    choices = [{"index": k, "text": text, "finish_reason": "stop"} for k, text in enumerate(texts)]
    return completion(choices=choices, **more)


def test_an_answer_that_is_as_asked_has_no_notes():
    tops = [{" c": -1.0, " d": -2.0}] * 2
    answer = completion("ab c d", 0, "stop", logprobs(["ab", " c", " d"], [None, -1.0, -2.0], [None, *tops]))
    assert observed(answer, Request("ab", echo=True, logprobs=2, stop="!", n=1)) == []


def test_choices_that_did_not_come_are_counted_over_all_prompts():
    assert observed(several("a"), Request("x", n=3)) == [("n", "ignored", "1 of 3 choices came")]
    assert observed(several("a", "b", "c"), Request(["x", "y"], n=2)) == [
        ("n", "ignored", "3 of 4 choices came")
    ]
    assert observed(several("a", "b"), Request([[1], [2]])) == [] == observed(several("a"), Request([1, 2]))


def test_choices_that_have_not_come_yet_are_not_missed():
    assert observed(several("a"), Request("x", n=3), incomplete="stopped") == []


def test_an_echo_that_is_missing_is_told():
    assert parameters(observed(several(" c"), Request("a b", echo=True))) == ["echo"]
    assert observed(several("a b c"), Request("a b", echo=True)) == []
    assert observed(several("a c", "b"), Request(["a", "d"], echo=True)) == [
        ("echo", "ignored", "the prompt is missing from 1 of 2 choices")
    ]


def test_an_echo_that_a_tokenizer_has_changed_a_little_is_one():
    assert observed(several(" ﬁne  day!"), Request("fine day", echo=True)) == []
    assert observed(several("any"), Request([1, 2], echo=True)) == []


def test_an_echo_is_not_missed_before_it_can_have_come():
    partial = completion("Once", 0, None)
    assert observed(partial, Request("Once upon", echo=True), incomplete="stopped") == []
    assert parameters(
        observed(completion("Twice upon a time", 0), Request("Once", echo=True), "stopped")
    ) == ["echo"]


def test_an_answer_that_was_stopped_is_compared_with_the_prompts_that_it_answers():
    assert observed(several("ab", "ac"), Request(["a", "d"], n=2, echo=True), incomplete="stopped") == []
    whole = observed(several("ab", "de"), Request(["a", "d"], n=2, echo=True))
    assert parameters(whole) == ["n"]  # that server knows no n


def test_logprobs_that_did_not_come_are_told():
    assert parameters(observed(several("a"), Request("x", logprobs=0))) == ["logprobs"]
    assert observed(several("a"), Request("x")) == []
    assert observed(several(""), Request("x", logprobs=2)) == []


def test_fewer_alternatives_than_asked_are_counted_case_D13():
    answer = completion("true", 0, "stop", logprobs(["true"], [-2.4], [{"true": -0.3, "false": -1.9}]))
    text = "fewer than 3 alternatives came at 1 of 1 positions"
    assert observed(answer, Request("x", logprobs=3)) == [("logprobs", "changed", text)]
    assert observed(answer, Request("x", logprobs=2)) == []


def test_alternatives_of_the_chat_s_form_are_counted_too():
    entry = {
        "id": 1,
        "token": "a",
        "bytes": [97],
        "logprob": -0.5,
        "top_logprobs": [{"token": "a", "logprob": -0.5}],
    }
    answer = completion("a", 0, "stop", {"content": [entry, {**entry, "top_logprobs": []}]})
    assert observed(answer, Request("x", logprobs=1))[0][2].endswith("at 1 of 2 positions")


def test_rows_that_are_missing_altogether_count_as_none():
    answer = completion("ab", 0, "stop", logprobs(["a", "b"], [-1.0, -1.0], None))
    assert observed(answer, Request("x", logprobs=1))[0][2].endswith("at 2 of 2 positions")


def test_positions_without_a_logprob_can_have_no_alternatives():
    columns = made.logprobs(["a", "b", "c"], [None, -1.0, -1.0], [None, None, {"c": -1.0, "d": -2.0}])
    legacy = Choice(0, "abc", "stop", columns)
    entries = [(1, "a", b"a", None), (2, "b", b"b", -1.0, [(2, "b", b"b", -1.0)])]
    assert servers.alternatives_came(legacy) == [None, 0, 2]
    assert servers.alternatives_came(made.chat(entries, "ab")) == [None, 1]
    assert servers.alternatives_came(Choice(0, "a")) == []


def test_a_stop_in_the_text_is_told_and_one_in_the_prompt_is_not():
    assert observed(several("a\nb"), Request("x", stop="\n")) == [
        ("stop", "ignored", "the text goes on after the stop '\\n'")
    ]
    assert observed(several("x\ny a"), Request("x\ny", stop="\n", echo=True)) == []
    assert parameters(observed(several("x\ny a\n"), Request("x\ny", stop="\n", echo=True))) == ["stop"]


def test_more_tokens_than_asked_are_told_where_the_count_is_of_one_choice():
    usage = {"prompt_tokens": 1, "completion_tokens": 17, "total_tokens": 18}
    assert parameters(observed(several("a", usage=usage), Request("x"))) == ["max_tokens"]
    assert observed(several("a", usage=usage), Request("x", max_tokens=17)) == []
    assert observed(several("a", usage=usage), Request("x", best_of=2)) == []
    assert parameters(observed(several("a", usage={"completion_tokens": 1}), Request("x", max_tokens=0))) == [
        "max_tokens"
    ]


def test_what_a_kind_of_server_is_known_to_do_is_told_where_it_was_asked_for():
    assert observed(several("a"), Request("x", best_of=3), kind="vllm") == [
        ("best_of", "ignored", "vLLM ignores best_of")
    ]
    assert observed(several("a"), Request("x", best_of=1, frequency_penalty=0), kind="llama.cpp") == []
    penalised = observed(several("a"), Request("x", frequency_penalty=0.5), kind="llama.cpp")
    assert [(parameter, sign) for parameter, sign, _ in penalised] == [("frequency_penalty", "changed")]


def test_what_lies_beyond_the_contract_is_told():
    tops = {f"t{k}": -float(k) for k in range(20)}
    answer = completion("t0", 0, "stop", logprobs(["t0"], [0.0], [tops]))
    notes = observed(answer, Request("x", logprobs=20, limits={"logprobs": Range(0, 20)}))
    assert [(parameter, sign) for parameter, sign, _ in notes] == [("logprobs", "info")]
