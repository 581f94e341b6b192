"""The line of a magic, from words to options; D22 and what people mistype."""

import keyword
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.errors import ConfigurationError, InvalidRequestError
from oai_nb.parser import Options, parse, read_word
from oai_nb.request import Request


def parameters(line):
    return parse(line).parameters


def refusal(line):
    with pytest.raises(ConfigurationError) as caught:
        parse(line)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- words ---


def test_d22_stops_are_quoted_as_in_a_shell_and_escapes_are_undone():
    line = r'''--stop "\n" --stop "User:" --stop "don't" --stop="a b"'''
    assert parameters(line)["stop"] == ("\n", "User:", "don't", "a b")


def test_d22_more_than_four_stops_are_refused_before_anything_is_sent():
    with pytest.raises(InvalidRequestError, match=r"stop=.* has 5 texts: there may be at most 4"):
        Request("x", **parameters("--stop a --stop b --stop c --stop d --stop e"))


@pytest.mark.parametrize("quoted", [r"\n", r"'\n'", r'"\n"', r"a\n'b'"])
def test_a_newline_is_a_newline_however_it_is_quoted(quoted):
    assert "\n" in parameters(f"--stop {quoted}")["stop"][0]


def test_a_backslash_before_a_letter_stays_where_nothing_is_unescaped():
    assert parse(r"--file C:\data\new.txt").file == r"C:\data\new.txt"


# No backslash before a letter or a digit: there we are kinder than a shell.
PIECES = [" ", "a", "b", "é", "-", "=", "'", '"', "\\\\", "\\ ", "\\'", '\\"', "\n", "\t"]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_words_are_split_as_a_shell_does(line):
    try:
        expected = shlex.split(line)
    except ValueError:
        return
    words, end = [], 0
    while end < len(line):
        start = end + len(line[end:]) - len(line[end:].lstrip())
        if start == len(line):
            break
        word, end = read_word(line, start)
        words.append(word)
    assert words == expected


@pytest.mark.parametrize("line", ["--stop 'abc", '--stop "abc', "--stop abc\\"])
def test_an_open_quote_is_named(line):
    assert "never closed" in refusal(line)


# --- values ---


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-t 0.7 -n 3", {"temperature": 0.7, "n": 3}),
        ("--temperature=0.7", {"temperature": 0.7}),
        ("--frequency-penalty -1.5 --seed -7", {"frequency_penalty": -1.5, "seed": -7}),
        ("--echo", {"echo": True}),
        ("--no-echo --no-stream", {"echo": False, "stream": False}),
        ("-m gpt --user 'a b'", {"model": "gpt", "user": "a b"}),
        ("--suffix ''", {"suffix": ""}),
        ("--stop --echo", {"stop": ("--echo",)}),
        ("--logit-bias 42=-100 --logit-bias 7=5", {"logit_bias": {"42": -100, "7": 5}}),
        ("""--logit-bias '{"42": -100}'""", {"logit_bias": {"42": -100}}),
        ("""--stream-options '{"include_usage": true}'""", {"stream_options": {"include_usage": True}}),
        ("-n 2 -n 3", {"n": 3}),
    ],
)
def test_values_become_what_they_mean(line, expected):
    assert parameters(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-t 0,7", "temperature='0,7' is not a number: it must be one from 0 to 2"),
        ("--temperature 3", "temperature=3 is out of range: it must be from 0 to 2"),
        ("-n 2.5", "n=2.5 is not a whole number: it must be one from 1 to 128"),
        ("--top-p nan", "top_p=nan is not finite: it must be from 0 to 1"),
        ("--max-tokens -1", "max_tokens=-1 is out of range: it must be at least 0"),
        ("--logit-bias 5=x", "logit_bias={'5': 'x'} has 'x' for token 5"),
        ("--logit-bias x", "logit_bias='x' is not a mapping"),
        ("--stream-options x --stream", "stream_options='x' is not a mapping"),
    ],
)
def test_a_bad_value_is_one_line_with_the_parameter_the_value_and_the_range(line, message):
    with pytest.raises(InvalidRequestError) as caught:
        Request("x", **parameters(line))
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_options_of_our_own():
    line = (
        "--out story --show table,heatmap --show text --var a --var b --raw --server local --file 'a b.txt'"
    )
    assert parse(line) == Options(
        out="story",
        show=("table", "heatmap", "text"),
        var=("a", "b"),
        raw=True,
        server="local",
        file="a b.txt",
    )


def test_extra_is_json_or_else_text():
    line = """--extra top_k=40 --extra 'g={"a": [1]}' --extra s=min_p=1 --extra 'q="40"' --extra t=true"""
    assert parse(line).extra == {"top_k": 40, "g": {"a": [1]}, "s": "min_p=1", "q": "40", "t": True}


@pytest.mark.parametrize("name", ["µ", "ﬁrst", "ª"])
def test_a_name_is_kept_as_python_keeps_it(name):
    variables = {}
    exec(f"{name} = 1", {}, variables)
    assert [parse(f"--out {name}").out] == list(variables) != [name]


