"""The notebook laboratory for text completion.

    %load_ext oai_nb              the magics %%complete and %complete; %%complete? shows their options

    import oai_nb
    oai_nb.complete("Once upon a time", max_tokens=40).text

Importing this module is cheap: every name is looked up when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oai_nb.client import Client
    from oai_nb.completion import Completion
    from oai_nb.completion_stream import CompletionStream
    from oai_nb.deadline import Limits
    from oai_nb.errors import (
        AuthenticationError,
        BrokenStreamError,
        ConfigurationError,
        ConnectError,
        Interrupted,
        InvalidRequestError,
        NotFoundError,
        NotRecordedError,
        OaiNbError,
        RateLimitError,
        ServerError,
        TimeLimitError,
        WeightsError,
    )
    from oai_nb.history_table import history
    from oai_nb.journal import forget, recall
    from oai_nb.request import Request
    from oai_nb.settings import complete, connect, stream
    from oai_nb.tape import record, replay

    __version__: str

_HOMES = {
    "oai_nb.settings": ("connect", "complete", "stream"),
    "oai_nb.client": ("Client",),
    "oai_nb.deadline": ("Limits",),
    "oai_nb.request": ("Request",),
    "oai_nb.completion": ("Completion",),
    "oai_nb.completion_stream": ("CompletionStream",),
    "oai_nb.history_table": ("history",),
    "oai_nb.journal": ("forget", "recall"),
    "oai_nb.tape": ("record", "replay"),
    "oai_nb.errors": (
        "AuthenticationError",
        "BrokenStreamError",
        "ConfigurationError",
        "ConnectError",
        "Interrupted",
        "InvalidRequestError",
        "NotFoundError",
        "NotRecordedError",
        "OaiNbError",
        "RateLimitError",
        "ServerError",
        "TimeLimitError",
        "WeightsError",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AuthenticationError",
    "BrokenStreamError",
    "Client",
    "Completion",
    "CompletionStream",
    "ConfigurationError",
    "ConnectError",
    "Interrupted",
    "InvalidRequestError",
    "Limits",
    "NotFoundError",
    "NotRecordedError",
    "OaiNbError",
    "RateLimitError",
    "Request",
    "ServerError",
    "TimeLimitError",
    "WeightsError",
    "__version__",
    "complete",
    "connect",
    "forget",
    "history",
    "load_ipython_extension",
    "recall",
    "record",
    "replay",
    "stream",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.import_module("importlib.metadata").version("oai-nb")
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Add the magics, their Tab completion and ``%config OaiNb`` to a shell; twice is once."""
    importlib.import_module("oai_nb.magic").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take all of it out again."""
    importlib.import_module("oai_nb.magic").unload(shell)
