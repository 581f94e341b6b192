"""The heatmap as data: what is drawn where, how large it is, and that nothing in it acts."""

import json
import math
import re
import subprocess
import sys

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import ODD, chat, choice, completion, plain, words

from oai_nb import plots
from oai_nb.errors import InvalidRequestError
from oai_nb.plots import heatmap, label

RISING = completion(
    choice(["a", "b"], [-0.1, -5.0], [{"a": -0.1, "x": -3.0}, {"y": -0.2, "b": -5.0}], asked=2)
)


def strict(figure):
    return json.dumps(figure.to_plotly_json(), allow_nan=False, ensure_ascii=False)


def frames(figure):
    """Every framed cell as (position, row)."""
    path = figure.layout.shapes[0].path
    boxes = re.findall(r"M([-.\d]+),([-.\d]+)H([-.\d]+)V([-.\d]+)H\1Z", path)
    assert "".join(f"M{x},{y}H{x1}V{y1}H{x}Z" for x, y, x1, y1 in boxes) == path
    cells = []
    for x, y, x1, y1 in boxes:
        assert float(y1) - float(y) == 1
        cells += [(int(float(x) + 0.5) + i, int(float(y) + 0.5)) for i in range(int(float(x1) - float(x)))]
    return cells


def test_ranks_by_positions_with_the_probability_as_colour():
    trace = heatmap(RISING).data[0]
    assert [list(row) for row in trace.text] == [["a", "y"], ["x", "b"]]
    assert [list(row) for row in trace.z] == [[0.9, 0.82], [0.05, 0.0067]]
    assert (trace.zmin, trace.zmax) == (0, 1)


def test_the_chosen_cell_is_framed_exactly():
    assert frames(heatmap(RISING)) == [(0, 1), (1, 2)]


def test_a_chosen_token_below_those_shown_has_a_row_below_them():
    figure = heatmap(completion(choice(["z", "a"], [-5.0, -0.1], [{"a": -0.1, "b": -3.0}] * 2, asked=2)))
    assert figure.layout.yaxis.ticktext == ("1", "2", ">2")
    assert list(figure.data[0].text[2]) == ["z", ""] and figure.data[0].z[2][1] is None
    assert frames(figure) == [(0, 3), (1, 1)]


def test_logprobs_without_alternatives_are_one_row():
    figure = heatmap(completion(choice(["a"], top=[None], asked=0)))
    assert figure.layout.yaxis.ticktext == ("chosen",) and list(figure.data[0].text[0]) == ["a"]


def test_d25_equal_tokens_stay_apart():
    tokens = ["the", " cat", "the", " the", "the"]
    figure = heatmap(completion(choice(tokens)))
    assert list(figure.data[0].x) == list(figure.layout.xaxis.tickvals) == [0, 1, 2, 3, 4]
    names = [text.split("<br>")[0] for text in figure.layout.xaxis.ticktext]
    assert names == ["the", "␣cat", "the", "␣the", "the"]


def test_d26_ten_odd_tokens_are_ten_different_labels_without_markup():
    labels = {label(shown) for shown in heatmap(completion(choice(ODD))).data[0].text[0]}
    assert len(labels) == len(ODD)
    assert "&lt;b>x&lt;/b>" in strict(heatmap(completion(choice(ODD))))


@given(st.text())
def test_a_label_never_holds_markup_or_maths(shown):
    text = label(shown)
    assert set(re.findall("<[^>]*>", text)) <= {"<br>"} and "$" not in text
    assert not re.search(r"&(?!amp;|lt;|#36;)", text)


def test_long_tokens_take_two_lines_and_then_an_ellipsis():
    assert label("abcdefghi") == "abcdefghi" and label("abcdefghij") == "abcde<br>fghij"
    assert label("x" * 50) == "x" * 9 + "<br>" + "x" * 8 + "…"


