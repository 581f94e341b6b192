"""The history as a DataFrame: one row for each run, every parameter a column.

Reads what lies beside the answers and never the answers themselves, so that thousands of runs are listed at
once. `oai_nb.recall` gives one of them back whole.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oai_nb import journal
from oai_nb.errors import ConfigurationError
from oai_nb.frame import DataFrame
from oai_nb.parameters import PARAMETERS

if TYPE_CHECKING:
    import pandas as pd

    from oai_nb.entry import Entry

_BEFORE = {
    "run": "int64",
    "started": "datetime64[us, UTC]",
    "server": "object",
    "base_url": "object",
    "model": "object",
    "prompt": "object",
    "text": "object",
    "finish_reason": "object",
    "incomplete": "object",
    "prompt_tokens": "Int64",
    "completion_tokens": "Int64",
    "first_token": "float64",
    "total": "float64",
    "notes": "object",
}
_KINDS = {"number": "float64", "integer": "Int64", "boolean": "boolean"}  # of parameters; else object
_PARAMETERS = {
    name: _KINDS.get(parameter.kind, "object")
    for name, parameter in PARAMETERS.items()
    if name not in _BEFORE
}
COLUMNS: Mapping[str, str] = _BEFORE | _PARAMETERS | {"extra": "object"}
"""The columns and their dtypes, in order."""


def history() -> pd.DataFrame:
    """Return every run that was kept, one a row, the newest last.

    `run` is its number, for `recall` and `forget`; `started` is in UTC; `server` is its kind, `model` who
    answered; `text` and `finish_reason` are the first choice's; `incomplete` is why the answer is only a
    part; `first_token` and `total` are seconds; `notes` is what was not as asked. Then comes every parameter
    as it was set (<NA>, NaN or None where it was not), and in `extra` what went beyond the API. Raises
    ConfigurationError where the file cannot be read.
    """
    rows = list(itertools.starmap(_row, journal.lines()))
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    return DataFrame(columns, dtype=object).astype(COLUMNS)


def _row(run: int, entry: Entry) -> dict[str, Any]:
    try:
        return _read(run, entry)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"run {run} cannot be read: {type(error).__name__}: forget({run}) deletes it"
        raise ConfigurationError(message) from None


def _read(run: int, entry: Entry) -> dict[str, Any]:
    record = json.loads(entry.record)
    asked, timing, server = (record[name] or {} for name in ("request", "timing", "server"))
    return asked | {
        "run": run,
        "started": datetime.fromtimestamp(entry.started, UTC),
        "server": server.get("kind"),
        "base_url": server.get("base_url"),
        "model": entry.model,
        "text": entry.text,
        "finish_reason": entry.finish_reason,
        "incomplete": record["incomplete"],
        "prompt_tokens": entry.prompt_tokens,
        "completion_tokens": entry.completion_tokens,
        "first_token": timing.get("first_token"),
        "total": timing.get("total"),
        "notes": "; ".join(note["text"] for note in record["fidelity"]),
        "extra": {name: asked[name] for name in record["extra"] or ()},
    }
