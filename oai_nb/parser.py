"""The line of a magic: text in, `Options` out.

Words are quoted as in a shell. What follows the options is handed back as it is and never looked
into, since it may be a prompt. Pure; it knows neither IPython nor a server's limits.
"""

from __future__ import annotations

import json
import keyword
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from oai_nb.code import unescaped
from oai_nb.errors import ConfigurationError
from oai_nb.live import VIEWS
from oai_nb.options import BY_FLAG, Option, did_you_mean
from oai_nb.parameters import PARAMETERS


@dataclass(frozen=True)
class Options:
    """What one line asks for.

    `parameters` are converted, and checked only when a request is made of them. `rest` is the raw text
    after the options and the one blank that ends them.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    var: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    file: str | None = None
    server: str | None = None
    out: str | None = None
    raw: bool = False
    rest: str = ""


def parse(line: str) -> Options:
    """Return the options at the start of `line`. Raises ConfigurationError, which names the option."""
    asked, end = Options(), 0
    while _OPTION_STARTS.match(line, start := after_blanks(line, end)):
        word, end = read_word(line, start)
        if word == "--":
            break
        flag, equals, value = word.partition("=")
        option = BY_FLAG.get(flag) or _no_option(flag)
        if option.value is None and equals:
            raise ConfigurationError(f"{flag} takes no value: leave out {equals}{value}")
        if option.value is not None and not equals:
            value, end = _value(line, end, f"{flag} needs a value: {flag} {option.value}")
        asked = _TAKE.get(option.name, _take_parameter)(asked, option, flag, value)
    return replace(asked, rest=line[end + 1 :] if end else line)


def _no_option(flag: str) -> NoReturn:
    hint = did_you_mean(flag, BY_FLAG) or "write -- before a prompt that begins with a dash"
    if flag in ("-h", "--help"):
        hint = "%%complete? shows the help"
    raise ConfigurationError(f"there is no option {flag}: {hint}")


_OPTION_STARTS = re.compile(r"--?[A-Za-z]|--(?=\s|$)")
_BLANKS = re.compile(r"\s*")
_PIECE = re.compile(
    r"""'(?P<single>[^']*)' | "(?P<double>(?:\\.|[^"\\])*)" | \\(?P<escape>.) | (?P<plain>[^\s'"\\]+)""",
    re.VERBOSE | re.DOTALL,
)


def after_blanks(line: str, position: int) -> int:
    """Return where the next word begins, or the line ends."""
    match = _BLANKS.match(line, position)
    return match.end() if match else position


def _value(line: str, end: int, missing: str) -> tuple[str, int]:
    start = after_blanks(line, end)
    if start == len(line):
        raise ConfigurationError(missing)
    return read_word(line, start)


def read_word(line: str, start: int) -> tuple[str, int]:
    r"""Return the word at `start`, its quotes undone as in a shell, and where it ends.

    One kindness beyond a shell's: an unquoted backslash before a letter stays, so that ``--stop \n`` is a
    newline and ``C:\data`` a path. Raises ConfigurationError for a quote that is never closed.
    """
    parts, end = [], start
    while match := _PIECE.match(line, end):
        parts.append(_unquoted(match))
        end = match.end()
    if end < len(line) and not line[end].isspace():
        raise ConfigurationError(f"this is opened and never closed: {line[end:][:40]}")
    return "".join(parts), end


def _unquoted(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r'\\(["\\])', r"\1", match["double"])
    if match["escape"] is not None:
        return match[0] if match["escape"].isalnum() else match["escape"]
    return match["plain"] if match["single"] is None else match["single"]


# --- one function for each kind of option: what was asked so far, in; with one option more, out ---


def _take_parameter(asked: Options, option: Option, flag: str, text: str) -> Options:
    """Convert by the parameter's kind; what cannot be converted stays text, for its check to refuse."""
    name, before = option.name, asked.parameters.get(option.name)
    kind = PARAMETERS[name].kind
    value: Any
    if kind == "boolean":
        value = flag != option.off
    elif kind == "stop":
        value = (*(before or ()), unescaped(text))
    elif kind == "logit_bias":
        value = _logit_bias(text, before or {})
    else:
        value = {"string": unescaped, "stream_options": _json}.get(kind, _number)(text)
    return replace(asked, parameters={**asked.parameters, name: value})


def _number(text: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError(f"this JSON is nested too deeply: {text[:40]}…") from None


def _logit_bias(text: str, before: Mapping[str, Any]) -> Any:
    """Take ``42=-100`` or ``{"42": -100}``; repeated ones add up."""
    key, equals, bias = text.partition("=")
    value = {key: _number(bias)} if equals else _json(text)
    return {**before, **value} if isinstance(value, dict) else value


def _take_text(asked: Options, option: Option, _: str, text: str) -> Options:
    return replace(asked, file=text) if option.name == "file" else replace(asked, server=text)


def _take_raw(asked: Options, *_: Any) -> Options:
    return replace(asked, raw=True)


def _take_name(asked: Options, option: Option, flag: str, name: str) -> Options:
    if not name.isidentifier() or keyword.iskeyword(variable(name)):
        raise ConfigurationError(f"{flag} {name!r} is not a name that a variable can have")
    if option.name == "var":
        return replace(asked, var=(*asked.var, name))
    if _IPYTHONS.fullmatch(variable(name)):
        raise ConfigurationError(f"{flag} {name} is a name of IPython's own: choose another")
    return replace(asked, out=variable(name))


_IPYTHONS = re.compile(r"In|Out|exit|quit|open|get_ipython|_+|_i+|_i?\d+|_[dio]h|_exit_code|__\w+__")


def variable(name: str) -> str:
    """Return a name as Python keeps it: ``µ``, the micro sign, is the variable ``μ``, the Greek letter."""
    return unicodedata.normalize("NFKC", name)


def _take_extra(asked: Options, _: Option, flag: str, text: str) -> Options:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigurationError(f"{flag} {text!r} is no NAME=VALUE, such as {flag} top_k=40")
    return replace(asked, extra={**asked.extra, name: _json(value)})


def _take_views(asked: Options, _: Option, flag: str, text: str) -> Options:
    views = [view.strip() for view in text.split(",") if view.strip()]
    for view in views:
        if view not in VIEWS:
            hint = did_you_mean(view, VIEWS) or f"there are {', '.join(VIEWS)}"
            raise ConfigurationError(f"{flag} has no view {view!r}: {hint}")
    return replace(asked, show=tuple(dict.fromkeys((*asked.show, *views))))


_TAKE: Mapping[str, Callable[[Options, Option, str, str], Options]] = {
    "file": _take_text,
    "server": _take_text,
    "raw": _take_raw,
    "out": _take_name,
    "var": _take_name,
    "extra": _take_extra,
    "show": _take_views,
}
