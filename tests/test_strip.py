"""The token strip, columns and what runs: safe, complete, readable, and the same each time."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import LOCAL, ODD, REQUEST, TIMING, chat, choice, completion, plain, words

from oai_nb import strip
from oai_nb.completion import Completion, Note
from oai_nb.errors import InvalidRequestError
from oai_nb.request import Request
from oai_nb.visible import printable

TAGS = {"b", "bdi", "br", "code", "details", "div", "pre", "small", "span", "summary"}
ATTRIBUTES = {"class", "dir", "style", "title"}
STYLES = {  # what JupyterLab's sanitiser lets through, as far as we use it
    *("background", "border", "border-bottom", "border-radius", "cursor", "display", "flex-wrap"),
    *("font-family", "font-size", "gap", "grid-template-columns", "justify-content", "line-height", "margin"),
    *("margin-bottom", "margin-top", "min-width", "opacity", "overflow-wrap", "overflow-x", "padding"),
    *("text-align", "white-space", "word-break"),
}


class Page(HTMLParser):
    """Reads our HTML and refuses any tag, attribute or style that is not ours."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.titles, self.hidden = [], "", [], ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        if tag != "br":
            self.open.append(tag)
        for name, value in attrs:
            assert name in ATTRIBUTES
            if name == "title":
                self.titles.append(value)
            if name == "style":
                parts = [part.split(":")[0] for part in value.split(";") if part]
                assert set(parts) <= STYLES and "url" not in value and "var(" not in value

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "details" in self.open:
            self.hidden += data
        else:
            self.text += data

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def show(answer, *kinds):
    return strip.bundle(answer, kinds or ("text",))


def strip_of(one):
    """The running text of a strip, without the signs for what cannot be seen."""
    text = Page(strip.token_strip(one)).text
    return text.replace("⏎\n", "\n").replace("⇥\t", "\t").replace("␣", " ").replace("⍽", "\u00a0")


# --- safety ---

ANY = st.one_of(st.text(max_size=8), st.sampled_from([*ODD, "</pre>", "<!--", "\x1b[31m", "\u202e", "$x$"]))


@given(st.lists(ANY, min_size=1, max_size=5), st.lists(ANY, max_size=2), st.sampled_from(strip.KINDS))
def test_no_tag_but_ours_survives(tokens, others, kind):
    top = [{token: -0.1} | {other: -2.0 - i for i, other in enumerate(others)} for token in tokens]
    alike = choice(tokens, top=top)
    other = choice(tokens, top=top, index=1)
    notes = (Note("ignored", tokens[0]), Note(tokens[0], tokens[-1]))
    for choices in ((alike,), (alike, other)):
        answer = completion(*choices, model=tokens[0], fidelity=notes, incomplete=tokens[-1])
        bundle = show(answer, kind)
        Page(bundle["text/html"])
        assert_inert(bundle["text/plain"])


@given(st.dictionaries(st.integers(0, 3), st.text(max_size=30), max_size=4), st.text(max_size=10))
def test_no_tag_but_ours_survives_while_it_runs(texts, status):
    bundle = strip.running(texts, status, 3)
    Page(bundle["text/html"])
    assert_inert(bundle["text/plain"])


def assert_inert(text):
    """A terminal does nothing on this but write."""
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", text
    )


def test_d26_ten_odd_tokens_are_ten_different_boxes():
    html = show(completion(choice(ODD)), "tokens")["text/html"]
    boxes = re.findall("<code[^>]*>(.*?)</code>", html)
    assert boxes[:6] == ["␣the", "the", "⏎", "\\n", "∅", "⇥"] and len(set(boxes)) == len(ODD)


def test_nothing_is_typeset_as_maths():
    html = show(plain("costs $5 and $6"))["text/html"]
    assert all("mathjax_ignore tex2jax_ignore" in tag for tag in re.findall("^<div[^>]*>|<pre[^>]*>", html))


# --- the text ---


DRAWN = st.characters(categories=["L", "P", "N"], exclude_characters="\u3164\uffa0")


@given(st.lists(st.text(DRAWN, max_size=5), max_size=10))
def test_the_strip_is_the_text(tokens):
    one = choice([f" {token}" for token in tokens])
    assert strip_of(one) == one.text or not one.text


SIGNS = "a é日👩👧❤🏽🇩🇪\u200d\u200c\ufe0f\u0301\n\t\x1b\u202e\U0001f3f4\U000e0067\U000e007f\ufffdש"


@given(st.lists(st.text(alphabet=SIGNS, max_size=4), max_size=6))
def test_the_strip_shows_what_the_text_shows_however_tokens_cut_it(tokens):
    one = choice(tokens)
    assert strip_of(one) == printable(one.text) or not one.text


def test_what_cannot_be_seen_is_shown_where_it_matters():
    text = Page(strip.token_strip(choice([" a", "\n", " ", "    ", "\t", "\u00a0"]))).text
    assert text == " a⏎\n␣␣␣␣␣⇥\t⍽"


