"""`Request`: what is asked, immutable and checked when made.

Its fields are the parameters of `oai_nb.parameters`, None meaning "not set", and `extra` for what a
server knows beyond the API. It knows nothing of servers, keys or displays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field, make_dataclass
from types import MappingProxyType
from typing import Any

from oai_nb import code
from oai_nb.checks import shown
from oai_nb.errors import InvalidRequestError
from oai_nb.parameters import PARAMETERS, Limits, check_all, unknown

_NOT_PROMPT = [p for p in PARAMETERS.values() if p.name != "prompt"]

# `prompt` alone is positional; the rest is named, as in every client of the API.
_Fields = make_dataclass(
    "_Fields",
    [
        ("prompt", PARAMETERS["prompt"].type, field(default=None)),
        *((p.name, p.type, field(default=None, kw_only=True)) for p in _NOT_PROMPT),
    ],
    frozen=True,
    repr=False,
)


@dataclasses.dataclass(frozen=True, repr=False)
class Request(_Fields):  # type: ignore[misc, valid-type]
    """Ask for a completion of `prompt`; every other parameter is named and None means "not set".

    `extra` holds parameters beyond the API, such as ``{"top_k": 40}``. `limits` (parameter name to
    `Range`) widens or narrows the contract's ranges for one server. Raises InvalidRequestError, which
    names the parameter, its value and what is allowed.

        Request("Once upon a time", temperature=0.8, n=3)
    """

    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    limits: Limits | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        for name, value in check_all(self.parameters(), self.limits).items():
            frozen = MappingProxyType(value) if isinstance(value, dict) else value
            object.__setattr__(self, name, frozen)
        extra = _checked_extra(self.extra)
        clash = sorted(set(extra) & set(PARAMETERS))
        if clash:
            message = f"extra may not hold {clash[0]!r}: it is a parameter of the API, set it by name"
            raise InvalidRequestError(message, parameter=clash[0])
        object.__setattr__(self, "extra", MappingProxyType(extra))

    def parameters(self) -> dict[str, Any]:
        """Return every parameter of the API with its value, None where it is not set."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def body(self) -> dict[str, Any]:
        """Return the JSON object of the contract: what is set, in plain lists and dicts, and `extra`."""
        return {name: _plain(value) for name, value in self._set().items()} | dict(self.extra)

    @property
    def prompts(self) -> tuple[Any, ...]:
        """Give the single prompts, each a text or a tuple of token ids (None where none was set)."""
        prompt = self.prompt
        if isinstance(prompt, tuple) and not isinstance(prompt[0], int):
            return prompt
        return (prompt,)

    def prompt_of(self, index: int, came: int | None = None) -> Any:
        """Return the prompt that the choice at `index` answers: choices come prompt by prompt, `n` of each.

        `came` is how many choices a whole answer has, None for a partial one: a server that knows no `n`
        answers each prompt as often as the others, which tells the prompts apart without it.
        """
        prompts = self.prompts
        each = came // len(prompts) if came and came % len(prompts) == 0 else self.n or 1
        return prompts[min(index // each, len(prompts) - 1)]

    def replace(self, **changes: Any) -> Request:
        """Return a copy with some parameters changed."""
        return dataclasses.replace(self, **changes)

    def to_magic(self) -> str:
        """Return the ``%%complete`` cell that makes this request."""
        return code.magic(self.body(), dict(self.extra))

    def to_python(self) -> str:
        """Return the Python that makes this request with oai_nb."""
        return code.python(self.body(), dict(self.extra))

    def to_curl(self, base_url: str = code.DEFAULT_BASE_URL) -> str:
        """Return the shell command that sends this request; the key is read from the environment."""
        return code.curl(self.body(), base_url)

    def _set(self) -> dict[str, Any]:
        return {name: value for name, value in self.parameters().items() if value is not None}

    def __repr__(self) -> str:
        given = self._set() | ({"extra": dict(self.extra)} if self.extra else {})
        prompt = repr(_plain(given.pop("prompt", None)))
        return f"Request({', '.join([prompt, *(f'{k}={_plain(v)!r}' for k, v in given.items())])})"

    def __hash__(self) -> int:
        return _hash(self._set() | {"extra": self.extra})

    def __reduce__(self) -> tuple[Callable[..., Request], tuple[dict[str, Any], Limits | None]]:
        plain = {name: _plain(value) for name, value in self._set().items()}
        return _restore, (plain | {"extra": dict(self.extra)}, self.limits)


def _restore(parameters: dict[str, Any], limits: Limits | None) -> Request:
    return Request(**parameters, limits=limits)


def _checked_extra(extra: Any) -> dict[str, Any]:
    """Return what `extra` holds, nothing where it is None. Raises InvalidRequestError."""
    if extra is None:
        return {}
    if isinstance(extra, Mapping) and all(isinstance(name, str) for name in extra):
        return dict(extra)
    message = f'extra={shown(extra)} is not a mapping from names to values, such as {{"top_k": 40}}'
    raise InvalidRequestError(message, parameter="extra", value=extra)


def _hash(value: Any) -> int:
    """Hash what may hold lists and mappings, so that equal values hash alike, in whichever order they are."""
    if isinstance(value, Mapping):
        return hash(frozenset((name, _hash(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(map(_hash, value)))
    return hash(value) if isinstance(value, Hashable) else 0


def _plain(value: Any) -> Any:
    """Turn tuples into lists and read-only mappings into dicts, as JSON has them."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def as_request(
    prompt_or_request: Any, parameters: Mapping[str, Any], limits: Limits | None = None
) -> Request:
    """Return the request that the arguments of ``complete`` and its kin describe.

    A Request may be refined by further parameters, which are checked against its own limits or else the
    server's `limits`; anything else is a prompt. Raises InvalidRequestError.
    """
    for name in parameters:
        if name not in PARAMETERS and name != "extra":
            raise unknown(name)
    if isinstance(prompt_or_request, Request):
        if not parameters:
            return prompt_or_request
        own = prompt_or_request.limits
        return prompt_or_request.replace(**parameters, limits=limits if own is None else own)
    return Request(prompt_or_request, **parameters, limits=limits)
