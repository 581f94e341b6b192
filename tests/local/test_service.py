"""The API's semantics, each against the model's own logits or against another way to ask the same."""

import math

import numpy as np
import pytest
from local.peer import read

from oai_nb import sampling
from oai_nb.local import answers
from oai_nb.local.asked import ApiError
from oai_nb.local.generation import GROUP
from oai_nb.local.model import CHUNK

NO_END = {"0": -100, "2": -100}
"""Biases that keep the end tokens away, so that answers have the length asked for."""

PROMPT = "Once upon a time"


def one(service, **body):
    (choice,) = service.complete({"prompt": PROMPT, "seed": 1, "max_tokens": 8} | body)["choices"]
    return choice


def texts(service, **body):
    answer = service.complete({"prompt": PROMPT, "seed": 1, "max_tokens": 8} | body)
    return [choice["text"] for choice in answer["choices"]]


def refused(service, **body):
    with pytest.raises(ApiError) as caught:
        service.run(body)
    return caught.value


# Drawing


def drawn_again(service, body, k, ids):
    """Draw each token of an answer once more: other logits (read in one go), the test's own arithmetic."""
    before = service.tokenizer.encode(body["prompt"])
    logits, _ = read(service.model, [*before, *ids[:-1]])
    counts, found = {}, []
    for step, row in enumerate(logits[len(before) - 1 :].astype(float)):
        for token, count in counts.items():
            row[token] -= count * body.get("frequency_penalty", 0) + body.get("presence_penalty", 0)
        for token, bias in body["logit_bias"].items():
            row[int(token)] += bias
        row /= body.get("temperature", 1)
        p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        downwards = np.sort(p)[::-1]
        least = downwards[np.searchsorted(np.cumsum(downwards), body.get("top_p", 1) - 1e-12)]
        kept = np.flatnonzero(p >= least)
        noise = sampling.gumbel(sampling.dice(body["seed"], 0, k, step, size=len(p)))
        found.append(int(kept[(np.log(p[kept]) + noise[kept]).argmax()]))
        counts[ids[step]] = counts.get(ids[step], 0) + 1
    return found


@pytest.mark.parametrize(
    ("number", "settings"),
    [
        (3, {}),
        (4, {"temperature": 0.7, "top_p": 0.9}),
        (5, {"frequency_penalty": 0.5, "presence_penalty": -0.3, "logit_bias": {"253": 3} | NO_END}),
        (6, {"temperature": 1.5, "top_p": 0.6, "presence_penalty": 1.5}),
    ],
    ids=["plain", "cold nucleus", "penalties and bias", "everything"],
)
def test_the_tokens_of_a_batch_are_those_of_the_formula(real, number, settings):
    # 4 x 16 x 32 = 2,048 tokens: however a batch rounds, the draws are the same.
    body = {"prompt": PROMPT, "n": 16, "max_tokens": 32, "seed": number, "logit_bias": NO_END} | settings
    choices = real.complete(body | {"return_token_ids": True})["choices"]
    for k, choice in enumerate(choices):
        ids = choice["token_ids"]
        assert len(ids) == 32
        assert ids == drawn_again(real, body, k, ids)
    assert len({choice["text"] for choice in choices}) == 16


def test_a_candidate_does_not_depend_on_how_many_there_are(real):
    body = {"max_tokens": 16, "logit_bias": NO_END}
    eight = texts(real, n=8, **body)
    assert texts(real, n=1, **body) == eight[:1]
    assert texts(real, n=3, **body) == eight[:3]


def test_more_candidates_than_run_together(service):
    many = texts(service, n=GROUP + 2, max_tokens=4)
    assert texts(service, n=2, max_tokens=4) == many[:2]
    assert len(set(many)) > GROUP / 2


