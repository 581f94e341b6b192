"""``%%complete`` and ``%complete``: a line and a cell in, an answer on the screen.

A thin face: `parser` reads the line, `cell` finds the body, `live` shows the run. What talks to servers
or draws is imported only when a cell runs, so that loading the extension costs next to nothing; by `imports`,
so that the stop button breaks no import.
"""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from oai_nb import completer, imports, live
from oai_nb.cell import PromptLine, TypedCell, whole_first_line
from oai_nb.config import OaiNb
from oai_nb.errors import ConfigurationError, Interrupted
from oai_nb.options import did_you_mean, help_text
from oai_nb.parser import Options, parse, variable

if TYPE_CHECKING:
    from oai_nb.client import Client
    from oai_nb.completion import Completion, Note
    from oai_nb.request import Request

LAST = "_completion"
"""The variable that always holds the last Completion."""
ALTERNATIVES = 5
"""How many logprobs are asked for where a view needs some and none were asked for."""


@magics_class
class CompleteMagics(Magics):
    """The magics of one shell."""

    shell: Any

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.typed = TypedCell(shell)
        self.settings = OaiNb(parent=shell)
        self.undo = ExitStack()

    @no_var_expand
    @line_cell_magic
    def complete(self, line: str, cell: str | None = None) -> None:  # noqa: D102 - made of the options
        try:
            self._complete(parse(line), line, cell)
        except Interrupted:
            raise
        except KeyboardInterrupt:
            raise Interrupted("nothing was sent yet") from None

    complete.__doc__ = help_text()

    def _complete(self, options: Options, line: str, cell: str | None) -> None:
        prompt = prompt_of(options, self._body(options, line, cell), self.shell.user_ns)
        client = client_of(options.server)
        request, notes = request_of(client, options, self.settings.defaults(), prompt)
        self._run(client, request, notes, options)

    def _body(self, options: Options, line: str, cell: str | None) -> str:
        """Return what stands below the line, or after its options. Raises ConfigurationError."""
        if cell is not None and options.rest.strip():
            raise ConfigurationError(
                f"{options.rest.strip()!r} is no option: the prompt begins on the next line"
            )
        if cell is None and not options.rest.strip() and options.file is None:
            raise ConfigurationError("there is no prompt: write it behind the options, or name a --file")
        return options.rest if cell is None else self.typed.prompt(line, cell, raw=options.raw)

    def _run(self, client: Client, request: Request, notes: tuple[Note, ...], options: Options) -> None:
        """Send the request, show its answer as it comes, and keep it."""
        name = options.out or LAST

        def keep(completion: Completion) -> Completion:
            self.shell.user_ns.update({LAST: completion, name: completion})
            return completion

        screen = live.screen_of(self.shell, request.n or 1)
        with client.start(request, notes) as stream:
            live.show_run(stream, screen, keep, name, options.show)


def client_of(server: str | None) -> Client:
    """Return the client of a server, or the default one."""
    imports.load("oai_nb.client")  # which settings imports when it makes the first one
    settings = imports.load("oai_nb.settings")
    client: Client = settings.default_client() if server is None else settings.client_of(server)
    return client


def known_models() -> list[str]:
    """Return the models of the default client that are known already; nothing is asked."""
    settings = sys.modules.get("oai_nb.settings")
    return [] if settings is None else settings.known_models()


def request_of(
    client: Client, options: Options, defaults: Mapping[str, Any], prompt: str
) -> tuple[Request, tuple[Note, ...]]:
    """Return the request, and what has to be said of it because nobody asked for it in so many words."""
    note = imports.load("oai_nb.completion").Note
    asked = {**defaults, **options.parameters}
    notes = []
    views = [view for view in options.show if live.VIEWS[view].needs_logprobs]
    if views and asked.get("logprobs") is None:
        asked["logprobs"] = ALTERNATIVES
        why = f"logprobs={ALTERNATIVES} was asked for, because --show {views[0]} needs some"
        notes.append(note("info", why, "logprobs"))
    if not prompt:
        notes.append(note("info", "the prompt is empty", "prompt"))
    return client.stream_request(prompt, **asked, extra=options.extra), tuple(notes)


