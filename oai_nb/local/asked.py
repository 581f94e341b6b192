"""What a request's body asks of the embedded model, checked: a dict from JSON in, an `Asked` out.

The types and ranges of the API's parameters are `oai_nb.parameters`'; added here is what depends on the
model: its name, its vocabulary, its context. Whatever is wrong is an `ApiError`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oai_nb.errors import InvalidRequestError
from oai_nb.local.tokenizer import Tokenizer
from oai_nb.parameters import PARAMETERS, check_all, unknown
from oai_nb.sampling import Sampling

TELL_IDS = "return_token_ids"
"""The one field beyond the API, under vLLM's name: each choice tells its `token_ids`."""


class ApiError(Exception):
    """An error of the API: an HTTP `status`, a JSON `body` and `headers`."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True)
class Prompt:
    """A prompt as text and as tokens. An empty one has no ids: the model then reads `<|endoftext|>`."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """A request, every default filled in. `candidates` are drawn for each prompt, and `n` returned."""

    prompts: tuple[Prompt, ...]
    sampling: Sampling
    seed: int
    max_tokens: int
    stops: tuple[str, ...]
    n: int
    candidates: int
    logprobs: int | None
    echo: bool
    stream: bool
    include_usage: bool
    include_obfuscation: bool
    token_ids: bool

    @property
    def ranked(self) -> bool:
        """Tell whether the candidates compete, so that their logprobs are needed."""
        return self.candidates > self.n

    @property
    def scores_prompts(self) -> bool:
        """Tell whether the prompts' own logprobs are asked for."""
        return self.echo and self.logprobs is not None


def read(body: Any, tokenizer: Tokenizer, context: int, model: str) -> Asked:
    """Check a request's body against the API and against the model. Raises ApiError."""
    if not isinstance(body, Mapping):
        raise ApiError(400, "the body must be a JSON object")
    _check_names(body)
    try:
        checked = check_all({name: value for name, value in body.items() if name in PARAMETERS})
        token_ids = _flag(body.get(TELL_IDS))
    except InvalidRequestError as error:
        raise ApiError(400, str(error), param=error.parameter) from None
    given = {name: parameter.default for name, parameter in PARAMETERS.items()}
    given |= {name: value for name, value in checked.items() if value is not None}
    _check_model(given, model)
    asked = _asked(given, tokenizer, token_ids)
    _check_context(asked, context)
    return asked


def _check_names(body: Mapping[str, Any]) -> None:
    known = [*PARAMETERS, TELL_IDS]
    for name in body:
        if name not in known:
            error = unknown(name, known, "this server knows the API's parameters only")
            raise ApiError(400, str(error), param=name)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool | None):
        raise InvalidRequestError(f"{TELL_IDS}={value!r} is neither true nor false", parameter=TELL_IDS)
    return bool(value)


def _check_model(given: Mapping[str, Any], model: str) -> None:
    if given["model"] not in (None, model):
        message = f"the model {given['model']!r} does not exist: this server has {model!r}"
        raise ApiError(404, message, param="model", code="model_not_found")
    if given["suffix"]:
        raise ApiError(400, "suffix is not supported by this server yet: leave it out", param="suffix")


def _asked(given: Mapping[str, Any], tokenizer: Tokenizer, token_ids: bool) -> Asked:
    n, stop, options = given["n"], given["stop"], given["stream_options"] or {}
    sampling = Sampling(
        temperature=given["temperature"],
        top_p=given["top_p"],
        frequency_penalty=given["frequency_penalty"],
        presence_penalty=given["presence_penalty"],
        logit_bias=_logit_bias(given["logit_bias"] or {}, tokenizer),
    )
    return Asked(
        prompts=tuple(_prompts(given["prompt"], tokenizer)),
        sampling=sampling,
        seed=secrets.randbits(63) if given["seed"] is None else given["seed"],
        max_tokens=given["max_tokens"],
        stops=stop or (),
        n=n,
        candidates=max(n, given["best_of"]),
        logprobs=given["logprobs"],
        echo=given["echo"],
        stream=given["stream"],
        include_usage=options.get("include_usage", False),
        include_obfuscation=options.get("include_obfuscation", True),
        token_ids=token_ids,
    )


def _logit_bias(given: Mapping[str, int], tokenizer: Tokenizer) -> dict[int, float]:
    return {_token(int(key), "logit_bias", tokenizer): float(value) for key, value in given.items()}


def _prompts(given: Any, tokenizer: Tokenizer) -> Iterator[Prompt]:
    """Yield the prompts of any of the four forms."""
    single = isinstance(given, str) or isinstance(given[0], int)
    for one in (given,) if single else given:
        if isinstance(one, str):
            yield Prompt(one, tuple(tokenizer.encode(one)))
        else:
            ids = tuple(_token(token, "prompt", tokenizer) for token in one)
            yield Prompt(tokenizer.decode(ids).decode("utf-8", "replace"), ids)


def _token(token: int, parameter: str, tokenizer: Tokenizer) -> int:
    if token >= tokenizer.size:
        message = f"{parameter} has the token id {token}: this model's run from 0 to {tokenizer.size - 1}"
        raise ApiError(400, message, param=parameter)
    return token


def _check_context(asked: Asked, context: int) -> None:
    for prompt in asked.prompts:
        length = max(1, len(prompt.ids))
        if length + asked.max_tokens > context:
            raise ApiError(
                400,
                f"the model's context is {context} tokens, and {length + asked.max_tokens} are asked for:"
                f" {length} in the prompt and max_tokens={asked.max_tokens}; shorten one of them",
                code="context_length_exceeded",
            )