def test_a_seed_repeats_and_no_seed_does_not(service):
    body = {"prompt": PROMPT, "max_tokens": 12}
    same = [service.complete(body | {"seed": seed})["choices"][0]["text"] for seed in (5, 5, 6)]
    assert same[0] == same[1] != same[2]
    fresh = {service.complete(body)["choices"][0]["text"] for _ in range(3)}
    assert len(fresh) == 3


@pytest.mark.parametrize("seed", [-(2**63), 2**63 - 1])
def test_every_seed_is_taken(service, seed):
    assert one(service, seed=seed)["text"] == one(service, seed=seed)["text"]


def test_temperature_zero_is_the_likeliest_token(service, tokenizer):
    choice = one(service, temperature=0, logprobs=1, n=1)
    assert all(len(top) == 1 for top in choice["logprobs"]["top_logprobs"])
    assert one(service, temperature=0, seed=99)["text"] == choice["text"]
    assert one(service, top_p=0)["text"] == choice["text"]


def test_two_settings_under_one_seed_throw_the_same_dice(service, tokenizer):
    # The highest sum of logit and noise stays so in any nucleus that keeps it.
    row = read(service.model, tokenizer.encode(PROMPT))[0][-1]
    row[[int(token) for token in NO_END]] -= 100
    kept, same = sampling.nucleus(sampling.softmax(row), 0.5), []
    for seed in range(40):
        body = {"seed": seed, "max_tokens": 1, "logit_bias": NO_END, "return_token_ids": True}
        (free,), (cut,) = (one(service, top_p=top_p, **body)["token_ids"] for top_p in (1, 0.5))
        assert kept[cut] and (cut == free) == kept[free]
        same.append(cut == free)
    assert set(same) == {True, False}


def test_bias_bans_and_forces(service):
    first = one(service, temperature=0, max_tokens=1, return_token_ids=True)["token_ids"][0]
    banned = one(service, temperature=0, max_tokens=1, logit_bias={str(first): -100}, return_token_ids=True)
    assert banned["token_ids"] != [first]
    forced = one(service, logit_bias={"504": 100}, return_token_ids=True)
    assert forced["token_ids"] == [504] * 8


# Prompts


def test_the_four_forms_of_a_prompt(service, tokenizer):
    ids = tokenizer.encode(PROMPT)
    expected = texts(service)
    assert texts(service, prompt=ids) == expected
    assert texts(service, prompt=[PROMPT]) == expected
    assert texts(service, prompt=[ids]) == expected


