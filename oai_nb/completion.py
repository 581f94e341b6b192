"""`Completion`: an answer, whole or partial, with all that is known of it. Frozen data.

It is captured once (by `oai_nb.fold`) and drawn as often as wanted: the methods that return tables and
figures are looked up when called, so that this module needs neither pandas nor plotly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from oai_nb import imports, measures
from oai_nb.decode import Logprobs
from oai_nb.request import Request
from oai_nb.tokens import Token, echoed, legacy, tokens_of

RECORD = 1
"""The version of our own record, as `Completion.to_json` writes it."""


@dataclass(frozen=True)
class Usage:
    """Counts of tokens, as the server gave them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    completion_tokens_details: Mapping[str, int] | None = None
    prompt_tokens_details: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Server:
    """Who answered: the kind of server (``local``, ``openai``, ... or ``unknown``) and its address."""

    kind: str
    base_url: str


@dataclass(frozen=True)
class Timing:
    """When the request was `started` (Unix seconds), and the seconds to its first token and its end."""

    started: float
    first_token: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class Note:
    """One thing that is not quite as asked. `sign` is one of `Note.SIGNS`; `text` is one line."""

    sign: str
    text: str
    parameter: str | None = None

    SIGNS: ClassVar[Mapping[str, str]] = {"ignored": "✕", "changed": "≠", "emulated": "≈", "info": "·"}


@dataclass(frozen=True)
class Choice:
    """One answer among several. `logprobs` is the API's object; `tokens` is made from it when asked for.

    `asked_echo` is the prompt that `text` was asked to begin with, None where no echo was asked for.
    """

    index: int
    text: str
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: tuple[int, ...] | None = None
    asked_logprobs: int | None = field(default=None, repr=False)
    asked_echo: str | tuple[int, ...] | None = field(default=None, repr=False)

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Give the tokens, none where the server sent no logprobs."""
        if self.logprobs is None:
            return ()
        return tokens_of(self.logprobs, self.token_ids, self.asked_logprobs)

    @cached_property
    def echoed(self) -> int:
        """Give how many of the first tokens are the echoed prompt's."""
        return 0 if self.asked_echo is None else echoed(self.tokens, self.text, self.asked_echo)

    @property
    def generated(self) -> tuple[Token, ...]:
        """Give the tokens beyond the echoed prompt."""
        return self.tokens[self.echoed :]

    @property
    def generated_count(self) -> int:
        """Give how many tokens were generated, as far as ids or logprobs tell; 0 where neither came."""
        if self.token_ids is not None and len(self.token_ids) != len(self.tokens):
            return len(self.token_ids)  # servers give the prompt's ids only beside its logprobs
        return len(self.generated)

    @property
    def mean_logprob(self) -> float | None:
        """Give the mean logprob in nats of a generated token, or of the prompt's where none was generated.

        It is None without logprobs.
        """
        return measures.mean_logprob(self._scored)

    @property
    def perplexity(self) -> float | None:
        """Give exp(-mean logprob), or None without logprobs."""
        return measures.perplexity(self._scored)

    @property
    def _scored(self) -> list[float | None]:
        return [token.logprob for token in self.generated or self.tokens]

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON of one choice, plus `token_ids` where they are known."""
        columns = None if self.logprobs is None else legacy(self.logprobs, self.tokens)
        plain = {
            "index": self.index,
            "text": self.text,
            "logprobs": columns,
            "finish_reason": self.finish_reason,
        }
        return plain if self.token_ids is None else plain | {"token_ids": list(self.token_ids)}


@dataclass(frozen=True)
class Completion:
    """An answer. `incomplete` is None, or the cause in one line why this is only a part of it.

    `request` is what was asked, `sent` the JSON that went out, `server` who answered, `timing` how long it
    took, `fidelity` what the server ignored, changed or had done for it. Those four are None or empty for
    an answer that was read from another program's file.
    """

    choices: tuple[Choice, ...] = ()
    id: str = ""
    model: str = ""
    created: int = 0
    system_fingerprint: str | None = None
    usage: Usage | None = None
    request: Request | None = None
    sent: Mapping[str, Any] | None = field(default=None, repr=False)
    server: Server | None = None
    timing: Timing | None = None
    fidelity: tuple[Note, ...] = ()
    incomplete: str | None = None

    @property
    def text(self) -> str:
        """Give the first choice's text."""
        return self.choices[0].text if self.choices else ""

    @property
    def texts(self) -> list[str]:
        """Give every choice's text."""
        return [choice.text for choice in self.choices]

    @property
    def completion_tokens(self) -> int | None:
        """Give how many tokens were generated: by the server's count, or else by what came; or None."""
        if self.usage is not None and self.usage.completion_tokens:
            return self.usage.completion_tokens
        return sum(choice.generated_count for choice in self.choices) or None

    def tokens_table(self) -> Any:
        """Return a DataFrame with one row per token: see `oai_nb.tables`."""
        return _late("tokens_table", self)

    def top_logprobs_table(self) -> Any:
        """Return a DataFrame with one row per alternative: see `oai_nb.tables`."""
        return _late("top_logprobs_table", self)

    def heatmap(self, choice: int = 0) -> Any:
        """Return a plotly Figure, positions by ranks: see `oai_nb.plots`."""
        return _late("heatmap", self, choice)

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return _late("bundle", self)

    def __repr__(self) -> str:
        more = f", {len(self.choices)} choices" if len(self.choices) != 1 else ""
        mark = f", incomplete: {self.incomplete}" if self.incomplete else ""
        return f"Completion({self.text[:60]!r}{'…' if len(self.text) > 60 else ''}{more}{mark})"

    def to_dict(self) -> dict[str, Any]:
        """Return the contract's JSON object."""
        answer: dict[str, Any] = {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice.to_dict() for choice in self.choices],
        }
        if self.system_fingerprint is not None:
            answer["system_fingerprint"] = self.system_fingerprint
        if self.usage is not None:
            answer["usage"] = {name: value for name, value in asdict(self.usage).items() if value is not None}
        return answer

    def to_json(self) -> str:
        """Return our whole record: the answer, and what was asked, sent, measured and noted."""
        answer = self.to_dict() | {"choices": [_recorded(choice) for choice in self.choices]}
        record = circumstances(self) | {"answer": answer}
        return json.dumps(record, ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str | bytes) -> Completion:
        """Return the completion in our record or in any server's answer. Raises BrokenStreamError."""
        completion: Completion = _late("from_json", text)
        return completion


