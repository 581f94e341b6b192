"""An answer as static HTML and as text: the token strip, and columns where there are several choices.

Pure but for the terminal's width: a `Completion` in, strings out. The text is coloured where there are
logprobs, and plain while it runs. Everything survives in a saved notebook that nobody trusts, and nothing of
the model's is ever interpreted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from oai_nb import alternatives, console
from oai_nb.alternatives import prob
from oai_nb.completion import Choice, Completion
from oai_nb.errors import InvalidRequestError
from oai_nb.footer import as_html, as_text, ending
from oai_nb.markup import (
    LINE,
    card,
    details,
    escaped,
    grid,
    isolated,
    legend,
    percent,
    pre,
    quiet,
    shade,
    whole,
)
from oai_nb.pieces import Piece, pieces
from oai_nb.servers import prompt_of
from oai_nb.tokens import Token
from oai_nb.visible import EMPTY, NEWLINE, NO_BREAK, SPACE, TAB, cut, one_line, printable

KINDS = ("text", "tokens", "compare")
"""What a bundle can show."""
TITLED = 2_000
"""How many tokens of one bundle tell their alternatives on hover; the rest keeps its colour."""
COLORED = 10_000
"""How many tokens of one bundle are coloured, in about a megabyte; the rest is plain text."""
LISTED = 100
"""How many tokens of one bundle are in the table of alternatives."""
BOXED = 400
"""How many tokens of one bundle are shown one by one."""
NO_TOKENS = "there are no tokens to show: ask with logprobs=5 (--logprobs 5 in a cell)"
STAR = "★ likeliest"
EXCERPT = 40
"""Characters of a prompt above its answers, where there are several prompts."""


def bundle(completion: Completion, show: Iterable[str] = ("text",)) -> dict[str, str]:
    """Return one result as ``text/html`` and ``text/plain``.

    ``text`` is the answer with its footer (columns where there are several choices), ``tokens`` every token
    by itself, ``compare`` the columns from the likeliest down. Raises InvalidRequestError for any other kind.
    """
    kinds = list(dict.fromkeys(show))
    for kind in kinds:
        if kind not in KINDS:
            message = f"show={kind!r} is none of {', '.join(KINDS)}"
            raise InvalidRequestError(message, parameter="show", value=kind)
    html, text = [], []
    for kind in kinds:
        one_html, one_text = _VIEWS[kind](completion)
        html.append(one_html)
        text.append(one_text)
    return {"text/html": whole(*html), "text/plain": "\n\n".join(text)}


def running(texts: Mapping[int, str], status: str, expected: int) -> dict[str, str]:
    """Return an answer under way, in the places that it will have when it ends.

    `texts` holds what has come by the index of its choice, `expected` is the number of choices.
    """
    so_far = dict.fromkeys(range(max(1, expected)), "") | dict(sorted(texts.items()))
    if len(so_far) == 1:
        html, text = pre(escaped(so_far[0])), printable(so_far[0])
    else:
        html = grid(card(f"<b>{index}</b>", "…", pre(escaped(one))) for index, one in so_far.items())
        text = "\n\n".join(f"[{index}]\n{printable(one)}" for index, one in so_far.items())
    return {
        "text/html": whole(html, quiet(escaped(status))),
        "text/plain": f"{text}\n\n{printable(status)}",
    }


# --- the text ---


def _text(completion: Completion) -> tuple[str, str]:
    choices = completion.choices
    if len(choices) > 1:
        html, text = _columns(completion, choices)
    else:
        html = token_strip(choices[0]) if choices else pre(_nothing())
        text = printable(completion.text) or f"({EMPTY} no text)"
    html += (
        _limits(completion)
        + _alternatives(completion)
        + as_html(completion, legend() if _colored(completion) else "")
    )
    return html, f"{text}\n\n{as_text(completion)}"


def token_strip(choice: Choice, titled: int = TITLED, colored: int = COLORED) -> str:
    """Return one choice's text, whole; the first tokens are `colored`, and the first `titled` tell more."""
    if not choice.text and not choice.tokens:
        return pre(_nothing())
    if not choice.tokens:
        return pre(escaped(choice.text))
    spans, count, found = [], 0, pieces(choice)
    for piece in found:
        spans.append(_span(piece, with_title=count < titled))
        count += len(piece.tokens)
        if count >= colored:
            break
    spans.append(escaped("".join(piece.text for piece in found)))
    return pre("".join(spans) or _nothing())


