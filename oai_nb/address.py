"""A server's address: every spelling of it, into one. Nothing in here is ever a key."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from oai_nb.code import DEFAULT_BASE_URL
from oai_nb.errors import ConfigurationError
from oai_nb.keys import Key, looks_like_a_key

LOCAL = "local"
"""The address of the embedded model."""
OPENAI = DEFAULT_BASE_URL

_FORMS = f'give "{LOCAL}" or an address such as http://localhost:8000/v1'


@dataclass(frozen=True)
class Address:
    """Where a server is. `base` is shown and recorded: ``local``, or a URL without its last slash."""

    base: str

    @property
    def is_local(self) -> bool:
        """Tell whether this is the embedded model."""
        return self.base == LOCAL

    @property
    def url(self) -> str:
        """Give the URL that ``/completions`` is added to."""
        return "http://local/v1" if self.is_local else self.base

    @property
    def root(self) -> str:
        """Give the URL of the server itself, without ``/v1``."""
        return self.url.removesuffix("/v1")

    @property
    def host(self) -> str:
        """Give the host's name or number, in lower case."""
        return urlsplit(self.url).hostname or ""

    @property
    def is_tls(self) -> bool:
        """Tell whether the connection is encrypted."""
        return self.url.startswith("https:")

    @property
    def is_loopback(self) -> bool:
        """Tell whether the server runs on this machine, which no proxy can reach."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            number = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return number.is_loopback or number.is_unspecified


def parse(text: str | None) -> Address:
    """Return the address that a user means; None is the embedded model.

    ``http://h:1``, ``http://h:1/v1/`` and ``http://h:1/v1/completions`` are the same; any other path is
    kept. Raises ConfigurationError, which never repeats what may be a key, and whose frames hold none.
    """
    text = None if text is None else Key(text.strip())
    if text is None or text.lower() == LOCAL:
        return Address(LOCAL)
    fault = _fault(text)
    if fault is not None:
        raise ConfigurationError(fault)
    parts = urlsplit(text)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    shown = name if parts.port is None else f"{name}:{parts.port}"
    return Address(f"{parts.scheme}://{shown}{_path(parts.path)}")


def _fault(text: str) -> str | None:
    """Say what is wrong with an address, if anything is."""
    if looks_like_a_key(text.partition("://")[2] or text):
        return f"this looks like a key, not like an address: {_FORMS}, and api_key=..."
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"the address cannot be read: {_FORMS}"
    if parts.username is not None or parts.password is not None:
        return "what stands before the @ of an address would be shown: give api_key=..."
    if parts.scheme not in ("http", "https") or not host:
        return f"the address has no http:// or no host: {_FORMS}"
    if parts.query or parts.fragment:
        return "the address goes on after its path: leave out everything from ? or # on"
    return None


def _path(path: str) -> str:
    kept = re.sub(r"(?<=/)/+", "", path).rstrip("/").removesuffix("/completions").rstrip("/")
    return kept or "/v1"
