"""The bytes of one answer, into a `Fold`: events or one whole body, errors among them, and whether it is all.

Pure: no I/O and no threads. What servers send in place of an answer becomes an error in here, masked.
"""

from __future__ import annotations

import json
import re

from oai_nb import servers, sse
from oai_nb.decode import Chunk, decode, excerpt, server_error
from oai_nb.errors import BrokenStreamError, ServerError
from oai_nb.fold import NO_END, Fold
from oai_nb.keys import Mask
from oai_nb.request import Request

_MOST = 64 * 2**20  # bytes that are kept for as long as no event is found in them
_EVENTS = re.compile(rb"\s*((data|event|id|retry)?:|\Z)")


class Intake:
    """The growing answer to a request.

    `events` is the JSON of each chunk as it came. Not the chunks: keeping 20,000 of those makes decoding
    three times slower, because of the garbage collector.
    """

    def __init__(self, request: Request, mask: Mask) -> None:
        self.fold = Fold(request)
        self.events: list[bytes] = []
        self._mask = mask
        self._expected = servers.expected(request)
        self._decoder = sse.Decoder()
        self._blocks: list[bytes] = []
        self._kept = 0

    @property
    def complete(self) -> bool:
        """Tell whether the server said that it is finished: ``[DONE]``, or a reason for every choice."""
        return self.fold.done or (self.fold.finished and len(self.fold.texts) >= self._expected)

    def feed(self, block: bytes) -> None:
        """Take the next bytes of a stream. Raises ServerError for an error among them, BrokenStreamError."""
        self._add(self._decoder.feed(block))
        if self.events:
            self._blocks = []
        else:
            self._keep(block)

    def _keep(self, block: bytes) -> None:
        """Keep what may be a whole answer that is called a stream."""
        self._blocks.append(block)
        self._kept += len(block)
        if self._kept > _MOST:
            begins = excerpt(self._masked(b"".join(self._blocks)))
            raise BrokenStreamError(f"the server sent {_MOST // 2**20} MB and no event: {begins}")

    def end(self) -> None:
        """Take the end of a stream. Raises BrokenStreamError where the answer is not whole."""
        self._add(self._decoder.close())
        body = b"".join(self._blocks)
        if not self.events and not self.fold.done and not _EVENTS.match(body):
            self.whole(body)
        if not self.complete:
            raise BrokenStreamError(NO_END)

    def whole(self, body: bytes) -> None:
        """Take an answer that came in one piece. Raises as `feed` does, and where it holds no choices."""
        if not body.strip():
            raise BrokenStreamError("the server sent an empty answer")
        self._add([body])
        if not self.fold.texts:
            raise BrokenStreamError(f"the server sent no choices: {excerpt(self._masked(body))}")
        self.fold.done = True

    def _add(self, events: list[bytes]) -> None:
        add, keep = self.fold.add, self.events.append
        for data in filter(None, events):
            if data.startswith(sse.DONE):
                self.fold.done = True
                return
            chunk = self._decoded(data)
            error = self._error(chunk, data) if chunk.error or not chunk.choices else None
            if error is None or chunk.choices:
                add(chunk)
                keep(data)
            if error is not None:
                raise error

    def _decoded(self, data: bytes) -> Chunk:
        try:
            return decode(data)
        except BrokenStreamError:
            return decode(self._masked(data))  # the same error, without a key in its excerpt

    def _masked(self, data: bytes) -> bytes:
        return self._mask(data.decode("utf-8", "replace")).encode()

    def _error(self, chunk: Chunk, data: bytes) -> ServerError | None:
        """Return the error that an event is, or holds beside its choices."""
        body = {"error": chunk.error} if chunk.error else None
        if body is None and chunk.usage is None:
            value = json.loads(data.decode("utf-8", "replace"))
            body = value if isinstance(value, dict) and value.get("object") == "error" else None
        return None if body is None else server_error(self._mask.json(body))
