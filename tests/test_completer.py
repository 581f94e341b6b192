"""Tab: option names and values, on the magic's line only."""

import re

import pytest
from IPython.core.completer import provisionalcompleter
from shell import needs_tab

from oai_nb import completer
from oai_nb.completer import suggest
from oai_nb.options import OPTIONS, VIEWS


def words(typed, models=()):
    return list(suggest(typed, lambda: models).words)


def test_a_blank_offers_every_option():
    assert set(words("")) == {option.flags[-1] for option in OPTIONS} | {"--no-echo", "--no-stream"}
    assert words("-") == words("")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--te", ["--temperature"]),
        ("-n 2 --te", ["--temperature"]),
        ("--fr", ["--frequency-penalty"]),
        ("--no", ["--no-echo", "--no-stream"]),
        ("--stop '--te' --top", ["--top-p"]),
        ("--zz", []),
    ],
)
def test_the_beginning_of_an_option_offers_the_rest(typed, expected):
    assert words(typed) == expected


def test_an_option_that_was_used_is_not_offered_again_unless_it_may_be_repeated():
    assert words("--temperature 1 --te") == []
    assert words("--stop a --sto") == ["--stop"]


@pytest.mark.parametrize(
    ("typed", "expected", "fragment"),
    [
        ("--show ", list(VIEWS), ""),
        ("--show he", ["heatmap"], "he"),
        ("--show=he", ["heatmap"], "he"),
        ("--show text,t", ["tokens", "table"], "t"),
        ("--show text,tokens,", ["table", "heatmap", "compare"], ""),
        ("--server ", ["local"], ""),
        ("--model sm", ["smol", "smart"], "sm"),
        ("-m sm", ["smol", "smart"], "sm"),
        ("--file ", [], ""),
        ("--temperature ", [], ""),
    ],
)
def test_values_are_offered_where_they_can_be_listed(typed, expected, fragment):
    found = suggest(typed, lambda: ["smol", "smart", "davinci"])
    assert (list(found.words), found.fragment, found.kind) == (expected, fragment, "value")


@pytest.mark.parametrize(
    "typed", ["Once upon --te", "-n 2 Once ", "-n 2 Onc", "--stop 'a", "-- --te", "--what --te"]
)
def test_nothing_is_offered_inside_a_prompt_or_a_quote(typed):
    assert words(typed) == []


# --- in IPython ---


@pytest.fixture
def tab(shell):
    def models():
        press.asked += 1
        return ["smol"]

    shell.ip.Completer.use_jedi = False
    shell.ip.Completer.custom_matchers.append(completer.matcher(models))

    def press(cell):
        """Return what the cell becomes with each completion at the mark |."""
        position, code = cell.index("|"), cell.replace("|", "")
        with provisionalcompleter():
            return [
                code[: c.start] + c.text + code[c.end :]
                for c in shell.ip.Completer.completions(code, position)
            ]

    press.asked = 0
    return press


@needs_tab
@pytest.mark.parametrize("magic", ["%%complete", "%complete"])
def test_tab_completes_options_and_values_in_place(tab, magic):
    assert tab(f"{magic} --tempe|") == [f"{magic} --temperature"]
    assert tab(f"{magic} -n 2 --show text,he|") == [f"{magic} -n 2 --show text,heatmap"]
    assert tab(f"{magic} --model |\nOnce") == [f"{magic} --model smol\nOnce"]
    assert f"{magic} --temperature" in tab(f"{magic} |")


@needs_tab
def test_models_are_asked_for_only_where_one_may_stand(tab):
    for cell in ("%%complete |", "%%complete --te|", "%%complete --show t|", "%%complete\nOnce|", "x|"):
        tab(cell)
    assert tab.asked == 0
    assert tab("%%complete --model=s|") == ["%%complete --model=smol"] and tab.asked == 1


@needs_tab
def test_tab_leaves_the_body_and_other_magics_alone(tab):
    assert not any("--temperature" in one for one in tab("%%complete\n%complete --te|"))
    assert not any("--temperature" in one for one in tab("%%time --te|"))
    assert tab("x = 1\n%complete --te|") == ["x = 1\n%complete --temperature"]
    assert tab("\n  %%complete --te|") == ["\n  %%complete --temperature"]


@needs_tab
def test_files_are_left_to_ipython(tab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.txt").write_text("x")
    assert [re.sub(r".*--file ", "", one) for one in tab("%%complete --file prom|")] == ["prompt.txt"]
