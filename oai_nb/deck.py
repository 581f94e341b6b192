"""What may stand between us and every server while answers are recorded or replayed; `oai_nb.tape` puts it.

Knows neither HTTP nor what files hold. While there is nothing, a request pays one look at `current` for it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import httpx

    from oai_nb.address import Address
    from oai_nb.deadline import Deadline
    from oai_nb.http import Http
    from oai_nb.servers import Kind


@dataclass(frozen=True)
class Asked:
    """One request as it goes out, and who sends it; `content` is the bytes of its JSON.

    `server`, `ask` and `body` are what a file holds of it: no key is in them.
    """

    http: Http
    method: str
    url: str
    content: bytes | None
    deadline: Deadline

    @property
    def server(self) -> str:
        """Give the address of the server."""
        return self.http.mask.covered(self.http.address.base)

    @property
    def ask(self) -> str:
        """Give the method, and the path below the server."""
        return f"{self.method} {self.http.mask.covered(self.url.removeprefix(self.http.address.root))}"

    @property
    def body(self) -> Any:
        """Give the JSON. Raises ValueError where a key looks like JSON, which is garbled without it."""
        return None if self.content is None else json.loads(self.http.mask.covered(self.content.decode()))


Send = Callable[[], "AbstractAsyncContextManager[httpx.Response]"]
"""What asks the server itself."""


class Deck(ABC):
    """Pass every request through, or answer it: a recording or a replay of the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    @abstractmethod
    def through(self, asked: Asked, send: Send) -> AbstractAsyncContextManager[httpx.Response]:
        """Answer a request."""

    @abstractmethod
    def kind(self, address: Address) -> Kind | None:
        """Return the kind of server at an address; None where it is to be learnt as always."""

    def close(self) -> None:
        """End it; twice is once."""
        global current
        if current is self:
            current = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        ended = "" if current is self else ", ended"
        several = f"{self.count} exchange{'' if self.count == 1 else 's'}"
        return f"<{type(self).__name__} {self.path.name}: {several}{ended}>"


current: Deck | None = None
"""What stands there now, for every client of this process."""
