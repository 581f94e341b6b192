"""Texts in a form that shows what they are made of: spaces, newlines, controls, half characters.

Pure. Two different tokens never look the same, and no running text acts on a screen; nothing here is HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

SPACE, NEWLINE, TAB, RETURN, NO_BREAK, EMPTY = "␣", "⏎", "⇥", "␍", "⍽", "∅"

_NAMED = {" ": SPACE, "\n": NEWLINE, "\t": TAB, "\r": RETURN, "\u00a0": NO_BREAK, "\x7f": "␡"}
_CONTROLS = map(chr, range(0x2400, 0x2422))  # ␀ to ␡
_OURS = frozenset([*_NAMED.values(), *_CONTROLS, EMPTY, "⟨", "⟩"])
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INKLESS = re.compile(f"[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0{_SELECTORS}]")
"""What leaves no ink although Python calls it printable."""
_LIKE_BYTES = re.compile(r"(\\x[0-9a-f]{2})+")


def visible(text: str, data: bytes | None = None) -> str:
    r"""Return the visible form of one token: ``" the\n"`` becomes ``␣the⏎``, half a character ``\xf0\x9f``.

    `data` is the token's bytes where they are known; they are shown where they are no whole text.
    """
    if (
        data is None
        and text
        and text.isascii()
        and text.isprintable()
        and not text.startswith(("bytes:", "\\x"))
    ):
        return text.replace(" ", SPACE)  # what most tokens are, ten times as fast
    half = half_character(text) or _undecodable(data)
    if half is not None:
        return "".join(f"\\x{byte:02x}" for byte in half)
    shown = "".join(map(_shown, text)) or EMPTY
    return shown.replace("\\", "⟨U+005C⟩") if _LIKE_BYTES.fullmatch(text) else shown


def _shown(character: str) -> str:
    named = _NAMED.get(character)
    if named is not None:
        return named
    if character.isascii():
        return character if character.isprintable() else chr(0x2400 + ord(character))
    odd = not character.isprintable() or character in _OURS or _INKLESS.match(character)
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


def width(text: str) -> int:
    """Return how many columns a text takes in a terminal: two for Chinese signs and emoji, none for marks."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Return a text with the spaces that make it so wide, at its left where it is to stand `right`."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def cut(text: str, columns: int) -> str:
    """Return as much of a text as is so wide, an ellipsis at its end where more follows."""
    if width(text) <= columns:
        return text
    wide, kept = 1, []
    for character in text:
        wide += _columns(character)
        if wide > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def one_line(text: str) -> str:
    """Return running text as one line on which nothing acts, for a message."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return running text in which whatever would act on a screen, or leave no trace, is shown instead.

    Those are controls, ANSI codes, overrides of direction, what has no width, and lone surrogates. Spaces,
    newlines, tabs and all that is drawn stay, and so do joiners and selectors within a word or an emoji,
    which need them, and the tags of a flag.
    """
    if text.isascii() and _CONTROL.search(text) is None:
        return text
    if _SPACING.sub("", text).isprintable() and _INKLESS.search(text) is None:
        return text
    parts = _FLAG.split(text)
    return "".join(part if i % 2 else _acted(part) for i, part in enumerate(parts))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SPACING = re.compile("[\n\t\u00a0]")
_ACTING = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
_JOINERS = "\u200c\u200d"
_FLAG = re.compile("(\U0001f3f4[\U000e0061-\U000e007a]{5}\U000e007f)")
_SELECTOR = re.compile(f"[{_SELECTORS}]")
_FILLERS = "\u3164\uffa0"


def _acted(text: str) -> str:
    return "".join(_shown(one) if _acts(one, before, after) else one for before, one, after in _threes(text))


def _threes(text: str) -> Iterator[tuple[str, str, str]]:
    return zip("\n" + text, text, text[1:] + "\n", strict=False)


def _acts(character: str, before: str, after: str) -> bool:
    if _SELECTOR.match(character):
        return not before.isprintable() or before == " " or _SELECTOR.match(before) is not None
    if unicodedata.category(character) not in _ACTING or character in "\n\t":
        return character in _FILLERS
    within = before.isprintable() and after.isprintable() and not (before.isascii() or after.isascii())
    return not (within and character in _JOINERS)
