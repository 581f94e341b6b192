"""One server over HTTP: the client that lives in the I/O loop, and its errors in our words.

The only module that knows httpx, beside `oai_nb.local`. It knows nothing of completions. The key is put
into the request in here and comes out nowhere: messages are masked, and no error keeps the httpx error
(which holds the request and its headers) as its cause.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar, cast

import httpx

from oai_nb import deck
from oai_nb.address import Address
from oai_nb.deadline import Deadline
from oai_nb.decode import server_error
from oai_nb.errors import (
    AuthenticationError,
    BrokenStreamError,
    ConfigurationError,
    ConnectError,
    NotFoundError,
    OaiNbError,
    ServerError,
)
from oai_nb.keys import Mask
from oai_nb.told import told

T = TypeVar("T")

FOREIGN: Mapping[type[Exception], tuple[type[OaiNbError], str]] = {
    httpx.ConnectError: (ConnectError, "could not connect to {server}: {reason}"),
    httpx.ConnectTimeout: (ConnectError, "could not connect to {server} in time"),
    httpx.PoolTimeout: (ConnectError, "there were too many connections to {server} at once"),
    httpx.ProxyError: (ConnectError, "the proxy did not let us through to {server}: {reason}"),
    httpx.UnsupportedProtocol: (ConfigurationError, "{server} cannot be reached over HTTP: {reason}"),
    httpx.InvalidURL: (ConfigurationError, "the address {server} cannot be read: {reason}"),
    httpx.LocalProtocolError: (ConfigurationError, "the request cannot be sent: a header is not valid"),
    httpx.DecodingError: (BrokenStreamError, "the answer of {server} is badly compressed: {reason}"),
    httpx.TooManyRedirects: (BrokenStreamError, "{server} redirects without end"),
    httpx.CookieConflict: (BrokenStreamError, "{server} sent two cookies of one name"),
    httpx.StreamError: (BrokenStreamError, "the answer of {server} was read twice: {reason}"),
    httpx.TimeoutException: (BrokenStreamError, "the connection to {server} timed out"),
    httpx.HTTPError: (BrokenStreamError, "the connection to {server} broke: {reason}"),
}
"""Every error of httpx, by its own name or its nearest base's: our class, and what it says."""

BUSY = (429, 503)
"""The statuses with which a server says that it did not begin the work."""

_ERROR_BODY = 65_536  # bytes of an error's body that are read
_KEEP_ALIVE = 3.0  # seconds; uvicorn, which most servers run on, drops idle connections after 5


class TryAgain(Exception):  # noqa: N818 - never leaves the I/O loop
    """Say that the server cannot have begun the work, and wants to be left alone for `after` seconds."""

    def __init__(self, error: OaiNbError, after: float | None = None) -> None:
        self.error = error
        self.after = after


