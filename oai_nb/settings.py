"""The default client: what is chosen by argument, `connect`, ``%config``, the environment, in this order.

Cheap to import: the client, and httpx with it, is imported when the first one is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from oai_nb.address import LOCAL, OPENAI, parse
from oai_nb.configuration import configuration
from oai_nb.errors import ConfigurationError
from oai_nb.keys import Key, sealed
from oai_nb.signature import shows_parameters

if TYPE_CHECKING:
    from oai_nb.client import Client
    from oai_nb.completion import Completion
    from oai_nb.completion_stream import CompletionStream


class _Held:
    """A client with what it does not have of its own: that follows the configuration."""

    def __init__(
        self, choice: _Choice, model: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        from oai_nb.client import Client

        self.choice = choice
        self._followed: dict[str, Any] = dict.fromkeys(("timeout",) if model else ("timeout", "model"))
        self._client = Client(choice.base_url, api_key=choice.api_key, model=model, headers=headers)

    @property
    def client(self) -> Client:
        """Give the client, changed where the configuration has changed since the last time."""
        for name, before in self._followed.items():
            now = getattr(configuration, name)
            if now != before:
                setattr(self._client, name, now)
                self._followed[name] = now
        return self._client


class _Choice(NamedTuple):
    base_url: str
    api_key: str | None


_lock = threading.RLock()
_connected: _Held | None = None
_others: dict[_Choice, _Held] = {}


def connect(
    base_url: str | None = None,
    *,
    api_key: str | None = None,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Client:
    """Make the client of a server the default, and return it; with no argument, forget the last one.

    Nothing is sent yet. Raises ConfigurationError, and keeps the default as it was.
    """
    global _connected
    anew = base_url is None and api_key is None and model is None and headers is None
    # So that no traceback shows a key:
    base_url, api_key, headers, fault = sealed(base_url, api_key, headers)
    if fault:
        raise ConfigurationError(fault)
    _connected = None if anew else _Held(_chosen(base_url, api_key), model, headers)
    return default_client()


def default_client() -> Client:
    """Return the client that `complete`, `stream` and the magic use where no server is named."""
    return _kept(_chosen()) if _connected is None else _connected.client


def client_of(base_url: str) -> Client:
    """Return the client of a server, without making it the default: the default one if it is of that server.

    Raises ConfigurationError.
    """
    base_url = Key(base_url)
    default = default_client()
    same = parse(base_url).base == default.server.base_url
    return default if same else _kept(_chosen(base_url))


def known_models() -> list[str]:
    """Return the models of the default client that are known already; nothing is asked.

    None are known where there can be no client, such as for a bad address.
    """
    try:
        return default_client().known_models
    except ConfigurationError:
        return []


def _kept(choice: _Choice) -> Client:
    """Return the client that was made of a choice before, or a new one."""
    with _lock:
        if choice not in _others or _others[choice].client.closed:
            _others[choice] = _Held(choice)
        return _others[choice].client


@shows_parameters
def complete(prompt_or_request: Any = None, **parameters: Any) -> Completion:
    """Return the whole completion of a prompt, or of a Request refined by further parameters.

    Raises OaiNbError, or Interrupted for a KeyboardInterrupt, which stops the server; their `completion`
    is what had arrived.
    """
    return default_client().complete(prompt_or_request, **parameters)


@shows_parameters
def stream(prompt_or_request: Any = None, **parameters: Any) -> CompletionStream:
    """Start a completion and return it as it runs: iterate for its chunks; `close` or ``with`` stops it."""
    return default_client().stream(prompt_or_request, **parameters)


def _chosen(base_url: str | None = None, api_key: str | None = None) -> _Choice:
    """Return what holds, the arguments before the configuration before the environment."""
    url, key = _environment()
    named = (one for one in (base_url, configuration.base_url, url) if one is not None)
    chosen = next(named, OPENAI if api_key else LOCAL)
    return _Choice(chosen, api_key or (key if url is not None and _same(chosen, url) else None))


def _environment() -> tuple[str | None, str | None]:
    """Return the server that the environment names, and its key, which goes to no other server."""
    url, key = (Key.of(os.environ.get(name)) or None for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))
    return url or (OPENAI if key else None), key


def _same(one: str, other: str) -> bool:
    try:
        return parse(one) == parse(other)
    except ConfigurationError:
        return False
