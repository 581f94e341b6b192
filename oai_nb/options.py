"""The options of ``%%complete``, as data: their spellings, values and words, and the help made of them.

Most are made from `oai_nb.parameters`, the rest is declared here. The parser, the help and Tab
completion all read `OPTIONS`. Knows nothing of servers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from oai_nb import checks
from oai_nb.live import VIEWS
from oai_nb.parameters import INT64, PARAMETERS, Parameter


@dataclass(frozen=True)
class Option:
    """One option: its spellings, the word for its value (None for a switch), and its own words.

    `values` are all there are, where they can be listed. `off` is the spelling that turns a switch off.
    """

    flags: tuple[str, ...]
    name: str
    value: str | None
    group: str
    help: str
    values: tuple[str, ...] = ()
    off: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Give every flag, the one that turns it off included."""
        return (*self.flags, self.off) if self.off else self.flags


_SHORT = {"temperature": ("-t",), "model": ("-m",)}
_VALUE = {
    "number": "NUMBER",
    "integer": "INTEGER",
    "boolean": None,
    "string": "TEXT",
    "stop": "TEXT",
    "logit_bias": "ID=BIAS",
    "stream_options": "JSON",
}


def _from_parameter(parameter: Parameter) -> Option:
    return Option(
        flags=(*_SHORT.get(parameter.name, ()), parameter.option),
        name=parameter.name,
        value=_VALUE[parameter.kind],
        group=parameter.group,
        help=" ".join([parameter.help, *_facts(parameter)]),
        off=parameter.off,
    )


def _facts(parameter: Parameter) -> list[str]:
    """Return a parameter's range and default, and how it may be given more than once."""
    if parameter.name == "stream":
        return ["The cell streams anyway; --no-stream asks for the answer in one piece."]
    facts = []
    if parameter.range == INT64:
        facts.append("any 64-bit integer")
    elif parameter.kind in ("number", "integer"):
        facts.append(checks.allowed(parameter.range))
    if parameter.kind in ("stop", "logit_bias"):
        facts.append("may be repeated")
    if parameter.default is not None and parameter.kind != "boolean":
        facts.append(f"default {parameter.default:g}")
    return [f"({'; '.join(facts)})"] if facts else []


OPTIONS: tuple[Option, ...] = (
    *(_from_parameter(parameter) for parameter in PARAMETERS.values() if parameter.kind != "prompt"),
    Option(("--file",), "file", "PATH", "prompt", "Takes the prompt from a UTF-8 file, byte for byte."),
    Option(
        ("--var",),
        "var",
        "NAME",
        "prompt",
        "Replaces {NAME} in the prompt by the variable NAME; no other brace is touched. (may be repeated)",
    ),
    Option(
        ("--raw",), "raw", None, "prompt", "Keeps the cell's final newline, which is otherwise taken off."
    ),
    Option(
        ("--extra",),
        "extra",
        "NAME=VALUE",
        "transport",
        "Sends a parameter beyond the API, such as top_k=40; the value is JSON, else text. (may be repeated)",
    ),
    Option(
        ("--server",),
        "server",
        "URL",
        "transport",
        "Asks this server, this once; local is the model that runs inside the kernel.",
        ("local",),
    ),
    Option(
        ("-o", "--out"),
        "out",
        "NAME",
        "display",
        "Keeps the Completion in the variable NAME; the last one is always in _completion.",
    ),
    Option(
        ("--show",),
        "show",
        "VIEWS",
        "display",
        f"Shows more below the text: {', '.join([*VIEWS][1:])}, with commas between them.",
        tuple(VIEWS),
    ),
)

BY_FLAG: Mapping[str, Option] = {flag: option for option in OPTIONS for flag in option.spellings}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the known word that begins so, or else is nearest; or nothing."""
    words = list(known)
    near = [one for one in words if one.startswith(word)] or get_close_matches(word, words, n=1)
    return f"did you mean {near[0]}?" if near else ""


_INTRODUCTION = """\
Continue a prompt and show the text as it comes.

    %%complete [options]
    the prompt, as many lines as you like

    %complete [options] the prompt, to the end of the line

The prompt is sent byte for byte, less the one newline that ends the cell. Options are words as in
a shell: quote what has blanks, write a newline as "\\n". Put -- in front of a one-line prompt that
begins with a dash. %complete begins its line, or stands behind another magic: %time %complete ...
The stop button keeps what came. Defaults of your own: %config OaiNb

Examples
    %%complete --temperature 0.8 -n 3 --logprobs 5 --out story --show heatmap
    Once upon a time

    %complete --max-tokens 1 --temperature 0 --stop "\\n" The capital of France is
"""


def help_text() -> str:
    """Return the whole help: every option in its group, with its words, range and default."""
    groups = dict.fromkeys(option.group for option in OPTIONS)
    return "\n".join([_INTRODUCTION, *map(_group_help, groups)])


def _group_help(group: str) -> str:
    options = [option for option in OPTIONS if option.group == group]
    return "\n".join([group, *map(_option_help, options), ""])


def _option_help(option: Option) -> str:
    indent = " " * 8
    words = textwrap.fill(
        option.help, 96, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    return f"    {', '.join(option.spellings)}{f' {option.value}' if option.value else ''}\n{words}"