def circumstances(completion: Completion) -> dict[str, Any]:
    """Return our record without the answer: what was asked, sent, measured and noted."""
    request, server, timing = completion.request, completion.server, completion.timing
    return {
        "oai_nb": RECORD,
        "request": None if request is None else request.body(),
        "extra": None if request is None else sorted(request.extra),
        "sent": None if completion.sent is None else dict(completion.sent),
        "server": None if server is None else asdict(server),
        "timing": None if timing is None else asdict(timing),
        "fidelity": [asdict(note) for note in completion.fidelity],
        "incomplete": completion.incomplete,
    }


def _recorded(choice: Choice) -> dict[str, Any]:
    """Return a choice's JSON with the logprobs as they came; they are read back exactly the same."""
    plain = choice.to_dict()
    if choice.logprobs is not None:
        is_chat = choice.logprobs.content is not None
        names = ("content",) if is_chat else tuple(plain["logprobs"])
        plain["logprobs"] = {name: _in_words(getattr(choice.logprobs, name)) for name in names}
    return plain


def _in_words(value: Any) -> Any:
    """Write the numbers that JSON has none for as texts, such as ``"-Infinity"``, which decoders take."""
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, Mapping):
        return {name: _in_words(item) for name, item in value.items()}
    return [_in_words(item) for item in value] if isinstance(value, list | tuple) else value


# The one written exception to the order of the layers: looked up when called, never at import.
_LATE = {
    "tokens_table": "oai_nb.tables",
    "top_logprobs_table": "oai_nb.tables",
    "heatmap": "oai_nb.plots",
    "bundle": "oai_nb.strip",
    "from_json": "oai_nb.fold",
}


def _late(name: str, *arguments: Any) -> Any:
    return getattr(imports.load(_LATE[name]), name)(*arguments)
