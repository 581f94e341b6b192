"""Every parameter of ``POST /v1/completions``, declared once.

Validation, the request's JSON, the magic's options, the panel's controls, the visible signatures
and the tables in the docs are all made from `PARAMETERS`. This module knows the API's contract and
nothing of who sends it or who shows it.

    PARAMETERS["temperature"].check(0.8)   # -> 0.8
    PARAMETERS["temperature"].check(3)     # InvalidRequestError: temperature=3 is out of range ...
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oai_nb import checks
from oai_nb.errors import InvalidRequestError

Prompt = str | tuple[str, ...] | tuple[int, ...] | tuple[tuple[int, ...], ...]


class Range(NamedTuple):
    """The smallest and the largest value allowed, both included; None means open."""

    minimum: float | None
    maximum: float | None


OPEN = Range(None, None)

Limits = Mapping[str, Range]
"""What a server allows where it differs from the contract: parameter name to range."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type and bounds, what it is when unset, and its words."""

    name: str
    kind: str  # number, integer, boolean, string, prompt, stop, logit_bias or stream_options
    group: str
    label: str
    help: str
    default: Any = None
    range: Range = OPEN
    step: float | None = None
    type: Any = field(kw_only=True)

    @property
    def option(self) -> str:
        """Give the magic's name: ``--top-p`` for ``top_p``, ``-n`` for ``n``."""
        return f"-{self.name}" if len(self.name) == 1 else "--" + self.name.replace("_", "-")

    @property
    def off(self) -> str | None:
        """Give the magic's name that turns a switch off, ``--no-echo``; None for what is no switch."""
        return "--no-" + self.option.removeprefix("--") if self.kind == "boolean" else None

    def check(self, value: Any, limits: Limits | None = None) -> Any:
        """Return `value` in its plain immutable form, None staying None; or raise InvalidRequestError.

        `limits` replaces the contract's range where it names this parameter.
        """
        if value is None:
            return None
        try:
            return _CHECKS[self.kind](value, (limits or {}).get(self.name, self.range))
        except checks.Refused as refusal:
            message = f"{self.name}={checks.shown(value)} {refusal}"
            raise InvalidRequestError(message, parameter=self.name, value=value) from None


_CHECKS: dict[str, Callable[[Any, Any], Any]] = {
    "number": checks.number,
    "integer": checks.integer,
    "boolean": checks.boolean,
    "string": checks.string,
    "prompt": checks.prompt,
    "stop": checks.stop,
    "logit_bias": checks.logit_bias,
    "stream_options": checks.stream_options,
}

INT64 = Range(-(2**63), 2**63 - 1)

