"""Tab completion of the magic's options and their values; never of its prompt.

`suggest` is pure. `matcher` makes of it what IPython 8.6 and later ask. Nothing here touches the
network: models are suggested only where they are known already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from oai_nb.cell import CELL
from oai_nb.errors import ConfigurationError
from oai_nb.options import BY_FLAG, OPTIONS, Option
from oai_nb.parser import after_blanks, read_word

_REPEATABLE = {"stop", "logit_bias", "var", "extra", "show"}


class Suggestions(NamedTuple):
    """What may stand in place of `fragment`, the text before the cursor; `kind` is option or value."""

    fragment: str
    words: tuple[str, ...] = ()
    kind: str = "option"


def suggest(typed: str, models: Callable[[], Iterable[str]] = tuple) -> Suggestions:
    """Return what may follow `typed`, which stands between the magic's name and the cursor.

    `models` is asked only where a model may stand.
    """
    try:
        fragment, waiting, used = _look(typed)
    except ConfigurationError:  # an open quote: a text of the user's own
        return Suggestions("")
    flag, equals, value = fragment.partition("=")
    if waiting is None and equals and flag in BY_FLAG:
        fragment, waiting = value, BY_FLAG[flag]
    if waiting is not None:
        return _values(waiting, fragment, models)
    if fragment and not fragment.startswith("-"):
        return Suggestions(fragment)
    free = [option for option in OPTIONS if option.name not in used or option.name in _REPEATABLE]
    flags = [option.flags[-1] for option in free] + [option.off for option in free if option.off]
    return Suggestions(fragment, tuple(flag for flag in flags if flag.startswith(fragment)))


def _look(typed: str) -> tuple[str, Option | None, set[str]]:
    """Return the word at the cursor, the option that it is the value of, and the options before it."""
    end, waiting, used = 0, None, set[str]()
    while True:
        start = after_blanks(typed, end)
        word, end = read_word(typed, start)
        if end == len(typed):
            return typed[start:], waiting, used
        flag, equals, _ = word.partition("=")
        if waiting is not None:
            waiting = None
        elif flag not in BY_FLAG:
            raise ConfigurationError("here the prompt begins, or a mistake")
        else:
            option = BY_FLAG[flag]
            used.add(option.name)
            waiting = option if option.value is not None and not equals else None


def _values(option: Option, fragment: str, models: Callable[[], Iterable[str]]) -> Suggestions:
    known = models() if option.name == "model" else option.values
    done: list[str] = []
    if option.name == "show":
        *done, fragment = fragment.split(",")
    words = (word for word in known if word.startswith(fragment) and word not in done)
    return Suggestions(fragment, tuple(words), "value")


def matcher(models: Callable[[], Sequence[str]]) -> Callable[[Any], dict[str, Any]] | None:
    """Return a matcher for IPython's ``Completer.custom_matchers``; `models` gives those known already.

    None before IPython 8.6, whose matchers cannot see the cell.
    """
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:
        return None

    def match(context: Any) -> dict[str, Any]:
        """Complete the options of %%complete and %complete."""
        typed = _typed(context)
        found = Suggestions("") if typed is None else suggest(typed, models)
        completions = [SimpleCompletion(word, type=found.kind) for word in found.words]
        answer = {"completions": completions, "suppress": bool(completions), "ordered": True}
        return answer | ({"matched_fragment": found.fragment} if completions else {})

    made: Callable[[Any], dict[str, Any]] = context_matcher(identifier="oai_nb.complete")(match)
    return made


def _typed(context: Any) -> str | None:
    """Return what stands between the magic's name and the cursor; None where the cursor is elsewhere."""
    lines: list[str] = context.full_text.split("\n")
    before: str = lines[context.cursor_line][: context.cursor_position]
    match = re.match(r"\s*%%?complete\s", before)
    above = next((line for line in lines[: context.cursor_line] if line.strip()), "")
    if match is None or above.lstrip().startswith(CELL) or (above and CELL in match[0]):
        return None
    return before[match.end() :]
