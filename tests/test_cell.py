"""The cell as it was typed: D20 and D21 at IPython's own transformers, and one-line prompts."""

from types import SimpleNamespace

import IPython
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from oai_nb.cell import PromptLine, TypedCell, whole_first_line


def shell_like(*, loaded=True):
    manager = TransformerManager()
    if loaded:
        manager.cleanup_transforms.append(whole_first_line)
        manager.token_transformers.append(PromptLine)
    return manager


def calls(cell, *, loaded=True):
    """Run a cell as IPython would, up to the magics; return the calls that they get."""
    manager, made = shell_like(loaded=loaded), []
    shell = SimpleNamespace(
        run_cell_magic=lambda *call: made.append(call), run_line_magic=lambda *call: made.append(call)
    )
    exec(manager.transform_cell(cell), {"get_ipython": lambda: shell})
    return made


def prompt(typed, *, raw=False):
    """Return the prompt that a cell gives, as it was typed."""
    manager = shell_like()
    cell = TypedCell(manager)
    cell.begin(SimpleNamespace(raw_cell=typed))
    ((_, line, body),) = calls(typed)
    return cell.prompt(line, body, raw=raw)


# --- the body ---


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Hello", "Hello"),
        ("Hello\n", "Hello"),
        ("Hello\n\n\n", "Hello\n\n"),
        ("  two\n\tthree  \n", "  two\n\tthree  "),
        ("\n\nHello", "\n\nHello"),
        ("a\n   \nb", "a\n   \nb"),
        (">>> x = 1\n... y", ">>> x = 1\n... y"),
        ("In [1]: x\nOut[1]: 2", "In [1]: x\nOut[1]: 2"),
        ("a\u2028b\x0cc\x85d", "a\u2028b\x0cc\x85d"),
        ("a\r\nb", "a\r\nb"),
        ("a\r", "a\r"),
        ("a\r\n", "a\r"),
        ("%%complete\nb", "%%complete\nb"),
        ("%complete Why?", "%complete Why?"),
        ("x?", "x?"),
        ("", ""),
        ("\n", ""),
        ("\n\n", "\n"),
        ("   ", "   "),
    ],
)
def test_d21_the_body_is_as_typed_less_one_final_newline(body, expected):
    assert prompt(f"%%complete -n 2\n{body}") == expected


def test_d21_a_cell_of_crlf_lines_ends_in_one():
    assert prompt("%%complete\r\na\r\nb\r\n") == "a\r\nb"
    assert prompt("%%complete\r\na\r\nb\n") == "a\r\nb"
    assert prompt("%%complete\r\na", raw=True) == "a\r\n"


@pytest.mark.parametrize(
    ("body", "expected"), [("Hello", "Hello\n"), ("Hello\n", "Hello\n"), ("Hello\n\n", "Hello\n\n"), ("", "")]
)
def test_raw_keeps_the_newline_that_a_cell_ends_in(body, expected):
    assert prompt(f"%%complete --raw\n{body}", raw=True) == expected


@given(st.text(st.characters(codec="utf-8")))
def test_any_prompt_arrives_byte_for_byte(text):
    assert prompt(f"%%complete\n{text}\n") == text


@given(st.text(st.characters(codec="utf-8")))
def test_ipython_alone_would_change_some_prompts_and_a_direct_call_is_taken_as_it_is(text):
    assert TypedCell(shell_like()).prompt("", text + "\n", raw=False) == text


def test_the_body_is_found_below_another_magic():
    typed = "%%time\n%%complete -n 2\n>>> a\n"
    ((_, _, inner),) = calls(typed)
    ((_, line, body),) = calls(inner)
    cell = TypedCell(shell_like())
    cell.begin(SimpleNamespace(raw_cell=typed))
    assert body == "a\n" and cell.prompt(line, body, raw=False) == ">>> a"


@pytest.mark.parametrize("body", [">>> a\n... b", "a\n   \nb"])
def test_the_body_is_found_where_another_magic_runs_it_as_a_cell_of_its_own(body):
    typed = f"%%capture\n%%complete -n 2\n{body}\n"
    ((_, _, inner),) = calls(typed)
    ((_, line, cleaned),) = calls(inner)
    cell = TypedCell(shell_like())
    cell.begin(SimpleNamespace(raw_cell=typed))
    cell.begin(SimpleNamespace(raw_cell=inner))
    if IPython.version_info >= (8,):  # IPython 7 leaves lines of spaces alone
        assert cleaned != f"{body}\n"
    assert cell.prompt(line, cleaned, raw=False) == body


