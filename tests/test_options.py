"""The options as data: every parameter has one, and the help shows them all."""

import re

import pytest

from oai_nb.options import BY_FLAG, OPTIONS, VIEWS, did_you_mean, help_text
from oai_nb.parameters import PARAMETERS


def section(flag):
    """Return the words of the help about one option."""
    parts = re.split(r"^    (?=-)", help_text(), flags=re.M)
    return " ".join(
        next(part for part in parts if flag in part.partition("\n")[0].replace(",", " ").split()).split()
    )


def test_every_parameter_but_the_prompt_has_its_option():
    names = {option.name for option in OPTIONS}
    assert set(PARAMETERS) - names == {"prompt"}
    for parameter in PARAMETERS.values():
        assert parameter.name == "prompt" or BY_FLAG[parameter.option].name == parameter.name


def test_no_two_options_share_a_spelling():
    assert len(BY_FLAG) == sum(len(option.spellings) for option in OPTIONS)


def test_every_boolean_can_be_turned_on_and_off():
    booleans = [option for option in OPTIONS if option.name in PARAMETERS and option.value is None]
    assert [option.spellings for option in booleans] == [("--echo", "--no-echo"), ("--stream", "--no-stream")]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_help_has_every_option_with_its_words(option):
    words = section(option.flags[-1])
    assert option.help in words and (option.value or "") in words


@pytest.mark.parametrize(
    ("flag", "facts"),
    [
        ("--temperature", "(from 0 to 2; default 1)"),
        ("--max-tokens", "(at least 0; default 16)"),
        ("-n", "(from 1 to 128; default 1)"),
        ("--logprobs", "(from 0 to 5)"),
        ("--seed", "(any 64-bit integer)"),
        ("--stop", "(may be repeated)"),
        ("--var", "(may be repeated)"),
    ],
)
def test_the_help_says_range_default_and_repetition(flag, facts):
    assert facts in section(flag)


def test_the_help_is_grouped_has_two_examples_and_fits_a_screens_width():
    text = help_text()
    headings = re.findall(r"^(\w+)$", text, re.M)
    assert headings == ["Examples", "prompt", "sampling", "length", "choices", "transport", "display"]
    assert len(re.findall(r"^    %%?complete -", text, re.M)) == 2
    assert max(map(len, text.splitlines())) <= 100


def test_views_and_near_words():
    assert tuple(VIEWS) == ("text", "tokens", "table", "heatmap", "compare")
    assert did_you_mean("heatmp", VIEWS) == "did you mean heatmap?" and did_you_mean("qqq", VIEWS) == ""
