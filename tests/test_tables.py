"""DataFrames of fixed columns, whatever the server's dialect."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import ODD, chat, choice, completion, plain, words

from oai_nb import tables
from oai_nb.completion import Choice, Completion
from oai_nb.decode import Logprobs
from oai_nb.table_view import to_text
from oai_nb.visible import width

TOKENS = {
    "choice": "int64",
    "position": "int64",
    "token": "object",
    "shown": "object",
    "token_id": "Int64",
    "bytes": "object",
    "offset": "Int64",
    "logprob": "float64",
    "prob": "float64",
    "rank": "Int64",
    "surprisal_bits": "float64",
    "entropy_bits": "float64",
    "entropy_exact": "bool",
}
TOP = {
    "choice": "int64",
    "position": "int64",
    "rank": "Int64",
    "token": "object",
    "shown": "object",
    "token_id": "Int64",
    "logprob": "float64",
    "prob": "float64",
    "chosen": "bool",
}
FULL = completion(words(7), choice(["a", "b"], index=1))


def dtypes(frame):
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def via_tokens(answer):
    """The table that `oai_nb.tokens` makes, one alternative after the other."""
    return tables._table(tables._TOP_LOGPROBS, [tables._from_tokens(one) for one in answer.choices])


@pytest.mark.parametrize("answer", [FULL, Completion(), plain("x", "y"), completion(Choice(0, "", "stop"))])
def test_columns_and_dtypes_are_always_the_same(answer):
    assert dtypes(answer.tokens_table()) == TOKENS
    assert dtypes(answer.top_logprobs_table()) == TOP


def test_answers_without_logprobs_have_no_rows():
    assert plain("x").tokens_table().empty and plain("x").top_logprobs_table().empty


def test_tokens_in_numbers():
    frame = completion(choice(["a", " b"], [math.log(0.5), math.log(0.25)], ids=(7, 8))).tokens_table()
    assert frame["position"].tolist() == [0, 1] and frame["shown"].tolist() == ["a", "␣b"]
    assert frame["token_id"].tolist() == [7, 8] and frame["bytes"].tolist() == [b"a", b" b"]
    np.testing.assert_allclose(frame["prob"], [0.5, 0.25])
    np.testing.assert_allclose(frame["surprisal_bits"], [1, 2])


def test_entropy_is_exact_only_where_nothing_was_left_unseen():
    half = math.log(0.5)
    frame = completion(choice(["a", "a"], [half, half], [{"a": half, "b": half}, {"a": half}])).tokens_table()
    np.testing.assert_allclose(frame["entropy_bits"], [1, 1])
    assert frame["entropy_exact"].tolist() == [True, False]


def test_choices_stand_below_each_other_and_positions_begin_anew():
    frame = FULL.tokens_table()
    assert frame["choice"].tolist() == [0] * 7 + [1] * 2
    assert frame["position"].tolist() == [*range(7), 0, 1]


def test_d13_the_chosen_value_wins_and_no_value_is_invented():
    frame = completion(
        choice(["true"], [-2.4], [{"true": -0.3, "false": -1.9}], asked=3)
    ).top_logprobs_table()
    assert list(zip(frame["token"], frame["logprob"], frame["chosen"])) == [
        ("true", -0.3, False),
        ("false", -1.9, False),
        ("true", -2.4, True),
    ]


def test_d14_halves_of_characters_are_bytes():
    answer = completion(choice(["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"], text="😀"))
    frame = answer.tokens_table()
    assert frame["shown"].tolist() == ["\\xf0\\x9f", "\\x98\\x80"]
    assert b"".join(frame["bytes"]).decode() == answer.text


def test_d14_equal_texts_of_other_ids_stay_two_rows():
    top = [(231, "\ufffd", b"\x8d", -0.2), (118, "\ufffd", b"\xa8", -2.0)]
    frame = completion(chat([(231, "👍", b"\xf0\x9f\x91\x8d", -0.2, top)], "👍")).top_logprobs_table()
    assert frame["token_id"].tolist() == [231, 118] and frame["shown"].tolist() == ["\\x8d", "\\xa8"]
    assert frame["chosen"].tolist() == [True, False]


def test_d15_a_first_token_without_logprob_keeps_its_row():
    answer = completion(choice(["The", " step"], [None, -8.8], [None, {" step": -8.8, " is": -0.7}], asked=1))
    frame = answer.tokens_table()
    assert frame["token"].tolist() == ["The", " step"]
    assert np.isnan(frame["logprob"][0]) and np.isnan(frame["prob"][0]) and frame["rank"].isna()[0]
    assert answer.top_logprobs_table()["position"].tolist() == [1, 1]
    assert answer.choices[0].perplexity == pytest.approx(math.exp(8.8))


def test_d16_what_stands_for_impossible_has_probability_0():
    row = {"a": 0.0, "<s>": -math.inf, "x": math.nan, "y": -9999.0}
    frame = completion(choice(["a"], [0.0], [row], asked=4)).top_logprobs_table()
    assert frame["prob"].tolist() == [1, 0, 0, 0]


def test_d18_one_table_for_both_shapes():
    top = [(506, "'s", b"'s", -1.45), (12, " is", b" is", -0.5)]
    ours = completion(chat([(506, "'s", b"'s", -1.45, top)], "'s", asked=2)).top_logprobs_table()
    theirs = completion(choice(["'s"], [-1.45], [{"'s": -1.45, " is": -0.5}], asked=2)).top_logprobs_table()
    same = ["choice", "position", "rank", "token", "shown", "logprob", "prob", "chosen"]
    pd.testing.assert_frame_equal(ours[same], theirs[same])
    assert ours["token_id"].tolist() == [12, 506]


def test_the_rank_of_a_chosen_one_below_those_shown_is_unknown():
    frame = completion(choice(["z"], [-5.0], [{"a": -0.1, "b": -3.0}], asked=2)).top_logprobs_table()
    assert frame["token"].tolist() == ["a", "b", "z"]
    assert frame["rank"].isna().tolist() == [False, False, True]


TEXT = st.sampled_from(["a", " a", "b", "\n", "", "é", "bytes:\\xf0"])
NUMBER = st.one_of(st.none(), st.sampled_from([0.0, -0.5, -0.5004, -9.0, -9999.0, -math.inf, math.nan]))
ROW = st.one_of(st.none(), st.dictionaries(TEXT, NUMBER, max_size=4))
POSITIONS = st.lists(st.tuples(TEXT, NUMBER, ROW), max_size=6)


@given(POSITIONS, st.one_of(st.none(), st.integers(0, 5)), st.booleans(), st.integers(0, 1))
def test_the_fast_way_and_the_way_through_tokens_agree(positions, asked, with_ids, cut):
    texts, values, rows = (tuple(column) for column in zip(*positions)) if positions else ((), (), ())
    columns = Logprobs(texts, values, rows[cut:])  # and where a server leaves some out
    ids = tuple(range(100, 100 + len(texts))) if with_ids else None
    answer = completion(Choice(0, "", None, columns, ids, asked))
    pd.testing.assert_frame_equal(answer.top_logprobs_table(), via_tokens(answer))


@given(st.integers(0, 40), st.integers(1, 6), st.integers(0, 99))
def test_they_agree_on_what_servers_send(count, k, seed):
    answer = completion(words(count, k, seed))
    pd.testing.assert_frame_equal(answer.top_logprobs_table(), via_tokens(answer))


# --- for eyes ---


def test_d26_ten_odd_tokens_are_ten_different_cells():
    bundle = tables.table_bundle(completion(choice(ODD, top=[None] * len(ODD))))
    cells = [line.split("<td")[2] for line in bundle["text/html"].split("<tr style")[1:]]
    assert len(set(cells)) == len(ODD)
    assert "<script" not in bundle["text/html"] and "<b>x" not in bundle["text/html"]


def test_the_view_is_bounded_and_says_what_is_left_out():
    bundle = tables.table_bundle(completion(words(1000)))
    for text in bundle.values():
        assert "more rows: top_logprobs_table() of this completion" in text
    assert len(bundle["text/html"]) < 40_000 and len(bundle["text/plain"].splitlines()) == 52


def test_alternatives_are_shown_or_else_tokens_or_else_what_to_do():
    assert "▸a" in tables.table_bundle(completion(choice(["a"])))["text/plain"]
    assert "surprisal" in tables.table_bundle(completion(choice(["a"], top=[None])))["text/plain"]
    assert "--logprobs 5" in tables.table_bundle(plain("a"))["text/plain"]


def test_what_is_unknown_is_empty_and_what_is_a_bound_says_so():
    text = tables.to_text(completion(choice(["The", "x"], [None, -1.0], [None, {"x": -1.0}])).tokens_table())
    assert "nan" not in text and "NA" not in text and "≥0.95" in text


def test_several_choices_have_a_column():
    assert "choice" in tables.to_text(FULL.tokens_table()) and "choice" in tables.to_html(FULL.tokens_table())


def test_what_is_taken_from_a_table_is_shown_literally_too():
    odd = "\x1b[31mred\u202e"
    frame = completion(choice([odd, "x"], [-1.0, -2.0])).tokens_table()
    for part in (frame["token"], frame.token[:1], frame.iloc[0], frame.token.to_frame().T):
        assert "\x1b" not in repr(part) and "\u202e" not in repr(part) and "red" in repr(part)


def test_a_frame_shows_what_would_act_on_the_page_and_what_no_file_can_hold():
    page = tables.tokens_table(completion(choice(["\u202eb", "\x1b[1m", "\ud800"])))._repr_html_()
    assert "⟨U+202E⟩b" in page and "␛[1m" in page and "⟨U+D800⟩" in page and page.encode()


def test_a_narrow_terminal_gets_as_much_of_the_table_as_fits():
    answer = completion(choice([" a", "日本語", "x" * 100]))
    for columns in (120, 60, 40):
        lines = to_text(tables.tokens_table(answer), columns=columns).split("\n")
        assert max(map(width, lines)) <= columns and len(lines) == 4 and "␣a" in lines[1] and "…" in lines[3]
    assert "x" * 100 in to_text(tables.tokens_table(answer))
