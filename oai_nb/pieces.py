"""A choice's text cut where its tokens meet: the text is the truth, the tokens are laid along it.

Servers send tokens that do not join to the text: halves of characters, entries for several tokens, offsets
from elsewhere. Here nothing of the text is lost, none of it is invented, and a token that cannot be placed
belongs to the piece in which it must lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oai_nb.completion import Choice
from oai_nb.tokens import Token, place


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text and the tokens in it: mostly one, several where they share a character."""

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
        if found > start and lost and _whole(data, found):
            yield _piece(data[start:found], held)
            start, held = found, []
        held.append(token)
        at, lost = found + len(token.bytes or b""), 0
        if _whole(data, at):
            yield _piece(data[start:at], held)
            start, held = at, []
    if held or start < len(data):
        yield _piece(data[start:], held)


def _whole(data: bytes, at: int) -> bool:
    """Tell whether a character begins at `at`, or the text ends."""
    return at >= len(data) or data[at] & 0xC0 != 0x80


def _piece(data: bytes, tokens: list[Token]) -> Piece:
    return Piece(data.decode("utf-8", "surrogatepass"), tuple(tokens))