def _limits(completion: Completion) -> str:
    """Say how far colours and titles go, where that is not to the end."""
    sizes = [len(choice.tokens) for choice in completion.choices]
    limits = [(limit // max(1, len(sizes)), what) for limit, what in _LIMITS]
    said = [f"the first {limit:,} {what}" for limit, what in limits if max(sizes, default=0) > limit]
    of = "" if len(sizes) == 1 else " of a choice"
    return quiet(f"Tokens{of}: {', '.join(said)}; tokens_table() of this completion has all") if said else ""


_LIMITS = ((TITLED, "tell more on hover"), (COLORED, "are coloured"))


def _nothing() -> str:
    return f'<span style="opacity:.75">{EMPTY} no text</span>'


def _span(piece: Piece, *, with_title: bool) -> str:
    """Return a piece's text, with its colour and its title where it has one."""
    token, text = piece.token, _inked(piece.text)
    if token is None or token.logprob is None or not text:
        return text
    style = shade(prob(token))
    attributes = f' style="{style}"' if style else ""
    if with_title:
        attributes += f' title="{alternatives.title(piece.tokens, token)}"'
    return f"<span{attributes}>{text}</span>" if attributes else text


_SPACES = re.compile(" {2,}|^ $")


def _inked(text: str) -> str:
    """Return a token's text with signs for what cannot be seen, where that matters.

    The space before a word is seen by the colour behind it; newlines, tabs, several spaces or one alone are
    not.
    """
    marked = _SPACES.sub(lambda match: SPACE * len(match[0]), printable(text))
    marked = marked.replace("\n", NEWLINE + "\n").replace("\t", TAB + "\t").replace("\u00a0", NO_BREAK)
    return escaped(marked)


def _colored(completion: Completion) -> bool:
    return any(token.logprob is not None for choice in completion.choices for token in choice.tokens)


def _alternatives(completion: Completion) -> str:
    """Return what is on hover as tables too, which a keyboard opens."""
    choices = [choice for choice in completion.choices if any(token.top for token in choice.tokens)]
    limit = max(10, LISTED // max(1, len(choices)))
    several = len(completion.choices) > 1
    inner = "".join(
        (quiet(f"<b>{choice.index}</b>") if several else "") + alternatives.html(choice, limit)
        for choice in choices
    )
    return details("what else it nearly said", inner) if inner else ""


# --- several choices ---


def columns(completion: Completion) -> str:
    """Return the choices side by side; the likeliest of one prompt is starred."""
    return _columns(completion, completion.choices)[0]


def _compared(completion: Completion) -> tuple[str, str]:
    """Return the columns from the likeliest down, where that is known."""
    choices = completion.choices
    if likeliest(completion) is not None:
        choices = tuple(sorted(choices, key=_surprise))
    return _columns(completion, choices)


def _surprise(choice: Choice) -> float:
    mean = choice.mean_logprob
    return math.inf if mean is None else -mean


def _columns(completion: Completion, choices: Sequence[Choice]) -> tuple[str, str]:
    best, titled, colored = likeliest(completion), TITLED // len(choices), COLORED // len(choices)
    cards, texts = [], []
    for choice in choices:
        star = STAR if choice.index == best else ""
        asked, measured = _asked(completion, choice), _measured(completion, choice)
        left = " ".join(filter(None, [f"<b>{choice.index}</b>", star, isolated(asked)]))
        cards.append(card(left, escaped(measured), token_strip(choice, titled, colored)))
        head = " · ".join(filter(None, [f"[{choice.index}]", star, asked, measured]))
        texts.append(f"{head}\n{printable(choice.text) or f'({EMPTY} no text)'}")
    return grid(cards), "\n\n".join(texts)


def likeliest(completion: Completion) -> int | None:
    """Return the index of the choice with the highest mean logprob, where they answer one prompt."""
    if completion.request is not None and len(completion.request.prompts) > 1:
        return None
    means = {choice.index: choice.mean_logprob for choice in completion.choices}
    known = {index: mean for index, mean in means.items() if mean is not None}
    return max(known, key=lambda index: known[index]) if len(known) > 1 else None


def _measured(completion: Completion, choice: Choice) -> str:
    mean, perplexity = choice.mean_logprob, choice.perplexity
    said = [] if mean is None else [f"{mean:.2f} per token"]
    said += [] if perplexity is None else [f"perplexity {_short(perplexity)}"]
    return " · ".join(filter(None, [*said, ending(choice, completion)]))


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.2g}"


def _asked(completion: Completion, choice: Choice) -> str:
    """Return the beginning of the prompt that a choice answers, where there are several."""
    request = completion.request
    if request is None or len(request.prompts) < 2:
        return ""
    return cut(one_line(str(prompt_of(request, completion, choice))), EXCERPT)


# --- every token by itself ---


def _tokens(completion: Completion) -> tuple[str, str]:
    limit = max(20, BOXED // max(1, len(completion.choices)))
    html, text = [], []
    if not any(choice.tokens for choice in completion.choices):
        return pre(escaped(NO_TOKENS)), NO_TOKENS
    for choice in completion.choices:
        if len(completion.choices) > 1:
            html.append(quiet(f"<b>{choice.index}</b>"))
            text.append(f"[{choice.index}]")
        html.append(_boxes(choice, limit))
        text += alternatives.lines(choice, max(10, LISTED // len(completion.choices)), console.columns())
    return "".join(html) + f"<div>{legend()}</div>", "\n".join(text)


def _boxes(choice: Choice, limit: int) -> str:
    boxes = " ".join(map(_box, choice.tokens[:limit]))
    style = "display:flex;flex-wrap:wrap;gap:3px;font-size:13px;line-height:1.35"
    rest = len(choice.tokens) - limit
    more = quiet(f"{rest:,} more tokens: <code>tokens_table()</code> of this completion") if rest > 0 else ""
    return f'<div style="{style}">{boxes}</div>{more}'


_FITS = "min-width:0;overflow-wrap:break-word"


def _box(token: Token) -> str:
    known = token.logprob is not None
    chance = percent(prob(token)) if known else "&nbsp;"
    style = shade(prob(token)) if known else ""
    shown = f'<code style="background:none;padding:0">{isolated(token.shown)}</code>'
    frame = f"border:{LINE};border-radius:3px;padding:1px 4px;text-align:center;{_FITS};{style}"
    below = f'<small style="display:block;opacity:.8">{chance}</small>'
    return f'<span style="{frame}" title="{alternatives.title([token], token)}">{shown} {below}</span>'


_VIEWS = {
    "text": _text,
    "tokens": _tokens,
    "compare": _compared,
}