PARAMETERS: Mapping[str, Parameter] = {
    p.name: p
    for p in (
        Parameter(
            "prompt",
            "prompt",
            "prompt",
            "Prompt",
            "The text to continue; or a list of texts, a list of token ids, or a list of such lists.",
            default="<|endoftext|>",
            type=str | list[str] | list[int] | list[list[int]] | None,
        ),
        Parameter(
            "model",
            "string",
            "prompt",
            "Model",
            "The id of the model that answers; unset means the server's first.",
            type=str | None,
        ),
        Parameter(
            "temperature",
            "number",
            "sampling",
            "Temperature",
            "Divides the logits: below 1 sharpens the distribution, above 1 flattens it, 0 always takes"
            " the likeliest token.",
            default=1.0,
            range=Range(0, 2),
            step=0.05,
            type=float | None,
        ),
        Parameter(
            "top_p",
            "number",
            "sampling",
            "Nucleus",
            "Keeps only the likeliest tokens whose probabilities together reach this mass; 1 keeps all.",
            default=1.0,
            range=Range(0, 1),
            step=0.01,
            type=float | None,
        ),
        Parameter(
            "frequency_penalty",
            "number",
            "sampling",
            "Frequency penalty",
            "Lowers a token's logit by this much for each time it was sampled; negative values raise it.",
            default=0.0,
            range=Range(-2, 2),
            step=0.1,
            type=float | None,
        ),
        Parameter(
            "presence_penalty",
            "number",
            "sampling",
            "Presence penalty",
            "Lowers a token's logit by this much once it was sampled at all; negative values raise it.",
            default=0.0,
            range=Range(-2, 2),
            step=0.1,
            type=float | None,
        ),
        Parameter(
            "logit_bias",
            "logit_bias",
            "sampling",
            "Logit bias",
            "Adds to the logits of single tokens: token ids to integers from -100 (never) to 100 (always).",
            range=Range(-100, 100),
            step=1,
            type=Mapping[int, int] | None,
        ),
        Parameter(
            "seed",
            "integer",
            "sampling",
            "Seed",
            "Makes the same request give the same answer, as far as the server can.",
            range=INT64,
            step=1,
            type=int | None,
        ),
        Parameter(
            "max_tokens",
            "integer",
            "length",
            "Length",
            "The most tokens to generate for each choice.",
            default=16,
            range=Range(0, None),
            step=1,
            type=int | None,
        ),
        Parameter(
            "stop",
            "stop",
            "length",
            "Stop",
            "Up to 4 texts that end the answer; they are not part of it.",
            range=Range(1, 4),
            type=str | list[str] | None,
        ),
        Parameter(
            "n",
            "integer",
            "choices",
            "Choices",
            "How many answers to draw for each prompt.",
            default=1,
            range=Range(1, 128),
            step=1,
            type=int | None,
        ),
        Parameter(
            "best_of",
            "integer",
            "choices",
            "Best of",
            "Draws this many candidates and returns the n likeliest per token; it cannot be streamed.",
            default=1,
            range=Range(0, 20),
            step=1,
            type=int | None,
        ),
        Parameter(
            "logprobs",
            "integer",
            "choices",
            "Alternatives",
            "Also returns the log probabilities of this many likeliest tokens at each position, and of the"
            " chosen one.",
            range=Range(0, 5),
            step=1,
            type=int | None,
        ),
        Parameter(
            "echo",
            "boolean",
            "choices",
            "Echo",
            "Returns the prompt in front of the answer; with logprobs, scored too.",
            default=False,
            type=bool | None,
        ),
        Parameter(
            "suffix",
            "string",
            "prompt",
            "Suffix",
            "The text that is to come after the answer, for models that can fill in a middle.",
            type=str | None,
        ),
        Parameter(
            "stream",
            "boolean",
            "transport",
            "Stream",
            "Sends the tokens as they come, as server-sent events.",
            default=False,
            type=bool | None,
        ),
        Parameter(
            "stream_options",
            "stream_options",
            "transport",
            "Stream options",
            "What a stream also carries: include_usage and include_obfuscation, true or false.",
            type=Mapping[str, bool] | None,
        ),
        Parameter(
            "user",
            "string",
            "transport",
            "User",
            "A stable name for the end user, which a host may use against abuse.",
            type=str | None,
        ),
    )
}


ANY: Limits = dict.fromkeys(PARAMETERS, OPEN)
"""No limits at all: for reading back what some server once took."""


def unknown(
    name: str,
    known: Iterable[str] = PARAMETERS,
    otherwise: str = "parameters beyond the API go into extra",
) -> InvalidRequestError:
    """Make the error for a parameter that does not exist, with the nearest name that does, or `otherwise`."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else otherwise
    return InvalidRequestError(f"there is no parameter {name!r}: {hint}", parameter=name)


def check_all(values: Mapping[str, Any], limits: Limits | None = None) -> dict[str, Any]:
    """Return the checked values of a whole request, None included; or raise InvalidRequestError."""
    for name in values:
        if name not in PARAMETERS:
            raise unknown(name)
    checked = {name: PARAMETERS[name].check(value, limits) for name, value in values.items()}
    _check_together(checked)
    return checked


def _check_together(values: Mapping[str, Any]) -> None:
    """Refuse the combinations that the contract refuses."""
    n, best_of = values.get("n") or 1, values.get("best_of")
    if best_of and best_of < n:
        raise InvalidRequestError(
            f"best_of={best_of} is less than n={n}: raise best_of to at least n, or leave it out",
            parameter="best_of",
            value=best_of,
        )
    if best_of and best_of > n and values.get("stream"):
        raise InvalidRequestError(
            f"best_of={best_of} above n={n} cannot be streamed: leave out stream, or best_of",
            parameter="best_of",
            value=best_of,
        )
    if values.get("stream_options") is not None and not values.get("stream"):
        raise InvalidRequestError(
            "stream_options is only allowed with stream=True: add it, or leave stream_options out",
            parameter="stream_options",
            value=values["stream_options"],
        )