def test_several_prompts_come_prompt_by_prompt(service):
    answer = service.complete({"prompt": [PROMPT, "def f(", PROMPT], "n": 2, "seed": 1, "max_tokens": 8})
    choices = answer["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3, 4, 5]
    assert [choice["text"] for choice in choices[:2]] == texts(service, n=2)
    assert choices[4]["text"] != choices[0]["text"]  # the same prompt at another place: other dice
    assert answer["usage"]["prompt_tokens"] == 4 + 3 + 4


@pytest.mark.parametrize("prompt", [{}, {"prompt": None}, {"prompt": "<|endoftext|>"}, {"prompt": [0]}])
def test_no_prompt_is_the_beginning_of_a_document(service, prompt):
    body = {"seed": 2, "max_tokens": 6, "echo": True}
    answer = service.complete(body | prompt)
    assert answer == answer | {"usage": {"prompt_tokens": 1, "completion_tokens": 6, "total_tokens": 7}}
    assert answer["choices"][0]["text"] == service.complete(body)["choices"][0]["text"]
    assert answer["choices"][0]["text"].startswith("<|endoftext|>")


def test_an_empty_prompt_is_read_the_same_and_is_empty(service):
    body = {"seed": 2, "max_tokens": 6}
    answer = service.complete(body | {"prompt": "", "echo": True, "logprobs": 1})
    (choice,) = answer["choices"]
    assert choice["text"] == service.complete(body)["choices"][0]["text"]
    assert len(choice["logprobs"]["tokens"]) == 6
    assert choice["logprobs"]["text_offset"][0] == 0
    assert answer["usage"]["prompt_tokens"] == 1


def test_characters_without_tokens_do_no_harm(service):
    assert one(service, prompt="\x04", echo=True, max_tokens=1)["text"].startswith("\x04")


# Logprobs


def test_logprobs_are_of_the_raw_distribution(real, tokenizer):
    choice = one(
        real, logprobs=5, temperature=1.8, top_p=0.95, presence_penalty=1, logit_bias={"253": 2} | NO_END
    )
    columns = choice["logprobs"]
    ids = tokenizer.encode(PROMPT) + tokenizer.encode(choice["text"])
    assert [tokenizer.display(i) for i in ids[4:]] == columns["tokens"]
    logits, _ = read(real.model, ids)
    for row, token, logprob, top in zip(
        logits[3:], ids[4:], columns["token_logprobs"], columns["top_logprobs"], strict=False
    ):
        raw = row - math.log(np.exp(row.astype(float)).sum())
        assert logprob == pytest.approx(raw[token], abs=1e-3)
        likeliest = [tokenizer.display(int(i)) for i in np.argsort(-raw)[:5]]
        assert list(top)[:5] == likeliest
        assert set(top) == {*likeliest, tokenizer.display(token)}
        assert top[tokenizer.display(token)] == logprob
        assert list(top.values()) == pytest.approx([raw[tokenizer.encode(name)[0]] for name in top], abs=1e-3)
    assert any(len(top) == 6 for top in columns["top_logprobs"])


def test_logprobs_0_tells_the_chosen_token_alone(service):
    columns = one(service, logprobs=0)["logprobs"]
    pairs = zip(columns["tokens"], columns["token_logprobs"], strict=True)
    assert columns["top_logprobs"] == [{token: logprob} for token, logprob in pairs]


def test_without_logprobs_there_are_none(service):
    assert one(service)["logprobs"] is None


def test_offsets_are_places_in_prompt_and_completion(service):
    choice = one(service, logprobs=0, echo=True)
    columns = choice["logprobs"]
    for token, offset in zip(columns["tokens"], columns["text_offset"], strict=True):
        assert choice["text"][offset:].startswith(token)


def test_token_ids_go_with_the_tokens(service, tokenizer):
    for echo in (False, True):
        choice = one(service, logprobs=0, echo=echo, return_token_ids=True)
        assert [tokenizer.display(i) for i in choice["token_ids"]] == choice["logprobs"]["tokens"]
        assert tokenizer.decode(choice["token_ids"]).decode() == choice["text"]
    sampled = one(service, echo=True, return_token_ids=True)
    assert PROMPT + tokenizer.decode(sampled["token_ids"]).decode() == sampled["text"]
    assert "token_ids" not in one(service, return_token_ids=False)


# Echo


def test_echo_puts_the_prompt_before_the_text(service):
    assert one(service, echo=True)["text"] == PROMPT + one(service)["text"]
    assert one(service, echo=True)["logprobs"] is None


def test_max_tokens_0_with_echo_scores_the_prompt(service, tokenizer, monkeypatch):
    monkeypatch.setattr("oai_nb.local.model.CHUNK", 16)
    text = "The capital of France is Paris. " * 5  # more than one chunk
    ids = tokenizer.encode(text)
    answer = service.complete({"prompt": text, "max_tokens": 0, "echo": True, "logprobs": 2})
    (choice,) = answer["choices"]
    columns = choice["logprobs"]
    assert (choice["text"], choice["finish_reason"]) == (text, "length")
    assert columns["tokens"] == [tokenizer.display(i) for i in ids]
    assert columns["token_logprobs"][0] is columns["top_logprobs"][0] is None
    logits, _ = read(service.model, ids)
    raw = sampling.log_softmax(logits)
    expected = [raw[i, token] for i, token in enumerate(ids[1:])]
    assert columns["token_logprobs"][1:] == pytest.approx(expected, abs=1e-3)
    assert answer["usage"] == {"prompt_tokens": len(ids), "completion_tokens": 0, "total_tokens": len(ids)}


def test_max_tokens_0_without_logprobs_needs_no_model(service, monkeypatch):
    monkeypatch.setattr(service.model, "read", None)
    assert texts(service, max_tokens=0, n=3) == ["", "", ""]
    assert texts(service, max_tokens=0, echo=True) == [PROMPT]


# Ends


def test_sixteen_tokens_unless_told_otherwise(service):
    answer = service.complete({"prompt": PROMPT, "logit_bias": NO_END})
    assert answer["usage"]["completion_tokens"] == 16
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("end", ["0", "2"])
def test_an_end_token_ends_the_text_and_counts(service, end):
    answer = service.complete(
        {"prompt": PROMPT, "logit_bias": {end: 100}, "logprobs": 1, "return_token_ids": True}
    )
    (choice,) = answer["choices"]
    assert (choice["text"], choice["finish_reason"], choice["token_ids"]) == ("", "stop", [])
    assert choice["logprobs"] == {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    assert answer["usage"]["completion_tokens"] == 1


def test_a_stop_ends_the_text_before_it(service):
    whole = one(service, max_tokens=24, temperature=0)["text"]
    middle = whole[20:26]
    body = {
        "prompt": PROMPT,
        "max_tokens": 24,
        "temperature": 0,
        "stop": ["never this", middle],
        "logprobs": 0,
    }
    answer = service.complete(body)
    (choice,) = answer["choices"]
    assert choice["text"] == whole[: whole.index(middle)]
    assert choice["finish_reason"] == "stop"
    told = "".join(choice["logprobs"]["tokens"])
    assert choice["text"].startswith(told)
    assert answer["usage"]["completion_tokens"] > len(choice["logprobs"]["tokens"])
    assert one(service, max_tokens=24, temperature=0, stop=middle)["text"] == choice["text"]


# best_of


def test_best_of_returns_the_likeliest_and_counts_all(service):
    body = {"prompt": PROMPT, "seed": 3, "max_tokens": 8}
    everyone = service.complete(body | {"n": 5, "logprobs": 0})["choices"]
    ranked = sorted(everyone, key=lambda choice: -np.mean(choice["logprobs"]["token_logprobs"]))
    answer = service.complete(body | {"n": 2, "best_of": 5})
    assert [choice["text"] for choice in answer["choices"]] == [choice["text"] for choice in ranked[:2]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert [choice["logprobs"] for choice in answer["choices"]] == [None, None]
    assert answer["usage"]["completion_tokens"] == 40


def test_a_candidate_without_tokens_is_ranked_last(service):
    first, second = texts(service, n=2)
    body = {"stop": first[:8], "best_of": 2}
    assert not second.startswith(first[:8])
    assert texts(service, n=2, **body) == ["", second]
    assert texts(service, n=1, **body) == [second]


@pytest.mark.parametrize("best_of", [None, 0, 2])
def test_best_of_absent_null_0_or_n_is_n(service, best_of):
    assert texts(service, n=2, best_of=best_of) == texts(service, n=2)


# Streams


def fold(events):
    """Put the events of a stream together: the choices, in order."""
    choices = {}
    for event in events:
        for part in event["choices"]:
            whole = choices.setdefault(part["index"], part | {"text": "", "logprobs": None, "token_ids": []})
            whole["text"] += part["text"]
            whole["token_ids"] += part["token_ids"]
            whole["finish_reason"] = part["finish_reason"]
            if part["logprobs"] is not None:
                before = whole["logprobs"] or {name: [] for name in part["logprobs"]}
                whole["logprobs"] = {name: before[name] + part["logprobs"][name] for name in before}
    return [choices[index] for index in sorted(choices)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"n": 3, "logprobs": 2, "temperature": 1.5},
        {"n": 2, "logprobs": 0, "echo": True, "prompt": [PROMPT, "x = ["]},
        {"logprobs": 1, "temperature": 0, "max_tokens": 40, "stop": ["and", "\n\n"]},
        {"echo": True},
        {"max_tokens": 0, "echo": True, "logprobs": 1},
        {"prompt": "🫠🫨🫡 é 日本", "temperature": 2, "n": 4, "logprobs": 1, "max_tokens": 24},
        {"n": GROUP + 1, "max_tokens": 3},
        {"logit_bias": {"2": 8}, "n": 4, "max_tokens": 20, "logprobs": 1},
    ],
    ids=lambda body: " ".join(body) or "plain",
)
def test_a_folded_stream_is_the_whole_answer(service, body):
    body = {"prompt": PROMPT, "seed": 7, "max_tokens": 10, "return_token_ids": True} | body
    answer = service.complete(body)
    events = list(service.stream(body | {"stream": True, "stream_options": {"include_usage": True}}))
    assert fold(events) == answer["choices"]
    assert events[-1]["usage"] == answer["usage"]


def test_one_event_per_token_and_choice(service):
    events = list(service.stream({"prompt": PROMPT, "stream": True, "n": 2, "seed": 1, "logit_bias": NO_END}))
    assert len(events) == 32
    assert [event["choices"][0]["index"] for event in events] == [0, 1] * 16
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * 30 + ["length"] * 2
    assert len({(event["id"], event["created"], event["model"]) for event in events}) == 1
    assert all("usage" not in event for event in events)


def test_usage_comes_last_and_is_null_before(service):
    options = {"include_usage": True}
    *events, last = service.stream(
        {"prompt": PROMPT, "stream": True, "stream_options": options, "max_tokens": 3}
    )
    assert [event["usage"] for event in events] == [None] * len(events)
    assert (last["choices"], last["usage"]["prompt_tokens"]) == ([], 4)
    assert "obfuscation" not in last


def test_obfuscation_evens_the_sizes_unless_refused(service):
    body = {"prompt": PROMPT, "stream": True, "seed": 1, "max_tokens": 12}
    padded = list(service.stream(body))
    assert {(len(e["choices"][0]["text"]) + len(e["obfuscation"])) % 16 for e in padded} == {0}
    plain = list(service.stream(body | {"stream_options": {"include_obfuscation": False}}))
    assert all("obfuscation" not in event for event in plain)


def test_reading_and_writing_are_one_pass_for_each_step(service, monkeypatch):
    calls = []
    for name in ("read", "step"):
        real = getattr(service.model, name)
        monkeypatch.setattr(
            service.model, name, lambda *args, name=name, real=real: calls.append(name) or real(*args)
        )
    prompt = list(range(1000, 1000 + 2 * CHUNK + 1))
    body = {"prompt": prompt, "max_tokens": 3, "n": 2, "seed": 1, "logit_bias": NO_END}
    steps = service.run(body | {"stream": True})
    assert calls == []
    seen = [(len(calls), len(events)) for events in steps]
    assert calls == ["read", "read", "read", "step", "step"]
    assert seen == [(1, 0), (2, 0), (3, 0), (3, 2), (4, 2), (5, 2)]


def test_a_closed_generation_runs_no_further(service, monkeypatch):
    calls = []
    real = service.model.step
    monkeypatch.setattr(service.model, "step", lambda *args: calls.append(1) or real(*args))
    steps = service.run({"prompt": PROMPT, "max_tokens": 500, "stream": True, "logit_bias": NO_END})
    for _ in range(4):
        next(steps)
    steps.close()
    assert len(calls) == 2
    assert next(steps, None) is None


def test_events_go_over_the_wire_as_the_standard_says():
    assert answers.sse({"text": "a\nb\u2028"}) == b'data: {"text": "a\\nb\\u2028"}\n\n'


# What is refused


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"temperature": 2.5}, "temperature", "temperature=2.5 is out of range: it must be from 0 to 2"),
        ({"temperature": "1"}, "temperature", "is not a number"),
        ({"n": True}, "n", "n=True is not a whole number"),
        ({"n": 0}, "n", "from 1 to 128"),
        ({"logprobs": 6}, "logprobs", "from 0 to 5"),
        ({"max_tokens": -1}, "max_tokens", "at least 0"),
        ({"top_p": float("nan")}, "top_p", "is not finite"),
        ({"best_of": 1, "n": 2}, "best_of", "best_of=1 is less than n=2"),
        ({"best_of": 3, "stream": True}, "best_of", "cannot be streamed"),
        ({"stream_options": {}}, "stream_options", "only allowed with stream"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "at most 4"),
        ({"logit_bias": {"49152": 1}}, "logit_bias", "token id 49152: this model's run from 0 to 49151"),
        ({"logit_bias": {"1": 101}}, "logit_bias", "from -100 to 100"),
        ({"prompt": []}, "prompt", "prompt=[]"),
        ({"prompt": [1, "a"]}, "prompt", "prompt=[1, 'a']"),
        ({"prompt": [[1], []]}, "prompt", "prompt=[[1], []]"),
        ({"prompt": [5, 49152]}, "prompt", "token id 49152: this model's run from 0 to 49151"),
        ({"prompt": [[-1]]}, "prompt", "prompt=[[-1]]"),
        ({"prompt": "a\ud83d"}, "prompt", "half a character"),
        ({"suffix": " end"}, "suffix", "suffix is not supported by this server yet"),
        ({"temprature": 1}, "temprature", "no parameter 'temprature': did you mean temperature?"),
        ({"messages": []}, "messages", "no parameter 'messages'"),
        ({"return_token_ids": 1}, "return_token_ids", "return_token_ids=1 is neither true nor false"),
    ],
)
def test_what_is_wrong_is_named(service, body, param, words):
    error = refused(service, **body)
    assert error.status == 400
    assert words in error.body["error"]["message"]
    assert error.body["error"] | {"message": ""} == {
        "message": "",
        "type": "invalid_request_error",
        "param": param,
        "code": None,
    }


