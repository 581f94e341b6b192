"""Keys, and how none of them gets into a message: what looks like one, and the mask over known ones."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn
from urllib.parse import quote

MASKED = "[key]"


def _begins(word: str) -> str:
    """Return the pattern of how a word begins, of any case, in JSON behind an escape too.

    It looks back only where it has found the word, which is five times as fast.
    """
    behind = (rf"(?<=\\[bfnrt].{{{len(word)}}})", rf"(?<=\\u[0-9a-fA-F]{{4}}.{{{len(word)}}})")
    return rf"(?i:{word})(?:(?<!\w.{{{len(word)}}})|{'|'.join(behind)})"


# Long enough that no host's name is taken for one: keys have 30 characters and more.
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|xai|nvapi)-[\w-]{20,}|\b(?:hf|gsk|r8)_\w{16,}|^[\w-]{32,}$", re.ASCII
)
_ALWAYS = re.compile(rf"({_begins('Bearer')}\s+)[^\s\"',}}]+|{_begins('sk-')}[\w-]{{12,}}", re.ASCII)
# Where a digit is looked for has an end, or a long text of "sk-sk-sk-" would take for ever.
_IN_ANSWERS = (
    rf"{_begins('Bearer')}\s+(?P<key>(?=[^\s\"]{{,64}}\d)[\w.~+/=-]{{20,}})"
    rf"|{_begins('sk-')}(?=[\w-]{{,64}}\d)[\w-]{{16,}}"
)
_BOUNDED_BELOW = 8  # a shorter key is only masked as a word of its own, else it would garble every message
_MAY_BE_A_WORD = re.compile(r".{,7}|[A-Z]?[a-z_]{,20}", re.DOTALL)
_ESCAPED = re.compile(rb"\\(u00[2-7][0-9a-fA-F]|/)")  # what needs no escape in JSON, and has one
_LEAST = 3  # characters of what is a secret at all: a local server's key "x" is none
_HARMLESS = re.compile(
    r"accept.*|content-type|user-agent|referer|http-referer|x-title|openai-(organization|project|beta)"
    r"|.*(request|correlation)-id|traceparent"
)


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
        return cls(text.strip()) if isinstance(text, str) else None


def sealed(
    base_url: str | None, api_key: str | None, headers: Mapping[str, str] | None
) -> tuple[Key | None, Key | None, dict[str, str], str]:
    """Return them with values that show nothing, headers by names in lower case; and what is wrong with them.

    It is for the caller to raise that, when its own frame shows no key any more.
    """
    fault = ""
    for name, text in (("base_url", base_url), ("api_key", api_key)):
        if not isinstance(text, str | None):
            fault = f"{name} is to be a text, not {type(text).__name__}"
    if not isinstance(headers, Mapping | None):
        fault = f"headers is to be a dict of names and texts, not {type(headers).__name__}"
    pairs = tuple(headers.items()) if isinstance(headers, Mapping) else ()
    for one in (one for pair in pairs for one in pair if not isinstance(one, str)):
        fault = f"headers is to be a dict of names and texts: there is {type(one).__name__} in it"
    kept: dict[str, str] = {name.lower(): Key(text) for name, text in pairs if isinstance(name, str)}
    return Key.of(base_url), Key.of(api_key), kept, fault


def secrets(headers: Mapping[str, str]) -> list[str]:
    """Return what may be a key in headers: whole values, and their longer parts, such as X of ``Basic X``."""
    values = [value for name, value in headers.items() if not _HARMLESS.fullmatch(name)]
    parts = [part for value in values for part in (*re.split(r"\s", value), *re.split(r"[\s;,:=\"']", value))]
    parts += [word.partition("=")[2] for value in values for word in re.split(r"[\s;,]", value)]
    return values + [part for part in parts if len(part) >= _BOUNDED_BELOW]


class Mask:
    """Take keys out of texts: the given ones, the environment's, and whatever stands behind ``Bearer``."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        given = (*secrets, os.environ.get("OPENAI_API_KEY"))
        known = {secret for secret in given if secret and len(secret) >= _LEAST}
        forms = {form for secret in known for form in (secret, quote(secret, safe=""))}
        patterns = [_pattern(form) for form in sorted(forms, key=len, reverse=True)]
        found = re.compile("|".join([re.escape(MASKED), *patterns]))  # what is masked already stays as it is

        def cover(text: str) -> str:
            return found.sub(MASKED, text)

        sure = [form for form in sorted(forms, key=len, reverse=True) if not _MAY_BE_A_WORD.fullmatch(form)]
        written = [text.encode("utf-8", "replace") for form in sure for text in _spellings(form)]

        def found_in(data: bytes) -> bool:
            return any(one in data for one in written)

        @cache
        def in_answers() -> re.Pattern[str]:
            return re.compile("|".join([*map(_in_json, sure), _IN_ANSWERS]), re.ASCII)

        self._cover, self._found_in = cover, found_in  # not the pattern, whose repr shows the keys
        self._in_answers = in_answers

    def holds(self, data: bytes) -> bool:
        """Tell whether a known key stands in a text or in JSON; a word is none, as in `spans`.

        It takes a millisecond for megabytes.
        """
        return self._found_in(_ESCAPED.sub(_unescaped, data) if _ESCAPED.search(data) else data)

    def __call__(self, text: str) -> str:
        """Return the text with every key replaced."""
        return _ALWAYS.sub(lambda match: (match[1] or "") + MASKED, self._cover(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return from where to where keys stand in a prompt, an answer, or the JSON of one.

        They are not to be garbled: a known key that may be a word, which has fewer than 8 characters or up to
        20 small letters, is no key in here; nor is what follows ``Bearer``, unless it has a key's form.
        """
        return [match.span(match.lastgroup or 0) for match in self._in_answers().finditer(text)]

    def covered(self, text: str) -> str:
        """Return a prompt, an answer, or the JSON of one, with the keys in it replaced: see `spans`."""
        return self.covered_parts([text])[0]

    def covered_parts(self, parts: Sequence[str]) -> list[str]:
        """Return the parts of one such text, each key replaced in the part where it begins."""
        covered, start, spans = [], 0, deque(self.spans("".join(parts)))
        for part in parts:
            at, end, kept = 0, start + len(part), []
            while spans and spans[0][0] < end:
                first, last = spans[0]
                kept += [part[at : max(first - start, 0)], MASKED if first >= start else ""]
                at = min(last, end) - start
                if last > end:  # it goes on in the next part
                    break
                spans.popleft()
            covered.append("".join(kept) + part[at:])
            start = end
        return covered

    def __reduce__(self) -> NoReturn:
        raise TypeError("what holds a key is not pickled or copied: make it anew where it is needed")

    def json(self, value: Any) -> Any:
        """Return decoded JSON with every text in it masked."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self(name): self.json(item) for name, item in value.items()}
        return [self.json(item) for item in value] if isinstance(value, list) else value


def _spellings(form: str) -> set[str]:
    """Return a key as it stands in a text, and in JSON of either kind."""
    return {form, json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1]}


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"/" if match[1] == b"/" else bytes.fromhex(match[1][3:].decode())


def _in_json(secret: str) -> str:
    """Return the pattern of a secret of which each character may be escaped as JSON allows it."""
    plain = [re.escape(one) + (rf"|\\{re.escape(one)}" if one in '"\\/' else "") for one in secret]
    return "".join(rf"(?:{one}|\\u(?i:{ord(its):04x}))" for one, its in zip(plain, secret, strict=True))


def _pattern(secret: str) -> str:
    exact = re.escape(secret)
    return exact if len(secret) >= _BOUNDED_BELOW else rf"(?<!\w){exact}(?!\w)"
