"""What each kind of server can do, as data: a new server is a row.

Names are hints and behaviour is proof: `observe` looks at the answer itself and says what in it is not as
asked. Pure: no requests are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from oai_nb.address import OPENAI, Address
from oai_nb.completion import Choice, Completion, Note
from oai_nb.errors import InvalidRequestError
from oai_nb.parameters import PARAMETERS, Limits, Range
from oai_nb.request import Request
from oai_nb.tokens import letters


@dataclass(frozen=True)
class Kind:
    """One kind of server.

    `limits` are its parameters' ranges where they are not the contract's; `adds` is sent unless the user
    says otherwise; `model` is asked for where none was chosen (None: the server's first); `tokenize` is the
    field of its ``/tokenize`` that takes the text (None: it has none); `notes` say what is known of a
    parameter and cannot be seen in the answer. It is recognised by `owner` in its list of models, or by the
    start of its ``Server`` header.
    """

    name: str
    limits: Limits = field(default_factory=dict)
    adds: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    tokenize: str | None = "prompt"
    notes: Mapping[str, Note] = field(default_factory=dict)
    owner: str | None = None
    header: str | None = None


def _ignored(kind: str, *parameters: str) -> dict[str, Note]:
    return {name: Note("ignored", f"{kind} ignores {name}", name) for name in parameters}


def _counts_the_prompt(*parameters: str) -> dict[str, Note]:
    text = "llama.cpp applies {} to the last 64 tokens, the prompt's included"
    return {name: Note("changed", text.format(name), name) for name in parameters}


# From the servers' sources and measurements, September to November 2026.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("local", adds={"return_token_ids": True}, owner="oai_nb"),
        Kind("openai", model="gpt-3.5-turbo-instruct", tokenize=None),
        Kind(
            "vllm",
            limits={"logprobs": Range(0, 20)},
            adds={"return_token_ids": True},
            notes=_ignored("vLLM", "best_of"),
            owner="vllm",
        ),
        Kind(
            "llama.cpp",
            # 2**32 - 1 stands for "any seed" there.
            limits={"logprobs": Range(0, 1000), "seed": Range(0, 2**32 - 2)},
            tokenize="content",
            notes=_ignored("llama.cpp", "best_of", "suffix")
            | _counts_the_prompt("frequency_penalty", "presence_penalty"),
            owner="llamacpp",
            header="llama.cpp",
        ),
        Kind("unknown"),
    )
}

UNKNOWN = KINDS["unknown"]

VARYING = frozenset(name for kind in KINDS.values() for name in kind.limits)
"""The parameters whose range depends on the kind of server."""

ALWAYS = ("prompt", "temperature", "top_p", "max_tokens")
"""What is sent also when it is not set: servers' own defaults are not the contract's."""


def at(address: Address) -> Kind:
    """Return the kind of server that an address alone gives away."""
    if address.is_local:
        return KINDS["local"]
    return KINDS["openai"] if address.base == OPENAI else UNKNOWN


def recognised(*, header: str | None = None, owners: Iterable[Any] = ()) -> Kind:
    """Return the kind of the server with this ``Server`` header or these owners of its models."""
    known = set(map(str, owners))
    for kind in KINDS.values():
        by_header = kind.header is not None and header is not None and header.startswith(kind.header)
        if by_header or kind.owner in known:
            return kind
    return UNKNOWN


def models(answer: Any) -> list[dict[str, Any]]:
    """Return the models in a server's list of them, which is ``{"data": [...]}`` or a bare list."""
    listed = answer.get("data") if isinstance(answer, dict) else answer
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def sent(request: Request, kind: Kind, *, streamed: bool, model: str | None) -> dict[str, Any]:
    """Return the JSON that goes out: what was asked, the contract's defaults, and what the kind adds."""
    body = {name: PARAMETERS[name].default for name in ALWAYS} | request.body()
    for name, value in kind.adds.items():
        body.setdefault(name, value)
    if model is not None:
        body["model"] = model
    if streamed:
        # All servers that were looked at take it or ignore it, and no other way gives a stream's usage.
        body |= {"stream": True, "stream_options": {"include_usage": True} | body.get("stream_options", {})}
    else:
        body.pop("stream", None)
        body.pop("stream_options", None)
    return body


def expected(request: Request) -> int:
    """Return how many choices a whole answer has."""
    return (request.n or 1) * len(request.prompts)


def prompt_of(request: Request, completion: Completion, choice: Choice) -> Any:
    """Return the prompt that a choice answers, a text or a tuple of token ids."""
    came = len(completion.choices) if completion.incomplete is None else None
    return request.prompt_of(choice.index, came)


def observe(request: Request, completion: Completion) -> tuple[Note, ...]:
    """Return what can be seen for sure to be not as asked, in a whole answer or a partial one."""
    checks = (_known, _beyond, _choices, _echo, _logprobs, _alternatives, _stop, _length)
    return tuple(note for check in checks for note in check(request, completion))


def _known(request: Request, completion: Completion) -> Iterator[Note]:
    """Say what this kind of server is known to do with the parameters that were set."""
    kind = KINDS.get(completion.server.kind, UNKNOWN) if completion.server is not None else UNKNOWN
    for name, note in kind.notes.items():
        value = getattr(request, name)
        if value is not None and value != PARAMETERS[name].default:
            yield note


def _beyond(request: Request, _: Completion) -> Iterator[Note]:
    for name, value in request.parameters().items():
        try:
            PARAMETERS[name].check(value)
        except InvalidRequestError as error:
            yield Note("info", f"beyond the API's contract: {error}", name)


def _choices(request: Request, completion: Completion) -> Iterator[Note]:
    wanted, came = expected(request), len(completion.choices)
    if came != wanted and completion.incomplete is None:
        yield Note("ignored", f"{came} of {wanted} choices came", "n")


def _echo(request: Request, completion: Completion) -> Iterator[Note]:
    if not request.echo:
        return
    missing = sum(1 for choice, prompt in _with_prompts(request, completion) if not _echoed(choice, prompt))
    if missing:
        yield Note("ignored", f"the prompt is missing from {_of_choices(missing, completion)}", "echo")


def _with_prompts(request: Request, completion: Completion) -> Iterator[tuple[Choice, str]]:
    """Pair each choice with its prompt, where that is a text, and enough text came to compare them."""
    for choice in completion.choices:
        prompt = prompt_of(request, completion, choice)
        if isinstance(prompt, str) and (choice.finish_reason or len(choice.text) > len(prompt)):
            yield choice, prompt


def _echoed(choice: Choice, prompt: str) -> bool:
    """Tell whether a text begins with its prompt; tokenizers may have changed spaces and forms of letters."""
    return choice.text.startswith(prompt) or letters(choice.text).startswith(letters(prompt))


def _of_choices(count: int, completion: Completion) -> str:
    return "the answer" if len(completion.choices) == 1 else f"{count} of {len(completion.choices)} choices"


def _logprobs(request: Request, completion: Completion) -> Iterator[Note]:
    told = any(note.parameter == "logprobs" for note in completion.fidelity)
    missing = sum(1 for choice in completion.choices if choice.text and choice.logprobs is None)
    if request.logprobs is not None and missing and not told:
        yield Note("ignored", f"there are no logprobs in {_of_choices(missing, completion)}", "logprobs")


def _alternatives(request: Request, completion: Completion) -> Iterator[Note]:
    if not request.logprobs:
        return
    came = (size for choice in completion.choices for size in alternatives_came(choice))
    sizes = [size for size in came if size is not None]
    short = sum(map(request.logprobs.__gt__, sizes))
    if short:
        text = f"fewer than {request.logprobs} alternatives came at {short} of {len(sizes)} positions"
        yield Note("changed", text, "logprobs")


def alternatives_came(choice: Choice) -> list[int | None]:
    """Return how many alternatives came at each position, None where there is no logprob to have any."""
    logprobs = choice.logprobs
    if logprobs is None:
        return []
    columns: Iterable[tuple[Sized | None, float | None]]
    if logprobs.content is not None:
        columns = ((entry.get("top_logprobs"), entry.get("logprob")) for entry in logprobs.content)
    else:
        columns = zip_longest(logprobs.top_logprobs or (), logprobs.token_logprobs or ())
    return [None if logprob is None else len(row or ()) for row, logprob in columns]


def _stop(request: Request, completion: Completion) -> Iterator[Note]:
    for stop in request.stop or ():
        if any(stop in text for text in _generated(request, completion)):
            yield Note("ignored", f"the text goes on after the stop {stop!r}", "stop")


def _generated(request: Request, completion: Completion) -> list[str]:
    """Return the texts without their prompts, as far as it is known where those end."""
    if not request.echo:
        return [choice.text for choice in completion.choices]
    return [
        choice.text[len(prompt) :]
        for choice, prompt in _with_prompts(request, completion)
        if choice.text.startswith(prompt)
    ]


def _length(request: Request, completion: Completion) -> Iterator[Note]:
    """Compare the count of tokens with what was asked, where the count is of one choice and no candidates."""
    most = PARAMETERS["max_tokens"].default if request.max_tokens is None else request.max_tokens
    came = completion.usage.completion_tokens if completion.usage is not None else 0
    if expected(request) == 1 and not request.best_of and not request.echo and came > most:
        yield Note("changed", f"{came} tokens came, which is more than max_tokens={most}", "max_tokens")
