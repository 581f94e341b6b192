"""`Client`: completions from one server, for synchronous code. All I/O happens in the background loop."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from oai_nb import address, loop, servers
from oai_nb.completion import Completion, Note, Server
from oai_nb.completion_stream import SLICE, CompletionStream
from oai_nb.deadline import Deadline, Limits, as_limits
from oai_nb.errors import ConfigurationError, Interrupted, InvalidRequestError, OaiNbError
from oai_nb.http import Http, TryAgain
from oai_nb.keys import Key, Mask, sealed, secrets
from oai_nb.parameters import PARAMETERS
from oai_nb.parameters import Limits as Ranges
from oai_nb.peer import Peer
from oai_nb.request import Request, as_request
from oai_nb.run import Run, as_ours
from oai_nb.signature import shows_parameters

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

NO_LIMITS = Limits(None, None, None, None)
"""What holds for the embedded model: it cannot fall silent, and may first have to be fetched."""


class Client:
    """Ask one server for completions.

    `base_url` is ``"local"``, the embedded model and the default, or an address in any of its spellings,
    such as ``http://host:8000`` or ``http://host:8000/v1``. `timeout` is a number of seconds for a whole
    answer, or `Limits`. A request is sent again, up to `max_retries` times, only where the server cannot
    have begun the work. `transport` takes the network's place. Raises ConfigurationError.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        organization: str | None = None,
        project: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float | Limits | None = None,
        max_retries: int = 2,
    ) -> None:
        # So that no traceback shows a key:
        base_url, api_key, headers, fault = sealed(base_url, api_key, headers)
        fault = fault or _fault(max_retries, model=model, organization=organization, project=project)
        if fault:
            raise ConfigurationError(fault)
        where = address.parse(base_url)
        sent = _headers(api_key, headers, organization, project)
        mask = Mask([api_key, *secrets(sent)])
        self._peer = Peer(Http(where, sent, mask, self._source(transport, where)), model)
        self._closed = False
        self.max_retries = max_retries
        self.timeout = timeout

    @property
    def model(self) -> str | None:
        """Give the model that is asked where a request names none; None is the server's own choice."""
        return self._peer.model

    @model.setter
    def model(self, model: str | None) -> None:
        self._peer.model = model

    @property
    def timeout(self) -> Limits:
        """Give the time limits. They may be set to a number of seconds for a whole answer, or None."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: float | Limits | None) -> None:
        unset = NO_LIMITS if self._peer.http.address.is_local else Limits()
        self._timeout = unset if timeout is None else as_limits(timeout)

    @property
    def known_models(self) -> list[str]:
        """Give the ids of the server's models, as far as they were asked for before."""
        return list(self._peer.listed or ())

    @property
    def closed(self) -> bool:
        """Tell whether it was closed."""
        return self._closed

    @property
    def server(self) -> Server:
        """Give the kind of server, as far as it is known, and its address."""
        return self._peer.server

    @property
    def limits(self) -> Ranges:
        """Give the ranges of parameters in which this kind of server differs from the contract."""
        self._peer.renew()
        return self._peer.kind.limits

    @shows_parameters
    def complete(self, prompt_or_request: Any = None, **parameters: Any) -> Completion:
        """Return the whole completion of a prompt, or of a Request refined by further parameters.

        Raises OaiNbError, or Interrupted for a KeyboardInterrupt, which stops the server; their
        `completion` is what had arrived.
        """
        request = self.request(prompt_or_request, **parameters)
        return self._start(request, streamed=bool(request.stream)).result()

    @shows_parameters
    def stream(self, prompt_or_request: Any = None, **parameters: Any) -> CompletionStream:
        """Start the completion of a prompt, or of a Request, and return it as it runs.

        What cannot be streamed (best_of above n) or is not to be (``stream=False``) comes in one chunk.
        """
        return self.start(self.stream_request(prompt_or_request, **parameters))

    def start(self, request: Request, notes: tuple[Note, ...] = ()) -> CompletionStream:
        """Start a request as `stream` does; `notes` are what has to be said of it from the first."""
        if _ranked(request):
            note = Note("changed", "not streamed: best_of above n comes only as a whole", "stream")
            return self._start(request, streamed=False, notes=(*notes, note))
        return self._start(request, streamed=request.stream is not False, notes=notes)

    @shows_parameters
    def request(self, prompt_or_request: Any = None, **parameters: Any) -> Request:
        """Return a request within this server's ranges, which it is asked for where they matter."""
        try:
            return as_request(prompt_or_request, parameters, self.limits)
        except InvalidRequestError as error:
            if error.parameter not in servers.VARYING or not self._now_known():
                raise
        return as_request(prompt_or_request, parameters, self.limits)

    @shows_parameters
    def stream_request(self, prompt_or_request: Any = None, **parameters: Any) -> Request:
        """Return a request for `stream`: as `request` does, but `stream_options` need no ``stream=True``."""
        options = parameters.get("stream_options")
        if options is None:
            return self.request(prompt_or_request, **parameters)
        request = self.request(prompt_or_request, **parameters | {"stream_options": None})
        implied = {"stream": True} if request.stream is None and not _ranked(request) else {}
        return self.request(request, stream_options=options, **implied)

    def models(self) -> list[str]:
        """Return the ids of the server's models. Raises OaiNbError, or Interrupted."""
        return self._ask(self._peer.models)

    def tokenize(self, text: str) -> list[int] | None:
        """Return the ids of a text's tokens; None where the server does not tell. Raises OaiNbError."""
        PARAMETERS["prompt"].check(text)
        return self._ask(lambda deadline: self._peer.tokenize(text, deadline))

    def close(self) -> None:
        """Stop what is running and close the connections. Closing twice is closing once."""
        self._closed = True
        for run in tuple(self._peer.running):
            run.stop("the client was closed")
        self._peer.http.shut()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client is not pickled or copied, for it holds a key: make one where it is needed")

    def __repr__(self) -> str:
        server = self.server
        kind = "" if server.kind in ("local", "unknown") else f" ({server.kind})"
        model = "" if self.model is None else f", model={self.model!r}"
        return f"<Client {server.base_url}{kind}{model}>"

    def _source(
        self, transport: httpx.AsyncBaseTransport | None, where: address.Address
    ) -> Callable[[], httpx.AsyncBaseTransport] | None:
        """Return what makes the transport; None for the network."""
        if transport is not None:
            return lambda: transport
        return self._embedded if where.is_local else None

    def _embedded(self) -> httpx.AsyncBaseTransport:
        from oai_nb.local.transport import LocalTransport

        return LocalTransport(notify=self._peer.notify)

    def _start(self, request: Request, *, streamed: bool, notes: tuple[Note, ...] = ()) -> CompletionStream:
        self._check_open()
        _check_extra(request)
        limits, retries = self.timeout, self.max_retries
        run = Run(self._peer, request, streamed=streamed, limits=limits, max_retries=retries, notes=notes)
        return CompletionStream(run)

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError("this client is closed: make a new one, such as with connect()")

    def _now_known(self) -> bool:
        """Ask the server what it is, if that is not known; tell whether it is now and was not before."""
        if self._peer.kind is not servers.UNKNOWN:
            return False
        try:
            self.models()
        except OaiNbError:
            return False
        return self._peer.kind is not servers.UNKNOWN

    def _ask(self, question: Callable[[Deadline], Coroutine[Any, Any, T]]) -> T:
        """Run a short request in the I/O loop and wait for it."""
        self._check_open()
        future = loop.submit(_within(self.timeout, question))
        try:
            while not concurrent.futures.wait([future], SLICE).done:
                self._peer.tell()
        except KeyboardInterrupt:
            future.cancel()
            raise Interrupted("the server was not waited for") from None
        error = future.exception()
        if isinstance(error, Exception):
            raise as_ours(error, self._peer.http.mask)
        return future.result()