def prompt_of(options: Options, body: str, namespace: Mapping[str, Any]) -> str:
    """Return the prompt: the body or the file, with the variables filled in that were asked for.

    Raises ConfigurationError for two prompts or none, and for a file or variable that is not there.
    """
    if options.file is not None:
        if body.strip():
            raise ConfigurationError("--file gives the prompt, and so does the cell: leave one of them out")
        body = read_prompt(options.file)
    return filled(body, options.var, namespace) if options.var else body


def read_prompt(path: str) -> str:
    """Return the text of a regular file, byte for byte. Raises ConfigurationError."""
    if not path:
        raise ConfigurationError("--file '' names no file")
    name = path if path.isprintable() else repr(path)
    try:
        return _bytes(Path(path).expanduser()).decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"--file {name}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--file {name} is not UTF-8: byte {error.start} is wrong") from None
    except RuntimeError as error:  # there is no such user
        raise ConfigurationError(f"--file {name}: {error}") from None
    except ValueError:  # each Python says that in other words
        raise ConfigurationError(f"--file {name}: a name has no NUL in it") from None


def _bytes(path: Path) -> bytes:
    """Return what a file holds. Raises OSError, also for a device or a pipe, which may never end."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError("not a regular file")
    return path.read_bytes()


def filled(prompt: str, names: Iterable[str], namespace: Mapping[str, Any]) -> str:
    """Return the prompt with each ``{NAME}`` replaced by its variable's text; no other brace is touched.

    What a variable holds is not looked into again. Raises ConfigurationError for a name that is no variable,
    has no text or is not in the prompt.
    """
    values = {}
    for name in names:
        if variable(name) not in namespace:
            hint = did_you_mean(name, (known for known in namespace if not known.startswith("_")))
            raise ConfigurationError(f"--var {name}: there is no variable {name}. {hint}".rstrip(". "))
        if f"{{{name}}}" not in prompt:
            raise ConfigurationError(f"--var {name}: there is no {{{name}}} in the prompt")
        values[f"{{{name}}}"] = _text(name, namespace[variable(name)])
    return re.sub("|".join(map(re.escape, values)), lambda match: values[match[0]], prompt)


def _text(name: str, value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # whatever the user's own object raises
        message = f"--var {name}: str({name}) raises {type(error).__name__}"
        raise ConfigurationError(message) from None


# --- into a shell, and out again ---


def load(shell: Any) -> None:
    """Add everything to a shell; twice is once."""
    unload(shell)
    magics = CompleteMagics(shell)
    shell.register_magics(magics)
    for kind in ("line", "cell"):
        magics.undo.callback(shell.magics_manager.magics[kind].pop, "complete")
    shell.configurables.append(magics.settings)
    magics.undo.callback(magics.settings.reset)
    for configurable in (magics, magics.settings):
        magics.undo.callback(shell.configurables.remove, configurable)
    for event, look in (("pre_run_cell", magics.typed.begin), ("post_run_cell", magics.typed.end)):
        shell.events.register(event, look)
        magics.undo.callback(shell.events.unregister, event, look)
    places: list[tuple[list[Any], Any]] = [
        (shell.input_transformers_cleanup, whole_first_line),
        (shell.input_transformer_manager.token_transformers, PromptLine),
    ]
    matcher = completer.matcher(known_models)
    if matcher is not None:
        places.append((shell.Completer.custom_matchers, matcher))
    for place, part in places:
        place.append(part)
        magics.undo.callback(place.remove, part)


def unload(shell: Any) -> None:
    """Take out what `load` has put in, and put the settings back."""
    magics = shell.magics_manager.registry.pop(CompleteMagics.__name__, None)
    if magics is not None:
        magics.undo.close()