def test_d14_the_strip_shows_the_character_and_tells_its_halves():
    page = Page(strip.token_strip(choice(["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"], text="😀")))
    assert page.text == "😀" and "\\xf0\\x9f" in page.titles[0] and "\\x98\\x80" in page.titles[0]


def test_a_position_without_alternatives_is_said_at_its_row_too():
    answer = completion(choice(["a", "b"], [None, -1.0], [None, None], asked=3))
    assert show(answer, "tokens")["text/plain"].count("came") == 1
    assert re.search("1 +b 37% +0 of 3 came", show(answer, "tokens")["text/plain"])


def test_an_emoji_of_several_tokens_is_whole_in_the_text_and_taken_apart_below():
    tokens = ["👩", "\u200d", "👧", " ❤", "\ufe0f"]
    assert strip_of(choice(tokens)) == "👩\u200d👧 ❤\ufe0f"
    assert "⟨U+200D⟩" in show(completion(choice(tokens)), "tokens")["text/html"]


def test_half_a_character_that_no_file_can_hold_is_shown():
    bundle = show(completion(choice(["a\ud800"])), *strip.KINDS)
    assert bundle["text/html"].encode() and bundle["text/plain"].encode()
    assert "a⟨U+D800⟩" in Page(bundle["text/html"]).text and "a⟨U+D800⟩" in bundle["text/plain"]


def test_d15_a_first_token_without_logprob_has_no_colour():
    html = strip.token_strip(choice(["The", " step"], [None, -8.8], [None, {" step": -8.8}]))
    assert re.search(r">The<span style=[^>]*> step</span>", html)


def test_d13_fewer_alternatives_than_asked_are_said_at_the_row():
    answer = completion(choice(["true"], [-2.4], [{"true": -0.3, "false": -1.9}], asked=3))
    assert (
        "2 of 3 came" in show(answer)["text/html"] and "2 of 3 came" in show(answer, "tokens")["text/plain"]
    )


def test_d16_an_impossible_token_is_the_most_surprising():
    answer = completion(choice(["a"], [-9999.0], [{"b": float("-inf"), "c": float("nan")}]))
    assert "border-bottom:3px" in show(answer)["text/html"]


def test_d18_the_chat_form_is_coloured_too():
    answer = completion(chat([(1, "'s", b"'s", -2.0, [(2, " is", b" is", -0.2)])], "'s"))
    page = Page(show(answer)["text/html"])
    assert page.titles == ["'s 14%, below these\n1 ␣is 82%"] and "␣is 82%" in page.hidden


def test_where_the_model_was_sure_there_is_silence_but_the_title_tells():
    html = strip.token_strip(choice(["a", "b"], [-0.01, -3.0]))
    assert '<span title="a 99%, rank 1&#10;1 a 99%' in html and 'style="background:' in html


def test_what_is_on_hover_is_in_a_table_that_a_keyboard_opens():
    page = Page(show(completion(choice(["a"], [-2.0], [{"x": -0.2, "a": -2.0}])))["text/html"])
    assert "<summary" in show(completion(choice(["a"])))["text/html"]
    assert "x 82%" in page.hidden and "▸a 14%" in page.hidden


def test_without_logprobs_the_text_is_plain():
    html = show(plain("one\n  two"))["text/html"]
    assert ">one\n  two</pre>" in html and "surprised" not in html and "<details" not in html


def test_no_text_is_said():
    for answer in (plain(""), Completion(), completion(choice([], [], []))):
        assert "∅ no text" in show(answer)["text/html"] and "∅ no text" in show(answer)["text/plain"]


def test_the_text_is_readable_in_a_terminal():
    answer = plain("one\ntwo", request=REQUEST, server=LOCAL, model="m", timing=TIMING)
    assert show(answer)["text/plain"].startswith("one\ntwo\n\nlocal · m · ended (stop)")


def test_long_words_wrap_and_each_paragraph_has_its_direction():
    html = strip.token_strip(choice(["x" * 500]))
    assert "white-space:pre-wrap" in html and "overflow-wrap:break-word" in html and 'dir="auto"' in html


def test_two_thousand_tokens_are_less_than_400_kb_and_ten_thousand_are_bounded():
    assert len(show(completion(words(2000)))["text/html"].encode()) < 400_000
    page = Page(show(completion(words(10_000)))["text/html"])
    assert len(page.titles) == strip.TITLED
    assert "9,900 more tokens: top_logprobs_table() of this completion" in page.hidden


def test_how_far_titles_and_colours_go_is_said_and_the_text_is_never_cut():
    short, long = words(strip.TITLED), words(strip.COLORED + 100)
    assert "on hover" not in show(completion(short))["text/html"]
    page = Page(show(completion(long))["text/html"])
    assert (
        "the first 2,000 tell more on hover, the first 10,000 are coloured; tokens_table() of this completion"
        in page.text
    )
    assert page.text.startswith(long.text) and show(completion(long))["text/plain"].startswith(long.text)
    assert len(show(completion(long))["text/html"].encode()) < 1_100_000


