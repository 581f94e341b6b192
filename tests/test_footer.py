"""What is said below an answer, the same in HTML and in text."""

import re

from made import LOCAL, REQUEST, TIMING, choice, completion, plain

from oai_nb.completion import Note, Server, Usage
from oai_nb.footer import as_html, as_text, facts
from oai_nb.request import Request

SECONDS = re.compile(r"\d+(\.\d+)? s\b")
RATE = re.compile(r"\d+(\.\d+)? tokens/s")


def told(html):
    """The words of the HTML, without its tags."""
    return re.sub("<[^>]*>", "", html)


def test_who_answered():
    assert facts(plain("x", model="m", server=LOCAL))[0] == "local · m"
    vllm = Server("vllm", "http://127.0.0.1:8000/v1")
    assert facts(plain("x", model="m", server=vllm))[0] == "http://127.0.0.1:8000/v1 · vllm · m"
    assert facts(plain("x", model="m"))[0] == "m"


def test_a_cut_text_says_what_to_do():
    answer = plain("x", reason="length", request=REQUEST)
    assert "cut at max_tokens 60 (length): add --max-tokens 120" in as_text(answer)
    assert ">--max-tokens 120</code>" in as_html(answer)
    assert "max_tokens 16 " in as_text(plain("x", reason="length"))  # the contract's default
    assert "--max-tokens" not in as_text(plain("x", reason="length", request=Request("x", max_tokens=0)))


def test_several_choices_are_counted_the_cut_ones_last():
    answer = completion(choice(["a"], reason="length"), choice(["b"], index=1), choice(["c"], index=2))
    assert "2 ended (stop), 1 cut at max_tokens 16 (length): add --max-tokens 32" in as_text(answer)


def test_how_much_and_how_fast_in_words_that_can_be_masked():
    answer = plain("x", usage=Usage(12, 60, 72), timing=TIMING)
    said = "60 tokens in 2.50 s · 24 tokens/s · first after 0.21 s"
    assert said in facts(answer) and f">{said}</span>" in as_html(answer)
    assert "1 token in" in as_text(plain("x", usage=Usage(1, 1, 2), timing=TIMING))


def test_two_runs_are_alike_once_times_are_masked():
    def masked(first, total):
        timing = type(TIMING)(0.0, first, total)
        text = as_html(plain("x", usage=Usage(12, 60, 72), timing=timing))
        return SECONDS.sub("SECONDS", RATE.sub("RATE", text))

    assert masked(0.21, 2.5) == masked(12.0, 345.6) == masked(0.001, 0.004)


def test_what_was_sent_is_shown_without_the_prompt():
    answer = plain("x", sent={"prompt": "secret", "temperature": 0.8, "top_p": 1, "stop": ["\n"], "seed": 7})
    assert facts(answer)[-1] == 'temperature 0.8 · top_p 1 · stop ["\\n"] · seed 7'
    assert "seed 7" in as_text(plain("x", request=REQUEST))


def test_whole_numbers_are_shown_as_such():
    assert facts(plain("x", sent={"temperature": 1.0, "top_p": 0.0, "max_tokens": 30}))[-1] == (
        "temperature 1 · top_p 0 · max_tokens 30"
    )


def test_what_is_not_as_asked_has_a_sign_and_words():
    notes = (Note("ignored", "no suffix"), Note("emulated", "best_of by us"), Note("info", "empty prompt"))
    answer = plain("x", fidelity=notes)
    for said in ("✕ no suffix", "≈ best_of by us", "· empty prompt"):
        assert said in as_text(answer).splitlines() and said in told(as_html(answer))


def test_an_incomplete_answer_says_so_first():
    answer = plain("x", reason=None, incomplete="the connection\nbroke", fidelity=(Note("info", "n"),))
    assert as_text(answer).splitlines()[-2:] == ["⚠ incomplete: the connection broke", "· n"]
    assert "⚠ incomplete: the connection broke" in told(as_html(answer))


def test_a_servers_words_are_only_words():
    evil = '<img src=x onerror=alert(1)>\x1b[31m"'
    answer = plain(
        "x", reason=evil, model=evil, incomplete=evil, fidelity=(Note(evil, evil),), sent={"user": evil}
    )
    assert "<img" not in as_html(answer) and "\x1b" not in as_html(answer) + as_text(answer)


def test_html_and_text_say_the_same():
    answer = plain("x", request=REQUEST, timing=TIMING, server=LOCAL, model="m", incomplete="cut")
    words = re.sub(r"\W", "", as_text(answer))
    assert re.sub(r"\W", "", told(as_html(answer))) == words
