"""The quiet line below an answer, and the chips for what is not as asked. The same facts as HTML and as text.

Times stand as ``0.21 s`` and ``24 tokens/s``, so that two runs can be compared with them masked.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from oai_nb.completion import Choice, Completion, Note
from oai_nb.markup import GAP, QUIET, isolated
from oai_nb.parameters import PARAMETERS
from oai_nb.visible import cut, printable

NOT_SHOWN = frozenset(["prompt", "model", "stream", "stream_options", "echo", "return_token_ids"])
"""What was sent and is seen elsewhere, or changes nothing in the answer."""
LONGEST = 48
"""Characters of a value that are shown."""

_COLORS = {"ignored": "210,90,50", "changed": "210,120,30", "emulated": "200,150,30", "info": "128,128,128"}
_HINT = re.compile(r"(--max-tokens \d+)")


def facts(completion: Completion) -> list[str]:
    """Return what there is to say: who answered, why it stopped, how much, how fast, what was sent."""
    found = (_who(completion), _finish(completion), _count(completion), _sent(completion))
    return [printable(" ".join(fact.split())) for fact in found if fact]


def as_html(completion: Completion, legend: str = "") -> str:
    """Return the line and the chips; they stand apart also where all styles are taken away."""
    said = facts(completion)
    shown = [_HINT.sub(r'<code style="white-space:nowrap">\1</code>', isolated(fact)) for fact in said]
    if completion.server is not None:
        server, _, rest = said[0].partition(" ")
        shown[0] = f"<b>{isolated(server)}</b> {isolated(rest)}"
    line = GAP.join([*(f'<span style="{QUIET}">{one}</span>' for one in shown), *filter(None, [legend])])
    chips = "".join(_chip(text, sign) for sign, text in _remarks(completion))
    below = f'<div style="margin-top:4px;font-size:12px">{chips}</div>' if chips else ""
    return f'<div style="margin-top:7px;overflow-wrap:break-word">{line}</div>{below}'


def as_text(completion: Completion) -> str:
    """Return the same, a line each for what is not as asked."""
    remarks = [text for _, text in _remarks(completion)]
    return "\n".join([" · ".join(facts(completion)), *remarks])


# --- the line ---


def _who(completion: Completion) -> str:
    server = completion.server
    if server is None:
        return completion.model
    named = [] if server.kind in ("local", "unknown") else [server.kind]
    address = "local" if server.kind == "local" else server.base_url
    return " · ".join(filter(None, [address, *named, completion.model]))


def _finish(completion: Completion) -> str:
    """Say why the choices ended, and what to do about those that were cut."""
    counts = Counter(choice.finish_reason for choice in completion.choices if choice.finish_reason)
    several = len(completion.choices) > 1
    said = (
        (f"{count} " if several else "") + _reason(reason, completion)
        for reason, count in sorted(counts.items(), key=lambda item: item[0] == "length")
    )
    return ", ".join(said)


def _reason(reason: str, completion: Completion) -> str:
    if reason == "length":
        most = _max_tokens(completion)
        cut = f"cut at max_tokens {most} (length)"
        return f"{cut}: add --max-tokens {2 * most}" if most else cut
    known = {"stop": "ended (stop)", "content_filter": "cut by the server's filter (content_filter)"}
    return known.get(reason, f"ended ({reason})")


def _max_tokens(completion: Completion) -> int:
    sent = _sent_parameters(completion).get("max_tokens")
    return sent if isinstance(sent, int) else PARAMETERS["max_tokens"].default


def _count(completion: Completion) -> str:
    """Say how much came and how fast; the rate is of the whole, the wait for the first token included."""
    tokens, timing = completion.completion_tokens, completion.timing
    total = timing.total if timing is not None else None
    said = [f"{tokens:,} token{'' if tokens == 1 else 's'}"] if tokens else []
    if total is not None:
        said = [" in ".join([*said, _seconds(total)])]
        if tokens and total > 0:
            said.append(f"{_rate(tokens / total)} tokens/s")
    if timing is not None and timing.first_token is not None:
        said.append(f"first after {_seconds(timing.first_token)}")
    return " · ".join(said)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def _rate(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _sent(completion: Completion) -> str:
    """Say what went out, as the API names it."""
    sent = _sent_parameters(completion)
    return " · ".join(f"{name} {_value(value)}" for name, value in sent.items() if name not in NOT_SHOWN)


def _sent_parameters(completion: Completion) -> Mapping[str, Any]:
    if completion.sent is not None:
        return completion.sent
    return completion.request.body() if completion.request is not None else {}


def _value(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return cut(json.dumps(value, ensure_ascii=False, default=str), LONGEST)


# --- what is not as asked ---


def _remarks(completion: Completion) -> Iterator[tuple[str, str]]:
    """Yield the kind and the words, a sign before them, of each."""
    if completion.incomplete is not None:
        yield "ignored", _line(f"⚠ incomplete: {completion.incomplete}")
    for note in completion.fidelity:
        yield note.sign, _line(f"{Note.SIGNS.get(note.sign, note.sign)} {note.text}")


def _line(text: str) -> str:
    return printable(" ".join(text.split()))


def _chip(text: str, kind: str) -> str:
    color = _COLORS.get(kind, _COLORS["info"])
    style = f"display:inline-block;border:1px solid rgba({color},.9);border-radius:9px;padding:0 8px"
    return f'<div style="{style};margin:2px 6px 2px 0">{isolated(text)}</div>'


def ending(choice: Choice, completion: Completion) -> str:
    """Return why one choice of several ended, where they ended differently; else nothing."""
    differ = len({one.finish_reason for one in completion.choices}) > 1
    return (choice.finish_reason or "unfinished") if differ else ""