def test_twenty_long_choices_share_the_colours():
    many = [replace(words(600, seed=i), index=i) for i in range(20)]
    html = show(completion(*many))["text/html"]
    assert "Tokens of a choice: the first 100 tell more on hover, the first 500 are coloured" in html
    assert html.count("title=") == strip.TITLED and len(html.encode()) < 1_300_000


def test_the_same_answer_is_drawn_the_same():
    assert show(completion(words(50))) == show(completion(words(50)))


# --- several choices ---

THREE = completion(
    choice(["bad"], [-2.0]),
    choice(["good"], [-0.5], index=1, reason="length"),
    choice(["fair"], [-1.0], index=2),
)


def test_choices_stand_side_by_side_in_their_order():
    html = strip.columns(THREE)
    assert html.count("border-radius") == 3 and "grid-template-columns" in html
    assert html.index("bad") < html.index("good") < html.index("fair")


def test_the_likeliest_is_starred_in_html_and_in_text():
    assert strip.likeliest(THREE) == 1
    assert re.search("<b>1</b> ★ likeliest", strip.columns(THREE)) and strip.columns(THREE).count("★") == 1
    assert "[1] · ★ likeliest · -0.50 per token · perplexity 1.6 · length\ngood" in show(THREE)["text/plain"]


def test_there_is_no_likeliest_among_answers_to_different_prompts():
    request = Request(["first prompt", "second prompt"])
    answer = completion(choice(["a"]), choice(["b"], index=1), request=request)
    assert strip.likeliest(answer) is None
    assert "first prompt" in strip.columns(answer) and "second prompt" in show(answer)["text/plain"]


def test_a_stopped_answer_shows_the_prompt_that_each_choice_answers():
    request = Request(["first prompt", "second prompt"], n=2)
    stopped = completion(choice(["a"]), choice(["b"], index=1), request=request, incomplete="stopped")
    text = show(stopped)["text/plain"]
    assert text.count("first prompt") == 2 and "second prompt" not in text


def test_the_likeliest_under_echo_is_so_by_what_was_generated():
    """The prompt's unlikely tokens would weigh less in the longer answer."""
    request = Request("one two", echo=True, logprobs=1)
    prompt, top = ["one", " two"], {"x": -0.1}

    def echoed(generated, index):
        values = [None, -20.0, *generated]
        tokens = prompt + [" a"] * len(generated)
        one = choice(tokens, values, [None, top, *[top] * len(generated)], index=index)
        return replace(one, asked_echo=request.prompt)

    answer = completion(echoed([-1.0] * 10, 0), echoed([-0.5], 1), request=request)
    assert strip.likeliest(answer) == 1
    text = show(answer, "compare")["text/plain"]
    assert text.startswith("[1] · ★ likeliest · -0.50 per token")


def test_without_logprobs_nothing_is_starred():
    assert "★" not in show(plain("a", "b"))["text/html"]


def test_compare_begins_with_the_likeliest():
    text = show(THREE, "compare")["text/plain"]
    assert text.index("good") < text.index("fair") < text.index("bad")


# --- what is shown ---


def test_the_footer_belongs_to_the_text():
    answer = completion(choice(["a"]), model="model-x")
    assert "model-x" in show(answer)["text/html"] and "model-x" not in show(answer, "tokens")["text/html"]


def test_every_token_by_itself_with_its_probability():
    bundle = show(completion(choice([" a", "\n"], [-0.7, -3.0])), "tokens")
    assert "␣a" in bundle["text/html"] and "50%" in bundle["text/html"] and "⏎" in bundle["text/html"]
    assert re.search(r"0 +␣a 50%", bundle["text/plain"])


def test_tokens_that_never_came_are_asked_for():
    assert "--logprobs 5" in show(plain("a"), "tokens")["text/plain"]


def test_an_unknown_kind_is_refused_by_name():
    with pytest.raises(InvalidRequestError, match="show='heat' is none of text, tokens, compare"):
        strip.bundle(plain("a"), ("heat",))


# --- under way ---


def places(html):
    """The places of the texts: tags and layout before each one."""
    return [re.sub(r">[^<]+<", "><", part) for part in re.findall(r"<div style=\"border:.*?<pre[^>]*>", html)]


def test_what_runs_stands_where_it_will_stand():
    now = strip.running({0: "ba", 2: "f"}, "streaming", 3)["text/html"]
    done = show(plain("bad", "good", "fair"))["text/html"]
    assert places(now) == places(done) and len(places(now)) == 3
    assert now.index(">ba<") < now.index(">f<")


def test_one_answer_under_way_is_its_text_and_a_status():
    bundle = strip.running({0: "Once <b>"}, "12 tokens", 1)
    assert ">Once &lt;b&gt;</pre>" in bundle["text/html"] and bundle["text/plain"] == "Once <b>\n\n12 tokens"


def test_nothing_yet_has_its_places_too():
    assert strip.running({}, "waiting", 1)["text/plain"] == "\n\nwaiting"
    assert len(places(strip.running({}, "waiting", 2)["text/html"])) == 2


def test_a_choice_nobody_expected_is_shown_and_costs_no_room():
    assert "[1000000]\nx" in strip.running({1_000_000: "x"}, "", 1)["text/plain"]