def test_d15_a_first_token_without_logprobs_keeps_its_empty_column():
    figure = heatmap(completion(choice(["The", " step"], [None, -0.1], [None, {" step": -0.1}])))
    assert list(figure.data[0].z[0]) == [None, 0.9] and figure.layout.xaxis.ticktext[0] == "The<br>0"


def test_d16_nothing_in_the_json_is_not_a_number():
    rows = [{"a": 0.0, "<s>": -math.inf, "x": math.nan, "y": -9999.0}]
    figure = heatmap(completion(choice(["a"], [0.0], rows)))
    assert "NaN" not in strict(figure) and [row[0] for row in figure.data[0].z] == [1, 0, 0, 0]


def test_a_right_to_left_token_keeps_its_direction_to_itself():
    assert label("שלום") == "\u2068שלום\u2069" and label("a") == "a"


def test_wide_signs_take_two_lines_sooner():
    assert label("日本語") == "日本語" and label("日本語日本語") == "日本語<br>日本語"


def test_d18_the_chat_form_is_drawn_alike():
    top = [(12, " is", b" is", -0.5), (506, "'s", b"'s", -1.45)]
    figure = heatmap(completion(chat([(506, "'s", b"'s", -1.45, top)], "'s", asked=2)))
    assert frames(figure) == [(0, 2)]


def test_d27_a_hundred_tokens_fit_15_kb_and_with_all_to_read_50():
    figure = heatmap(completion(words(100)))
    assert len(strict(figure).encode()) <= 15_000
    assert len(json.dumps(figure._repr_mimebundle_(), indent=1, ensure_ascii=False).encode()) < 50_000


def test_a_long_answer_is_bounded_and_says_so():
    figure = heatmap(completion(words(1500, 2)))
    assert len(figure.data[0].x) == 1000 and "the first 1,000 of 1,500" in figure.layout.xaxis.title.text


def test_an_overview_reaches_what_is_out_of_view():
    assert heatmap(completion(words(30))).layout.xaxis.rangeslider.range == (-0.53, 29.53)
    assert heatmap(completion(words(5))).layout.xaxis.rangeslider.range is None


def test_it_suits_a_light_and_a_dark_page():
    layout = heatmap(RISING).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_the_bundle_is_the_same_each_time_and_reads_without_plotly():
    answer = completion(words(12))
    bundle = heatmap(answer)._repr_mimebundle_()
    assert bundle == heatmap(answer)._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}
    for text in (bundle["text/html"], bundle["text/plain"]):
        assert all(token.shown in text for token in answer.choices[0].tokens) and "▸" in text


def test_ipython_shows_our_bundle_without_importing_plotlys_renderers():
    code = """
import sys
sys.path.insert(0, 'tests')
from made import choice, completion
from oai_nb.plots import heatmap
from shell import Shell
with Shell() as shell:
    shell.user_ns["figure"] = heatmap(completion(choice(["a"])))
    ran = shell.run("figure")
(seen,) = ran.screen
assert sorted(seen.data) == ["application/vnd.plotly.v1+json", "text/html", "text/plain"], sorted(seen.data)
assert "nbformat" not in sys.modules and "plotly.io._renderers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_it_is_a_figure_like_any_other():
    figure = heatmap(RISING)
    assert isinstance(figure, go.Figure) and type(figure).__name__ != "FigureWidget"
    assert figure.update_layout(title_text="mine")._repr_mimebundle_()[plots.MIME]["layout"]["title"]


def test_the_choice_is_found_by_its_index():
    answer = completion(choice(["a"], index=1), choice(["b"], index=0))
    assert heatmap(answer).data[0].text[0][0] == "b" and heatmap(answer, 1).data[0].text[0][0] == "a"
    with pytest.raises(InvalidRequestError, match="choice=2"):
        heatmap(answer, 2)


def test_without_logprobs_it_says_how_to_have_them():
    with pytest.raises(InvalidRequestError, match="ask with logprobs=5") as error:
        heatmap(plain("x"))
    assert error.value.parameter == "logprobs" and "\n" not in str(error.value)
