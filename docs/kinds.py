"""Make docs/kinds.md from the rows of `oai_nb.servers`."""

import json
from collections.abc import Iterator

from oai_nb.checks import allowed
from oai_nb.completion import Note
from oai_nb.servers import ALWAYS, KINDS, Kind

HEAD = """\
# What each kind of server does

The contract is the same for all, but servers differ. What is known of each kind before it answers is here;
what it did to your request is said below each answer. This page is made from `oai_nb/servers.py`.

To every server {always} are sent,
also when you did not set them, because servers have defaults of their own. Everything else is sent only if
you set it. What you see below an answer, and in `completion.sent`, is what went out.

The names are those that stand below an answer. A server of no known kind is asked in the same way; what it
ignores is still found where the answer shows it.
"""

NAMED = {"local": "its address, `local`", "openai": "its address"}


def page() -> str:
    """Return the page."""
    always = ", ".join(f"`{name}`" for name in ALWAYS[:-1]) + f" and `{ALWAYS[-1]}`"
    return HEAD.format(always=always) + "".join(map(_section, KINDS.values()))


def _section(kind: Kind) -> str:
    lines = "".join(f"- {line}\n" for line in _lines(kind))
    return f"\n## {kind.name}\n\n{lines}"


def _lines(kind: Kind) -> Iterator[str]:
    yield f"Recognised by: {', or '.join(_signs(kind)) or 'nothing: all that is none of the above'}."
    for name, range_ in kind.limits.items():
        yield f"`{name}` may be {allowed(range_)}."
    for name, value in kind.adds.items():
        yield f"`{name}` is sent as `{json.dumps(value)}`, unless you set it with `extra`."
    if kind.model is not None:
        yield f"Without a model, `{kind.model}` is asked for."
    yield "It gives no ids of tokens." if kind.tokenize is None else "`Client.tokenize` asks its `/tokenize`."
    for note in kind.notes.values():
        yield f"{Note.SIGNS[note.sign]} {note.text}."


def _signs(kind: Kind) -> Iterator[str]:
    if kind.name in NAMED:
        yield NAMED[kind.name]
    if kind.header is not None:
        yield f"a `Server` header that begins with `{kind.header}`"
    if kind.owner is not None:
        yield f"models that are owned by `{kind.owner}`"