@pytest.mark.parametrize("flag", ["--extra x=", "--logit-bias ", "--stream-options "])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_too_deep_is_one_line(flag, opening):
    assert "nested too deeply" in refusal(f"{flag}'{opening * 20_000}'")


# --- mistakes ---


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--temprature 1", "there is no option --temprature: did you mean --temperature?"),
        ("--temp 1", "there is no option --temp: did you mean --temperature?"),
        ("--top_p 1", "there is no option --top_p: did you mean --top-p?"),
        ("-x 1", "there is no option -x"),
        ("--help", "there is no option --help: %%complete? shows the help"),
        ("--qqqqq", "write -- before a prompt that begins with a dash"),
        ("--show heatmp", "--show has no view 'heatmp': did you mean heatmap?"),
        ("--show qqq", "there are text, tokens, table, heatmap, compare"),
        ("--out 1st", "--out '1st' is not a name"),
        ("-o class", "-o 'class' is not a name"),
        ("--out get_ipython", "--out get_ipython is a name of IPython's own: choose another"),
        ("-o ｅｘｉｔ", "-o ｅｘｉｔ is a name of IPython's own"),
        ("-o ｉｆ", "-o 'ｉｆ' is not a name"),
        ("--var a.b", "--var 'a.b' is not a name"),
        ("--extra top_k", "--extra 'top_k' is no NAME=VALUE"),
        ("--extra =4", "is no NAME=VALUE"),
        ("--temperature", "--temperature needs a value: --temperature NUMBER"),
        ("--stop  ", "--stop needs a value"),
        ("--echo=yes", "--echo takes no value: leave out =yes"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(line, message):
    assert message in refusal(line)


@pytest.mark.parametrize(
    "name",
    [
        *("In", "Out", "exit", "quit", "open", "_", "__", "___", "_i", "_ii", "_iii", "_i12", "_12"),
        *("_ih", "_oh", "_dh", "_exit_code", "__builtins__", "__name__"),
    ],
)
def test_a_name_that_ipython_needs_is_refused(name):
    assert refusal(f"--out {name}") == f"--out {name} is a name of IPython's own: choose another"


@pytest.mark.parametrize("name", ["_completion", "_in", "_story", "out", "In1", "i", "_i_"])
def test_any_other_name_can_be_had(name):
    assert parse(f"--out {name}").out == name


@pytest.mark.parametrize("name", ["_", "Out", "In"])
def test_a_prompt_may_have_what_ipython_keeps(name):
    assert parse(f"--var {name}").var == (name,)


# --- the rest ---


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("", ""),
        ("Once upon", "Once upon"),
        ("  Once ", "  Once "),
        ("-n 2 Once  upon \t", "Once  upon \t"),
        ("-n 2  Once", " Once"),
        ("-n 2", ""),
        ('-n 2 don\'t "quote" \\n {x} $y', 'don\'t "quote" \\n {x} $y'),
        ("--echo - a list", "- a list"),
        ("--echo -5 degrees", "-5 degrees"),
        ("-- --not-an-option", "--not-an-option"),
        ("-n 2 -- -n 3", "-n 3"),
        ("-n 2 --", ""),
        ("What --temperature 3 means", "What --temperature 3 means"),
        ("'--echo'", "'--echo'"),
    ],
)
def test_what_follows_the_options_is_left_as_it_is(line, rest):
    assert parse(line).rest == rest


# --- there and back ---

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def requests(draw):
    """Draw any request that fits into a cell."""
    values = {
        "model": TEXTS,
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "logit_bias": st.dictionaries(st.integers(0, 10**6).map(str), st.integers(-100, 100), max_size=3),
        "seed": st.integers(-(2**63), 2**63 - 1),
        "max_tokens": st.integers(0, 10**6),
        "stop": st.lists(TEXTS.filter(bool), min_size=1, max_size=4),
        "n": st.integers(1, 20),
        "best_of": st.just(20),
        "logprobs": st.integers(0, 5),
        "echo": st.booleans(),
        "suffix": TEXTS,
        "user": TEXTS,
    }
    asked = draw(st.fixed_dictionaries({}, optional=values))
    if "best_of" not in asked:
        asked |= draw(st.fixed_dictionaries({}, optional={"stream": st.booleans()}))
    if asked.get("stream"):
        flags = st.dictionaries(st.sampled_from(["include_usage", "include_obfuscation"]), st.booleans())
        asked |= draw(st.fixed_dictionaries({}, optional={"stream_options": flags}))
    return Request(
        draw(TEXTS), **asked, extra=draw(st.dictionaries(NAMES.map("x_{}".format), JSON, max_size=2))
    )


@given(requests())
def test_a_request_written_as_a_cell_is_read_back_equal(request_):
    first, _, body = request_.to_magic().partition("\n")
    magic, _, line = first.partition(" ")
    options = parse(line)
    assert magic == "%%complete" and options.rest == ""
    assert Request(body.removesuffix("\n"), **options.parameters, extra=options.extra) == request_