def test_nulls_are_as_good_as_absent(service):
    names = "best_of echo frequency_penalty logit_bias logprobs n presence_penalty stop stream"
    names += " stream_options suffix temperature top_p user model"
    assert texts(service, **dict.fromkeys(names.split())) == texts(service)
    assert texts(service, suffix="", user="me", model="tiny") == texts(service)


def test_another_model_is_not_found(service):
    error = refused(service, model="gpt-5")
    assert error.status == 404
    assert error.body["error"]["code"] == "model_not_found"
    assert "this server has 'tiny'" in str(error)


def test_too_long_a_request_says_both_numbers(service):
    error = refused(service, prompt=[5] * 4000, max_tokens=97)
    assert error.status == 400
    assert error.body["error"]["code"] == "context_length_exceeded"
    assert "context is 4096 tokens, and 4097 are asked for: 4000 in the prompt" in str(error)
    service.run({"prompt": [5] * 4000, "max_tokens": 96})


@pytest.mark.parametrize("body", [[], "text", None, 3])
def test_a_body_that_is_no_object_is_refused(service, body):
    with pytest.raises(ApiError, match="must be a JSON object"):
        service.run(body)


# Beside completions


def test_models_and_tokens(service):
    assert service.models()["data"] == [service.describe("tiny")]
    assert service.describe("tiny")["owned_by"] == "oai_nb"
    assert service.tokenize({"prompt": PROMPT}) == {
        "tokens": service.tokenizer.encode(PROMPT),
        "count": 4,
        "max_model_len": 4096,
    }
    with pytest.raises(ApiError, match="prompt must be a text"):
        service.tokenize({"prompt": [1]})
