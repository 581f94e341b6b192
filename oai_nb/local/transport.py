"""The embedded model as a transport of httpx: a server without a socket.

    httpx.AsyncClient(transport=LocalTransport(), base_url="http://local/v1")

The model is loaded by the first request that needs it, once for all transports of a process. It runs in one
thread; each stream gives that thread one step at a time, so streams that run at once take turns, and a stream
that is closed, or whose task is cancelled, ends after the step that is running. What httpx is told of HTTP is
in here; what the answers are is `service`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import httpx

from oai_nb.local import answers, weights
from oai_nb.local.answers import Object
from oai_nb.local.asked import ApiError
from oai_nb.local.fetch import Notify
from oai_nb.local.loading import Models
from oai_nb.local.service import Service
from oai_nb.local.worker import Worker
from oai_nb.told import EXTENSION, Told

P = ParamSpec("P")
T = TypeVar("T")

_worker = Worker()
_models = Models()


class LocalTransport(httpx.AsyncBaseTransport):
    """Answer `/v1/completions`, `/v1/models`, `/v1/models/{id}` and `/tokenize` from the model in a file.

    `path` is a GGUF file; None finds the embedded model, or fetches it. `notify` gets the lines that the user
    is to see (a download, a memory that is not shared) while a request waits for a model to be loaded, from
    any thread, and an empty one after that. A load for which no request waits any more is given up. A model
    that cannot be loaded raises WeightsError or ConfigurationError, which are no answers of a server.
    """

    def __init__(self, path: Path | None = None, notify: Notify = weights.say) -> None:
        self._path = path
        self._notify = notify

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        try:
            answer, subject = _route(request)
            return await answer(self, _json(await request.aread()) if subject is None else subject)
        except ApiError as error:
            return httpx.Response(error.status, json=error.body, headers=error.headers)

    async def _completion(self, body: Any) -> httpx.Response:
        steps, note = await self._ask(lambda model: (model.run(body), model.note))
        beside = {EXTENSION: Told(note)} if note else {}
        if body.get("stream"):
            headers = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=headers, stream=_Events(steps), extensions=beside)
        try:
            while not (answer := await _run(next, steps)):
                pass
        finally:
            _worker.submit(_close, steps)
        return httpx.Response(200, json=answer[0], extensions=beside)

    async def _models(self, _: str) -> httpx.Response:
        return httpx.Response(200, json=await self._ask(lambda model: model.models()))

    async def _model(self, name: str) -> httpx.Response:
        return httpx.Response(200, json=await self._ask(lambda model: model.describe(name)))

    async def _tokens(self, body: Any) -> httpx.Response:
        return httpx.Response(200, json=await self._ask(lambda model: model.tokenize(body)))

    async def _ask(self, question: Callable[[Service], T]) -> T:
        """Ask the service, once it is loaded, in the worker's thread."""
        with _models.waiting(self._notify):
            return await _run(lambda: question(_models.service(self._path)))


_Answer = Callable[[LocalTransport, Any], Awaitable[httpx.Response]]

_ROUTES: dict[str, tuple[str, _Answer]] = {
    "/v1/completions": ("POST", LocalTransport._completion),
    "/v1/models": ("GET", LocalTransport._models),
    "/tokenize": ("POST", LocalTransport._tokens),
}


def _route(request: httpx.Request) -> tuple[_Answer, str | None]:
    """Return what answers a request, and what it is about where the path says that. Raises ApiError."""
    path = request.url.path
    folder, _, name = path.rpartition("/")
    if path in _ROUTES:
        method, answer = _ROUTES[path]
        subject = "" if method == "GET" else None
    elif folder == "/v1/models":
        method, answer, subject = "GET", LocalTransport._model, name
    else:
        raise ApiError(404, f"there is nothing at {path}: this server has {', '.join(_ROUTES)}")
    if request.method != method:
        raise ApiError(405, f"{path} takes {method}, not {request.method}", headers={"allow": method})
    return answer, subject


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ApiError(400, "the body is not JSON") from None


async def _run(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call in the model's thread; a cancelled task drops one that has not begun."""
    return await asyncio.wrap_future(_worker.submit(call, *args, **kwargs))


def _close(steps: Iterator[list[Object]]) -> None:
    """End a generation; in the worker's thread, where no step of it can be running."""
    cast(Generator[list[Object]], steps).close()


class _Events(httpx.AsyncByteStream):
    """The events of a generation, made as they are read."""

    def __init__(self, steps: Iterator[list[Object]]) -> None:
        self._steps = steps
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while (sent := await _run(self._next)) is not None:
                if sent:
                    yield sent
            yield answers.DONE
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the generation after the step that is running. Returns at once."""
        if not self._closed:
            self._closed = True
            _worker.submit(_close, self._steps)

    def _next(self) -> bytes | None:
        events = next(self._steps, None)
        return None if events is None else b"".join(map(answers.sse, events))
