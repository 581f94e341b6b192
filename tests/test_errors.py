"""Errors in a cell: one line, on which nothing acts."""

import pytest

from oai_nb import errors


@pytest.mark.parametrize("kind", [errors.ServerError, errors.InvalidRequestError, errors.Interrupted])
def test_an_error_in_a_cell_is_one_line_on_which_nothing_acts(kind):
    shown = kind("a\nb \x1b]8;;http://x\x07\x9b31m \u202e")._render_traceback_()
    assert shown == [f"{kind.__name__}: a b ␛]8;;http://x␇⟨U+009B⟩31m ⟨U+202E⟩"]
