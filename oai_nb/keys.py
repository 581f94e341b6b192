"""Keys, and how none of them gets into a message: what looks like one, and the mask over known ones."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MASKED = "[key]"

# Long enough that no host's name is taken for one: keys have 30 characters and more.
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|xai|nvapi)-[\w-]{20,}|\b(?:hf|gsk|r8)_\w{16,}|^[\w-]{32,}$", re.ASCII
)
_ALWAYS = re.compile(r"(\bBearer\s+)[^\s\"',}]+|\bsk-[\w-]{12,}", re.IGNORECASE | re.ASCII)
_BOUNDED_BELOW = 8  # a shorter key is only masked as a word of its own, else it would garble every message


def looks_like_a_key(text: str) -> bool:
    """Tell whether a text has the form of a provider's key."""
    return _LOOKS_LIKE_A_KEY.search(text) is not None


class Key(str):
    """A secret text. It is the text wherever it is used, and shows nothing where its repr is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return MASKED

    @classmethod
    def of(cls, text: str | None) -> Key | None:
        """Return what a user gives as a key, or may give by mistake; space around it is no part of it."""
        return None if text is None else cls(text.strip())


def sealed(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers by their names in lower case, with values that show nothing."""
    return {name.lower(): Key(value) for name, value in (headers or {}).items()}


class Mask:
    """Take keys out of texts: the given ones, the environment's, and whatever stands behind ``Bearer``."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        known = {secret for secret in (*secrets, os.environ.get("OPENAI_API_KEY")) if secret}
        forms = {form for secret in known for form in (secret, quote(secret, safe=""))}
        patterns = [_pattern(form) for form in sorted(forms, key=len, reverse=True)]
        self._known = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        """Return the text with every key replaced."""
        if self._known is not None:
            text = self._known.sub(MASKED, text)
        return _ALWAYS.sub(lambda match: (match[1] or "") + MASKED, text)

    def json(self, value: Any) -> Any:
        """Return decoded JSON with every text in it masked."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self(name): self.json(item) for name, item in value.items()}
        return [self.json(item) for item in value] if isinstance(value, list) else value


def _pattern(secret: str) -> str:
    exact = re.escape(secret)
    return exact if len(secret) >= _BOUNDED_BELOW else rf"(?<!\w){exact}(?!\w)"
