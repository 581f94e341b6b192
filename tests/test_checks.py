"""Ranges and values in words."""

import pytest

from oai_nb import checks
from oai_nb.parameters import OPEN, PARAMETERS, Range


class Array:
    def __repr__(self):
        return "array([[1, 2],\n       [3, 4]])\x1b[0m"


def test_a_value_is_shown_on_one_line_on_which_nothing_acts():
    assert checks.shown(Array()) == "array([[1, 2], [3, 4]])␛[0m"
    assert checks.shown("a  b\n") == "'a  b\\n'"


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (OPEN, "any number"),
        (Range(0, None), "at least 0"),
        (Range(None, 5), "at most 5"),
        (Range(0, 2), "from 0 to 2"),
    ],
)
def test_a_range_in_words(bounds, words):
    assert checks.allowed(bounds) == words


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temperature", "x", "is not a number"),
        ("temperature", float("inf"), "is not finite"),
        ("n", 1.5, "is not a whole number"),
        ("stop", 3, "is neither a text nor a list of texts"),
    ],
)
def test_a_refusal_under_open_limits_names_none(name, value, words):
    with pytest.raises(checks.Refused) as caught:
        getattr(checks, PARAMETERS[name].kind)(value, OPEN)
    assert str(caught.value) == words