class Http:
    """Requests to one server, made and read in the I/O loop.

    `transport` makes what takes the network's place, when it is first needed: the embedded model does. There
    are no time limits in here: the caller's `Deadline` keeps them.
    """

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str],
        mask: Mask,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    ) -> None:
        self.address = address
        self.mask = mask
        self._headers = dict(headers)
        self._transport = transport
        self._opened: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def exchange(
        self,
        method: str,
        url: str,
        read: Callable[[httpx.Response], Awaitable[T]],
        deadline: Deadline,
        content: bytes | None = None,
    ) -> T:
        """Send a request and return what `read` makes of its answer, which is closed afterwards.

        Raises TryAgain where the same request may be sent again, else an OaiNbError.
        """
        deadline.enter("connect" if self._transport is None else "first_token")
        headers = {"content-type": "application/json"} if content is not None else {}
        opening = _Opening(deadline)
        sending = {"trace": opening} if self._transport is None else {}

        def send() -> AbstractAsyncContextManager[httpx.Response]:
            return self._client().stream(method, url, content=content, headers=headers, extensions=sending)

        def answer() -> AbstractAsyncContextManager[httpx.Response]:
            through = deck.current  # which another thread may change
            if through is None:
                return send()
            return through.through(deck.Asked(self, method, url, content, deadline), send)

        try:
            async with opening, answer() as response:
                opening.succeeded()
                if response.is_success:
                    return await read(response)
                raise await self._refusal(response, deadline)
        except tuple(FOREIGN) as error:
            raise self.translated(error) from None

    async def fetch(self, method: str, url: str, deadline: Deadline, body: Any = None) -> Any:
        """Return the JSON that the server answers; None where it is none."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        data = await self.exchange(method, url, lambda one: whole(pieces(one), deadline), deadline, content)
        return _parsed(data)

    def shut(self) -> None:
        """Close the connections, from any thread."""
        if self._opened is not None:
            self._close_later()
            self._opened = None

    def _client(self) -> httpx.AsyncClient:
        """Return the client of this loop, made when first needed and again in a child after a fork."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            client = self._made()
            self._opened = loop, client
            self._close_later = weakref.finalize(self, _close, loop, client)
            self._close_later.atexit = False
        return self._opened[1]

    def _made(self) -> httpx.AsyncClient:
        transport = None if self._transport is None else self._transport()
        try:
            return httpx.AsyncClient(
                headers=self._headers,
                transport=transport,
                verify=_trust(self.address),
                trust_env=not self.address.is_loopback,  # no proxy reaches this machine
                timeout=httpx.Timeout(None),
                limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEP_ALIVE),
            )
        except (ImportError, ValueError):  # its message may hold the proxy's password
            message = "the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used: mend or unset it"
            raise ConfigurationError(message) from None

    async def _refusal(self, response: httpx.Response, deadline: Deadline) -> Exception:
        """Return the error that an answer with an error's status means."""
        body = (await whole(pieces(response), deadline, _ERROR_BODY)).decode("utf-8", "replace")
        said: Any = self.mask(body)
        with suppress(ValueError, RecursionError):
            said = self.mask.json(json.loads(body))
        error = server_error(said, response.status_code)
        error.args = (self.mask(f"{error}{self._advice(error, response)}"),)
        if response.status_code not in BUSY or "insufficient_quota" in (error.code, error.type):
            return error
        if (after := retry_after(response.headers)) is not None:
            error.args = (f"{error}; it asks to wait {after:.1f} s",)
        return TryAgain(error, after)

    def _advice(self, error: ServerError, response: httpx.Response) -> str:
        if (of_it := told(response.extensions)) is not None:
            return f"; {of_it.note}"
        if isinstance(error, AuthenticationError):
            given = "authorization" in self._headers
            return "; check the key" if given else "; no key was sent: give api_key=..."
        if isinstance(error, NotFoundError) and not self.address.is_local:
            return f" (asked at {response.url})"
        if response.has_redirect_location:
            return f"; it has moved to {response.headers['location'].partition('?')[0]}"
        return ""

    def translated(self, error: Exception) -> Exception:
        """Return an error of httpx as ours, or as TryAgain."""
        ours, words = next(FOREIGN[kind] for kind in type(error).__mro__ if kind in FOREIGN)
        made = ours(words.format(server=self.address.base, reason=self.mask(reason(error))))
        return TryAgain(made) if isinstance(error, httpx.ConnectError) and not untrusted(error) else made


async def whole(came: AsyncIterator[bytes], deadline: Deadline, most: int | None = None) -> bytes:
    """Return the body, or about its first `most` bytes. Broken off behind the last brace, it is whole too."""
    body = bytearray()
    try:
        async for piece in came:
            deadline.came()
            body += piece
            if most is not None and len(body) >= most:
                break
    except (httpx.RemoteProtocolError, httpx.ReadError):  # such as for a Content-Length that is too large
        if not body.strip().startswith((b"{", b"[")) or _parsed(body) is None:
            raise
    return bytes(body)


def _parsed(body: bytes | bytearray) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return the pieces of a body as they come.

    The plain stream is read without httpx's own layers over it, which cost as much as the parsing.
    """
    if "content-encoding" in response.headers:
        return response.aiter_bytes()
    return aiter(cast(httpx.AsyncByteStream, response.stream))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, from ``retry-after-ms`` or ``retry-after``."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        when: float = parsedate_to_datetime(headers["retry-after"]).timestamp()
        return max(0.0, when - time())
    except (KeyError, ValueError):
        return None


def pause(attempt: int) -> float:
    """Return the seconds to wait before trying again, where the server did not say; a class is spread out."""
    return float(0.5 * 2**attempt * random.uniform(1, 1.5))  # noqa: S311 - no secret


class _Opening:
    """Follow a request up to its answer, through httpx's `trace` extension; close what was opened in vain.

    httpcore does not close the connection of a task that is cancelled in the middle of TLS's handshake.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._connection: Any = None

    async def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            self._connection = info["return_value"]
        elif name.endswith("send_request_headers.started"):
            self._deadline.enter("first_token")

    def succeeded(self) -> None:
        """Leave the connection to httpx: there is an answer."""
        self._connection = None

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.aclose()


def _trust(address: Address) -> ssl.SSLContext:
    """Return the system's trust for https; for http, which has no use for the 30 ms, trust in nothing."""
    return ssl.create_default_context() if address.is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _close(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    if not loop.is_closed():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and what led to it, the outermost first."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = inner or cause.__cause__ or cause.__context__
    return chain


def untrusted(error: Exception) -> bool:
    """Tell whether a connection failed because the server could not be trusted."""
    return any(isinstance(cause, ssl.SSLError) for cause in _causes(error))


def reason(error: Exception) -> str:
    """Return why, in the system's words where it has some: "Connection refused"."""
    words = str(error) or type(error).__name__
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            words = cause.strerror
            if words.startswith("Connect call failed") and cause.errno:  # asyncio's, which says less
                words = os.strerror(cause.errno)
    return words