def test_a_cell_that_has_ended_is_forgotten_with_those_in_it_and_no_other():
    outer, inner, empty = (SimpleNamespace(raw_cell=raw) for raw in ("%%complete\n>>> a", "1", ""))
    cell = TypedCell(shell_like())
    cell.begin(outer)
    cell.end(SimpleNamespace(info=empty))  # an empty cell ends without having begun
    cell.begin(inner)
    cell.end(SimpleNamespace(info=inner))
    assert cell.prompt("", "a\n", raw=False) == ">>> a"
    cell.begin(inner)
    cell.end(SimpleNamespace(info=outer))
    assert cell.prompt("", "a\n", raw=False) == "a"


def test_another_cells_text_is_never_taken():
    cell = TypedCell(shell_like())
    cell.begin(SimpleNamespace(raw_cell="%%complete -n 3\n>>> other"))
    assert cell.prompt("-n 2", "other\n", raw=False) == "other"
    cell.end(None)
    cell.begin(SimpleNamespace(raw_cell="%%complete\n>>> a"))
    cell.end(None)
    assert cell.prompt("", "a\n", raw=False) == "a"


def test_an_indented_cell_keeps_the_indentation_of_its_body():
    assert prompt("  %%complete\n  a\n    b") == "  a\n    b"


@pytest.mark.parametrize("cell", ["%%complete", "%%complete ", "%%complete\n", "%%complete\n\n"])
def test_an_empty_body_reaches_the_magic(cell):
    ((_, _, body),) = calls(cell)
    assert body == "\n" and prompt(cell) == ""


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_what_python_takes_for_the_end_of_a_line_does_not_end_the_first(odd):
    assert calls(f"%%complete --stop 'a{odd}b'\nx") == [("complete", f"--stop 'a{odd}b'", "x\n")]
    assert calls(f"%complete a{odd}b?\n") == [("complete", f"a{odd}b?")]
    assert calls(f"%%complete --stop 'a{odd}b'\nx", loaded=False) != calls(f"%%complete --stop 'a{odd}b'\nx")


# --- the line ---


@pytest.mark.parametrize(
    "text",
    [
        "What is this?",
        "Really??",
        "Is it 5?",
        "don't (you",
        "x  # comment?",
        " two  blanks ",
        '"""quoted',
        "f([{",
        "{x} $y",
        "\\n",
        "trailing \t",
    ],
)
def test_a_prompt_on_one_line_is_as_typed(text):
    assert calls(f"%complete {text}") == [("complete", text)]
    assert calls(f"for i in [1]:\n    %complete {text}\nx = 2") == [("complete", text)]


def test_ipython_alone_would_take_a_question_for_its_own():
    assert calls("%complete What is this?", loaded=False) == [("pinfo", "this")]


@pytest.mark.parametrize(
    ("before", "magic"), [("%time ", "time"), ("%timeit -n1 -r1 ", "timeit"), ("  %prun -q ", "prun")]
)
def test_a_question_behind_another_magic_is_left_to_it(before, magic):
    ((name, line),) = calls(f"{before}%complete -n 2 What is 5 % 3?")
    assert name == magic and line.endswith("%complete -n 2 What is 5 % 3?")
    assert calls(line[line.index("%") :]) == [("complete", "-n 2 What is 5 % 3?")]


@pytest.mark.parametrize(
    "cell",
    [
        *("%complete?", "%%complete?", "%complete??", "%completely a?", "x?", "%time a?", "%time %complete?"),
        *("%time x%complete a?", "%time a %completely b?"),
    ],
)
def test_everything_else_stays_ipythons(cell):
    assert calls(cell) == calls(cell, loaded=False)


def test_several_lines_and_strings_that_look_like_one():
    assert calls("%complete a?\nx = '''\n%complete b?\n'''\n%complete c?") == [
        ("complete", "a?"),
        ("complete", "c?"),
    ]


def test_a_backslash_continues_the_line_as_it_does_for_every_magic():
    assert calls("%complete -n 2 \\\nOnce") == calls("%complete -n 2 \\\nOnce", loaded=False)


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1).filter(
        lambda t: t.strip(" \t?")
    )
)
def test_any_line_that_does_not_end_in_a_backslash_arrives_byte_for_byte(text):
    if not text.rstrip().endswith("\\"):
        assert calls(f"%complete {text}") == [("complete", text)]
