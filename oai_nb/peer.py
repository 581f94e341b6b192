"""One server, as the I/O loop sees it: where it is, what kind it is, which models it has, what is sent to it.

What is not known of it is learnt from the answers that are got anyway. Coroutines run in the I/O loop;
everything else may be called from any thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oai_nb import deck, servers
from oai_nb.completion import Server
from oai_nb.deadline import Deadline
from oai_nb.errors import AuthenticationError, NotRecordedError, ServerError
from oai_nb.http import Http
from oai_nb.request import Request

if TYPE_CHECKING:
    from oai_nb.run import Run


class Peer:
    """A server and what is known of it.

    `running` holds the requests that it is answering, `listed` its models, None before it was asked,
    `notice` what the embedded model says while it is loaded, else nothing.
    """

    def __init__(self, http: Http, model: str | None = None) -> None:
        self.http = http
        self.model = model
        self.kind = servers.at(http.address)
        self.running: set[Run] = set()
        self.listed: list[str] | None = None
        self.notice = ""
        self._deck: deck.Deck | None = None
        self._told = ""
        self._telling = threading.Lock()

    @property
    def server(self) -> Server:
        """Give the kind and the address, as far as they are known."""
        return Server(self.kind.name, self.http.address.base)

    @property
    def completions(self) -> str:
        """Give the URL that answers."""
        return f"{self.http.address.url}/completions"

    def notify(self, line: str) -> None:
        """Keep the notice, from the model's thread; a plain program is told at once.

        A kernel may put what another thread writes below any cell: there it is told by whoever waits.
        """
        self.notice = line
        if not _in_kernel():
            self.tell()

    def tell(self) -> None:
        """Write the notice on stderr, if it was not told yet."""
        with self._telling:
            line, told = self.notice, self._told
            self._told = line
        if line != told:
            from oai_nb.local.weights import say

            say(line)

    def renew(self) -> None:
        """Forget what was learnt before recording or replaying began or ended: a recording stands alone."""
        through = deck.current
        if through is not self._deck:
            self._deck, self.listed = through, None
            known = None if through is None else through.kind(self.http.address)
            self.kind = known or servers.at(self.http.address)

    def meet(self, headers: Mapping[str, str]) -> None:
        """Learn from the headers of an answer."""
        if self.kind is servers.UNKNOWN:
            self.kind = servers.recognised(header=headers.get("server"))

    async def sent(self, request: Request, deadline: Deadline, *, streamed: bool) -> dict[str, Any]:
        """Return the JSON to send: it names the request's model, the client's, or the server's first."""
        self.renew()
        model = request.model or self.model or self.kind.model
        if model is None and not self.http.address.is_local:
            model = await self._first_model(deadline)
        return servers.sent(request, self.kind, streamed=streamed, model=model)

    async def _first_model(self, deadline: Deadline) -> str | None:
        """Return the first of the server's models; None where it has no list of them."""
        if self.listed is None:
            try:
                await self.models(deadline)
            except AuthenticationError:
                raise
            except (ServerError, NotRecordedError):
                self.listed = []
        return self.listed[0] if self.listed else None

    async def models(self, deadline: Deadline) -> list[str]:
        """Return the ids of the server's models, in its order."""
        self.renew()
        answer = await self.http.fetch("GET", f"{self.http.address.url}/models", deadline)
        entries = servers.models(answer)
        if self.kind is servers.UNKNOWN:
            self.kind = servers.recognised(owners=(entry.get("owned_by") for entry in entries))
        self.listed = [entry["id"] for entry in entries if isinstance(entry.get("id"), str)]
        return self.listed

    async def tokenize(self, text: str, deadline: Deadline) -> list[int] | None:
        """Return the token ids of a text; None where the server does not tell."""
        self.renew()
        if self.kind.tokenize is None:
            return None
        body = {self.kind.tokenize: text}
        try:
            answer = await self.http.fetch("POST", f"{self.http.address.root}/tokenize", deadline, body)
        except AuthenticationError:
            raise
        except ServerError:
            return None
        ids = answer.get("tokens") if isinstance(answer, dict) else None
        whole = isinstance(ids, list) and all(type(one) is int for one in ids) and bool(ids or not text)
        return ids if whole else None


def _in_kernel() -> bool:
    """Tell whether this is a notebook's kernel, in which streams show the notice by their status."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and bool(kernel.IPKernelApp.initialized())
