"""A choice's text cut where its tokens meet: the text is the truth, the tokens are laid along it.

Servers send tokens that do not join to the text: halves of characters, entries for several tokens, offsets
from elsewhere. Here nothing of the text is lost, none of it is invented, and a token that cannot be placed
belongs to the piece in which it must lie. What is drawn as one sign is never torn: an emoji joined of several
stays whole, and so does a letter with its accents.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from oai_nb.completion import Choice
from oai_nb.tokens import Token, place


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text and the tokens in it: mostly one, several where they share a sign."""

    text: str
    tokens: tuple[Token, ...] = ()

    @property
    def token(self) -> Token | None:
        """Give the least likely of its tokens, or the first where no logprob is known; None without any."""
        known = [token for token in self.tokens if token.logprob is not None]
        if known:
            return min(known, key=lambda token: token.logprob or 0.0)
        return self.tokens[0] if self.tokens else None


def pieces(choice: Choice) -> Iterator[Piece]:
    """Cut a choice's text; joined, the pieces' texts are the text, and their tokens are the tokens."""
    data = choice.text.encode("utf-8", "surrogatepass")
    start = at = 0
    held: list[Token] = []  # tokens of the piece that begins at `start`
    lost = 0  # how many of them could not be placed
    for token in choice.tokens:
        found = place(data, token.bytes, at, lost)
        if found is None:
            held.append(token)
            lost += 1
            continue
        if found > start and lost and _whole(data, start, found):
            yield _piece(data[start:found], held)
            start, held = found, []
        held.append(token)
        at, lost = found + len(token.bytes or b""), 0
        if _whole(data, start, at):
            yield _piece(data[start:at], held)
            start, held = at, []
    if held or start < len(data):
        yield _piece(data[start:], held)


def _whole(data: bytes, start: int, at: int) -> bool:
    """Tell whether what is drawn as one sign ends at `at`: a letter with its marks, an emoji of several.

    At `start` a sign begins: so the letters of flags are counted from there.
    """
    if at >= len(data) or data[at] < 0x80:
        return True
    return data[at] & 0xC0 != 0x80 and not _belongs(data[start:at], data[at : at + 4])


_JOINERS = ("\u200d".encode(), "\u200c".encode())
_SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_LETTERS_OF_FLAGS = range(0x1F1E6, 0x1F200)
_TAGS_OF_FLAGS = range(0xE0020, 0xE0080)


def _belongs(before: bytes, after: bytes) -> bool:
    """Tell whether the first character of `after` is drawn with the last one `before` it."""
    one = after.decode("utf-8", "ignore")[:1]
    if not before or not one:
        return False
    if before.endswith(_JOINERS) or one in _SKINS or ord(one) in _TAGS_OF_FLAGS:
        return True
    if one in "\u200c\u200d":
        return before[-1] >= 0x80
    if ord(one) in _LETTERS_OF_FLAGS:
        return _half_a_flag(before)
    return unicodedata.category(one) in ("Mn", "Mc", "Me")


def _half_a_flag(data: bytes) -> bool:
    """Tell whether an odd number of a flag's letters stands at the end."""
    ahead = reversed(data.decode("utf-8", "ignore"))
    return sum(1 for _ in takewhile(lambda one: ord(one) in _LETTERS_OF_FLAGS, ahead)) % 2 == 1


def _piece(data: bytes, tokens: list[Token]) -> Piece:
    return Piece(data.decode("utf-8", "surrogatepass"), tuple(tokens))
