"""What the model nearly said, as columns that stay columns."""

import pytest
from made import choice, words

from oai_nb import alternatives
from oai_nb.visible import width

WIDE = choice(["日本", " the"], [-0.1, -2.0], [{"日本": -0.1, "x": -3.0}, {" a": -0.2, " the": -2.0}])


def test_wide_signs_do_not_shift_the_columns():
    rows = alternatives.lines(WIDE, 10)[1:]
    assert len({width(row[: row.index("▸") if "▸日" in row else row.index(" ␣a")]) for row in rows}) == 1


def test_a_right_to_left_token_keeps_its_number_at_its_right():
    assert "▸<bdi>שלום</bdi> 90%" in alternatives.html(choice(["שלום"]), 10)


@pytest.mark.parametrize("columns", [200, 120, 80, 60, 40])
def test_lines_are_no_wider_than_the_terminal(columns):
    lines = alternatives.lines(words(40), 10, columns)
    table = [line for line in lines if "top_logprobs_table()" not in line]
    assert max(map(width, table)) <= columns and len(table) == 11


def test_what_a_narrow_terminal_leaves_out_is_said():
    assert not any("wider" in line for line in alternatives.lines(words(5), 10))
    (said,) = [line for line in alternatives.lines(words(5), 10, 60) if "wider" in line]
    assert "more than 2 alternatives" in said and "top_logprobs_table()" in said
