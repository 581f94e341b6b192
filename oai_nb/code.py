"""A request as code that runs: the magic's cell, Python, curl. Never with a key.

Pure: JSON in, text out. Each form makes exactly the same request when it is run.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from oai_nb.errors import InvalidRequestError
from oai_nb.parameters import PARAMETERS

DEFAULT_BASE_URL = "https://api.openai.com/v1"


def python(body: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    """Return the oai_nb call."""
    arguments = {name: value for name, value in body.items() if name not in extra and name != "prompt"}
    parts = [repr(body.get("prompt"))] + [f"{name}={value!r}" for name, value in arguments.items()]
    if extra:
        parts.append(f"extra={dict(extra)!r}")
    return f"import oai_nb\n\ncompletion = oai_nb.complete({_wrapped(parts)})\n"


def _wrapped(parts: list[str]) -> str:
    line = ", ".join(parts)
    return line if len(line) < 80 else "\n    " + ",\n    ".join(parts) + ",\n"


def curl(body: Mapping[str, Any], base_url: str) -> str:
    """Return the shell command; the shell puts the key in from OPENAI_API_KEY."""
    data = json.dumps(dict(body), ensure_ascii=False, indent=2)
    return (
        f"curl {shlex.quote(base_url.rstrip('/') + '/completions')} \\\n"
        '  -H "Content-Type: application/json" \\\n'
        '  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n'
        f"  --data-raw {shlex.quote(data)}\n"
    )


def magic(body: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    """Return the ``%%complete`` cell. Raises InvalidRequestError for a prompt that is not one text."""
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise InvalidRequestError("a cell holds one text as its prompt: use to_python()", parameter="prompt")
    options = [word for name, value in body.items() if name not in extra for word in _option(name, value)]
    for name, value in extra.items():
        options += ["--extra", f"{name}={json.dumps(value, ensure_ascii=False)}"]
    head = " ".join(["%%complete", *map(quoted, options)])
    return f"{head}\n{prompt}\n"


def _option(name: str, value: Any) -> list[str]:
    parameter = PARAMETERS[name]
    if name == "prompt":
        return []
    if parameter.off is not None:
        return [parameter.option if value else parameter.off]
    if name == "stop":
        return [word for text in value for word in (parameter.option, escaped(text))]
    if isinstance(value, Mapping):
        return [parameter.option, json.dumps(dict(value))]
    return [parameter.option, escaped(value) if isinstance(value, str) else str(value)]


def quoted(word: str) -> str:
    """Quote one word of a magic's line as a shell would."""
    return shlex.quote(word)


_ESCAPES = {
    "\\": "\\",
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
}
_TO_ESCAPE = {ord(character): f"\\{letter}" for letter, character in _ESCAPES.items()}


def escaped(text: str) -> str:
    r"""Write newlines and their kin as ``\n``, so that a text fits on the magic's line."""
    return text.translate(_TO_ESCAPE)


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def unescaped(text: str) -> str:
    r"""Undo `escaped`; also takes ``\xNN`` and ``\uNNNN``, and leaves any other backslash alone."""

    def one(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        return chr(int(digits, 16)) if digits else _ESCAPES.get(match[3], match[0])

    return _ESCAPE.sub(one, text)