async def _within(limits: Limits, question: Callable[[Deadline], Coroutine[Any, Any, T]]) -> T:
    with Deadline(limits) as deadline:
        try:
            return await question(deadline)
        except TryAgain as again:
            raise again.error from None


def _ranked(request: Request) -> bool:
    """Tell whether the candidates compete, which only a whole answer can settle."""
    return (request.best_of or 0) > (request.n or 1)


def _headers(
    api_key: str | None, given: dict[str, str], organization: str | None, project: str | None
) -> dict[str, str]:
    """Return the headers of every request. Raises ConfigurationError, naming none of their values."""
    headers = {"user-agent": "oai_nb", "accept-encoding": "identity"}
    named = {
        "authorization": Key(f"Bearer {api_key}") if api_key else None,
        "openai-organization": organization,
        "openai-project": project,
    }
    headers |= {name: value for name, value in named.items() if value} | given
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            what = "api_key" if name == "authorization" else f"the header {name!r}"
            raise ConfigurationError(f"{what} has characters that cannot be sent, such as a line's end")
    return headers


def _fault(max_retries: object, **texts: object) -> str:
    """Say what is wrong with the types of arguments, if anything is, and nothing of their values."""
    for name, text in texts.items():
        if not isinstance(text, str | None):
            return f"{name} is to be a text, not {type(text).__name__}"
    if isinstance(max_retries, bool) or not isinstance(max_retries, int):
        return f"max_retries is to be a whole number, not {type(max_retries).__name__}"
    return ""


def _check_extra(request: Request) -> None:
    """Raise InvalidRequestError where what goes beyond the API is not JSON."""
    try:
        json.dumps(dict(request.extra), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"extra cannot be sent as JSON: {error}", parameter="extra") from None
