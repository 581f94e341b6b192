"""The growing output of a running stream in one cell, and what is left of it in the end.

The thread that runs the cell waits in slices and draws what has changed; nothing is ever drawn from
another thread. It knows IPython's displays and nothing of HTTP, options or how a picture is made.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oai_nb.errors import ConfigurationError, Interrupted, OaiNbError
from oai_nb.imports import load
from oai_nb.visible import printable

if TYPE_CHECKING:
    from oai_nb.completion import Completion

TICK = 0.1
"""Seconds between two drawings: ten a second look smooth, more only cost."""
STATUS_TICK = 1.0
"""Seconds after which the status alone is worth a drawing: seconds go by also where nothing comes."""
BYTES_PER_SECOND = 1_000_000
"""What drawings may send at most, since each sends the whole text so far."""
MODE = "OAI_NB_DISPLAY"


class Stream(Protocol):
    """What is shown: `oai_nb.completion_stream.CompletionStream`, or anything like it."""

    @property
    def texts(self) -> Mapping[int, str]: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def completion(self) -> Completion: ...  # noqa: D102
    @property
    def error(self) -> OaiNbError | None: ...  # noqa: D102
    def wait(self, timeout: float | None = None) -> bool: ...  # noqa: D102
    def close(self, cause: str = ...) -> None: ...  # noqa: D102


class Screen(Protocol):
    """Where it is shown. `grow` returns how many bytes it has sent, `end` replaces it all by the answer."""

    def grow(self, texts: Mapping[int, str], status: str) -> int: ...  # noqa: D102
    def end(self, completion: Completion) -> None: ...  # noqa: D102


def show_run(
    stream: Stream,
    screen: Screen,
    keep: Callable[[Completion], Completion],
    name: str,
    views: Iterable[str] = (),
) -> Completion:
    """Show a stream until it ends, and the `views` of its completion below; return the completion.

    `keep` is given the completion, whole or partial, keeps it in the variable `name` and returns the one to
    be shown; that comes before the last drawing, so that nothing is lost. Raises the stream's error, or
    Interrupted for the stop button, which shows no views. Pressing it again only repeats what was to be done.
    A fault of our own in making the completion is raised when the texts alone are kept and shown.
    """
    stopped = False
    while True:
        try:
            if stopped:
                stream.close("interrupted")
            else:
                _follow(stream, screen)
            answer, fault = _answer(stream)
            completion = keep(answer)
            screen.end(completion)
            break
        except KeyboardInterrupt:
            stopped = True
    try:
        for view in () if stopped or fault else views:
            show_view(view, completion)
    except KeyboardInterrupt:
        stopped = True
    if fault is not None:
        raise fault
    error = Interrupted(_kept(completion, name)) if stopped else stream.error
    if error is None:
        return completion
    error.completion = completion
    raise error from None


def _answer(stream: Stream) -> tuple[Completion, Exception | None]:
    """Return the completion; or its texts alone, and the fault of our own that kept us from making it."""
    try:
        return stream.completion, None
    except Exception as fault:
        made = load("oai_nb.completion")
        choices = tuple(made.Choice(index, text) for index, text in sorted(stream.texts.items()))
        why = f"only its text could be read, because of a {type(fault).__name__} in oai_nb"
        return made.Completion(choices=choices, incomplete=why), fault


def _follow(stream: Stream, screen: Screen) -> None:
    """Draw what is new, about ten times a second, until the stream ends."""
    drawn, interval, idle = None, 0.0, 0.0
    while not stream.wait(interval):
        now = (stream.texts, stream.state)
        if now != drawn or idle >= STATUS_TICK:
            size = screen.grow(stream.texts, stream.status)
            drawn, interval, idle = now, max(TICK, size / BYTES_PER_SECOND), 0.0
        idle += interval


def _kept(completion: Completion, name: str) -> str:
    tokens = completion.completion_tokens
    count = tokens or sum(map(len, completion.texts))
    what = "tokens" if tokens else "characters"
    return f"{count:,} {what} kept in {name}" if count else "nothing had come yet"


# --- screens ---


def screen_of(shell: Any, expected: int) -> Screen:
    """Return the screen that suits the front end; `expected` is the number of choices.

    `OAI_NB_DISPLAY` chooses: ``static`` draws once at the end, ``live`` as the text comes. Unset, it is
    live, except where only the first drawing counts (nbval) or every drawing is kept (``%%capture``).
    Raises ConfigurationError for any other value.
    """
    if not _is_live(shell):
        return StaticCell()
    return Terminal(expected) if _prints(shell) else LiveCell(expected)


def _is_live(shell: Any) -> bool:
    mode = os.environ.get(MODE) or ("static" if _only_once(shell) else "live")
    if mode not in ("static", "live"):
        raise ConfigurationError(f"{MODE}={mode!r} is neither static nor live")
    return mode == "live"


def _only_once(shell: Any) -> bool:
    return "PYTEST_VERSION" in os.environ or hasattr(shell.display_pub, "outputs")


def _prints(shell: Any) -> bool:
    """Tell whether displays are printed one below the other, as in a terminal."""
    from IPython.core.displaypub import DisplayPublisher

    return type(shell.display_pub).publish is DisplayPublisher.publish


class StaticCell:
    """One display of the whole answer."""

    def grow(self, texts: Mapping[int, str], status: str) -> int:  # noqa: ARG002
        """Show nothing yet."""
        return 0

    def end(self, completion: Completion) -> None:
        """Show the answer."""
        show(load("oai_nb.strip").bundle(completion))


class LiveCell:
    """One display that grows and is replaced by the answer; `expected` is the number of choices."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._handle: Any = None

    def grow(self, texts: Mapping[int, str], status: str) -> int:
        """Show plain text and what is going on."""
        bundle: Mapping[str, Any] = load("oai_nb.strip").running(texts, status, self._expected)
        self._draw(bundle)
        return sum(map(len, bundle.values()))

    def end(self, completion: Completion) -> None:
        """Show the answer in its place."""
        self._draw(load("oai_nb.strip").bundle(completion))

    def _draw(self, bundle: Mapping[str, Any]) -> None:
        if self._handle is None:
            self._handle = show(bundle, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


_UNFINISHED = re.compile("[\ufffd\u200c\u200d\U0001f3f4\U000e0020-\U000e007f]+\\Z")
"""Half a character, and what joins two to one: how it is to be shown depends on what follows."""


class Terminal:
    """Standard output: one choice as it comes, several when they are whole."""

    def __init__(self, expected: int) -> None:
        self._grows = expected == 1
        self._printed = 0

    def grow(self, texts: Mapping[int, str], status: str) -> int:  # noqa: ARG002
        """Print what is new; a last sign of which only a part may be here waits for the rest."""
        return self._print(_UNFINISHED.sub("", texts.get(0, ""))) if self._grows else 0

    def end(self, completion: Completion) -> None:
        """Print the rest, and below it what is to be said of the answer."""
        if self._grows:
            self._print(completion.text)
            self._write(f"\n\n{load('oai_nb.footer').as_text(completion)}\n")
        else:
            self._write(load("oai_nb.strip").bundle(completion)["text/plain"] + "\n")

    def _print(self, text: str) -> int:
        new = printable(text)[self._printed :]
        self._printed += len(new)
        self._write(new)
        return len(new)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


# --- what can be shown below the text ---

MOST_HEATMAPS = 8
"""How many choices get a heatmap of their own."""


def show_view(view: str, completion: Completion) -> None:
    """Display one of the views of ``--show``; the text itself is there already."""
    for bundle in VIEWS[view].draw(completion):
        show(bundle)


def _tokens(completion: Completion) -> Iterator[Mapping[str, Any]]:
    yield load("oai_nb.strip").bundle(completion, ("tokens",))


def _columns(completion: Completion) -> Iterator[Mapping[str, Any]]:
    yield load("oai_nb.strip").bundle(completion, ("compare",))


def _table(completion: Completion) -> Iterator[Mapping[str, Any]]:
    yield load("oai_nb.tables").table_bundle(completion)


def _heatmaps(completion: Completion) -> Iterator[Mapping[str, Any]]:
    drawable = [one.index for one in completion.choices if any(t.logprob is not None for t in one.tokens)]
    for index in drawable[:MOST_HEATMAPS]:
        yield load("oai_nb.plots").heatmap(completion, index)._repr_mimebundle_()
    if not drawable:
        yield _line("no heatmap: there are no logprobs in this answer")
    elif len(drawable) > MOST_HEATMAPS:
        yield _line(f"{len(drawable) - MOST_HEATMAPS} more: completion.heatmap(choice)")


def _line(text: str) -> Mapping[str, Any]:
    return {"text/plain": text}


class View(NamedTuple):
    """What draws one view of ``--show``, and whether that takes logprobs."""

    draw: Callable[[Completion], Iterable[Mapping[str, Any]]]
    needs_logprobs: bool = False


VIEWS: Mapping[str, View] = {
    "text": View(lambda _: ()),
    "tokens": View(_tokens, needs_logprobs=True),
    "table": View(_table, needs_logprobs=True),
    "heatmap": View(_heatmaps, needs_logprobs=True),
    "compare": View(_columns),
}
"""Every view that there is."""


def show(bundle: Mapping[str, Any], **options: Any) -> Any:
    """Display a bundle of MIME types; with ``display_id=True`` return its handle."""
    from IPython.display import display

    return display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]
