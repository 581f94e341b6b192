"""Token texts in a form that shows what they are made of: spaces, newlines, controls, half characters.

Pure. Two different tokens never look the same; nothing here is HTML.
"""

from __future__ import annotations

import re

SPACE, NEWLINE, TAB, RETURN, NO_BREAK, EMPTY = "␣", "⏎", "⇥", "␍", "⍽", "∅"

_NAMED = {" ": SPACE, "\n": NEWLINE, "\t": TAB, "\r": RETURN, "\u00a0": NO_BREAK, "\x7f": "␡"}
_OURS = frozenset([*_NAMED.values(), EMPTY, "⟨", "⟩"])


def visible(text: str, data: bytes | None = None) -> str:
    r"""Return the visible form of one token: ``" the\n"`` becomes ``␣the⏎``, half a character ``\xf0\x9f``.

    `data` is the token's bytes where they are known; they are shown where they are no whole text.
    """
    half = half_character(text) or _undecodable(data)
    if half is not None:
        return "".join(f"\\x{byte:02x}" for byte in half)
    return "".join(map(_shown, text)) or EMPTY


def _shown(character: str) -> str:
    named = _NAMED.get(character)
    if named is not None:
        return named
    if character.isascii():
        return character if character.isprintable() else chr(0x2400 + ord(character))
    odd = not character.isprintable() or character in _OURS
    return f"⟨U+{ord(character):04X}⟩" if odd else character


_LEGACY = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)")


def half_character(text: str) -> bytes | None:
    r"""Return the bytes of the API's form ``bytes:\xf0\x9f``, or None for any other text."""
    match = _LEGACY.fullmatch(text)
    return bytes.fromhex(match[1].replace("\\x", "")) if match else None


def _undecodable(data: bytes | None) -> bytes | None:
    if data is None:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return data
    return None
