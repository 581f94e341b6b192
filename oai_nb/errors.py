"""Everything that oai_nb raises on purpose.

    OaiNbError (Exception)
    ├── InvalidRequestError (ValueError)   what was asked for cannot be sent
    ├── ConfigurationError            no usable server, key or option
    ├── WeightsError                  the embedded model's file is missing, damaged or unsupported
    ├── ConnectError                  the server could not be reached
    ├── TimeLimitError                a time limit ran out
    ├── BrokenStreamError             the answer ended before the server said that it was finished
    ├── NotRecordedError              what was asked is not in the file that is being replayed
    └── ServerError                   the server answered with an error
        ├── AuthenticationError       401, 403
        ├── NotFoundError             404
        └── RateLimitError            429
    Interrupted (KeyboardInterrupt)   the user stopped the run; no `except Exception` swallows it

In a cell each is one line in place of a traceback, and stops Run All. This module knows
nothing of HTTP or IPython beyond the name of the method that IPython asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oai_nb.visible import one_line

if TYPE_CHECKING:
    from oai_nb.completion import Completion

full_tracebacks = False
"""Whether cells show whole tracebacks of these errors; set by ``%config OaiNb.full_tracebacks``."""


class OneLine:
    """Render an exception in a cell as one line. `completion` holds what had arrived, or is None."""

    completion: Completion | None = None

    @property
    def _render_traceback_(self) -> Callable[..., list[str]]:
        """Give IPython the one line; raise AttributeError, so that it falls back, when all is wanted."""
        if full_tracebacks:
            raise AttributeError("_render_traceback_")
        return self._one_line

    def _one_line(self, *_: Any) -> list[str]:
        return [one_line(f"{type(self).__name__}: {self}")]


class OaiNbError(OneLine, Exception):
    """The root of the tree."""


class InvalidRequestError(OaiNbError, ValueError):
    """Say which parameter cannot have which value, and what it may be."""

    def __init__(self, message: str, *, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.value = value


class ConfigurationError(OaiNbError):
    """Say what is missing or wrong in the set-up, never repeating anything that may be a key."""


class WeightsError(OaiNbError):
    """Say what is wrong with the model's file and which command mends it."""


class ConnectError(OaiNbError):
    """Say which server could not be reached and why."""


class TimeLimitError(OaiNbError):
    """Say which limit (`phase`: connect, first_token, idle or total) of how many `seconds` ran out."""

    def __init__(self, message: str, *, phase: str, seconds: float) -> None:
        super().__init__(message)
        self.phase = phase
        self.seconds = seconds


class BrokenStreamError(OaiNbError):
    """Say how an answer ended before its end."""


class NotRecordedError(OaiNbError):
    """Say what was asked that is not in the file that is being replayed, and what is."""


class ServerError(OaiNbError):
    """Carry a server's own error: its HTTP `status` (None inside a stream), `type`, `param` and `code`."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 - the API's word
        param: str | None = None,
        code: str | int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.param = param
        self.code = code


class AuthenticationError(ServerError):
    """The key is missing, wrong or not allowed to do this (401, 403)."""


class NotFoundError(ServerError):
    """The server has no such model or path (404)."""


class RateLimitError(ServerError):
    """Too many requests, or the quota is used up (429)."""


class Interrupted(OneLine, KeyboardInterrupt):
    """The user stopped the run; what had arrived is kept."""
