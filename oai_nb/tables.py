"""Completions as DataFrames of fixed columns.

Columns of text are ``object`` in every pandas, ids and ranks ``Int64`` with <NA> for unknown, the rest
NumPy's plain types. Positions count from 0 in each choice. What cannot be known is <NA> or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from oai_nb import console, measures
from oai_nb.completion import Choice, Completion
from oai_nb.frame import DataFrame
from oai_nb.markup import escaped, pre, whole
from oai_nb.table_view import to_html, to_text
from oai_nb.tokens import SAME_LOGPROB, Alternative, Token
from oai_nb.visible import visible

Column = npt.NDArray[Any]

MOST_SHOWN = 100_000
"""How many visible forms are kept."""
_UNKNOWN = -1
"""Stands for <NA> until a column is made."""

_TOKENS = {
    "choice": "int64",
    "position": "int64",
    "token": "object",
    "shown": "object",
    "token_id": "Int64",
    "bytes": "object",
    "offset": "Int64",
    "logprob": "float64",
    "prob": "float64",
    "rank": "Int64",
    "surprisal_bits": "float64",
    "entropy_bits": "float64",
    "entropy_exact": "bool",
}
_TOP_LOGPROBS = {
    "choice": "int64",
    "position": "int64",
    "rank": "Int64",
    "token": "object",
    "shown": "object",
    "token_id": "Int64",
    "logprob": "float64",
    "prob": "float64",
    "chosen": "bool",
}


def tokens_table(completion: Completion) -> pd.DataFrame:
    """Return one row for each token.

    `logprob` is in nats, `surprisal_bits` and `entropy_bits` in bits. The entropy is that of the alternatives
    seen, all others counted as one: a lower bound, and `entropy_exact` where nothing was left unseen.
    """
    return _table(_TOKENS, [_tokens(choice) for choice in completion.choices])


def top_logprobs_table(completion: Completion) -> pd.DataFrame:
    """Return one row for each alternative, from the likeliest down, the chosen one always among them.

    `rank` is <NA> for a chosen one that lies below those which the server showed.
    """
    return _table(_TOP_LOGPROBS, [_top_logprobs(choice) for choice in completion.choices])


def table_bundle(completion: Completion) -> dict[str, str]:
    """Return ``text/html`` and ``text/plain`` of the alternatives, or of the tokens where there are none."""
    frame = top_logprobs_table(completion)
    if frame.empty:
        frame = tokens_table(completion)
    if frame.empty:
        text = "there are no tokens to list: ask with logprobs=5 (--logprobs 5 in a cell)"
        return {"text/html": whole(pre(escaped(text))), "text/plain": text}
    return {"text/html": to_html(frame), "text/plain": to_text(frame, columns=console.columns())}


def _table(dtypes: Mapping[str, str], parts: Sequence[Mapping[str, Column]]) -> pd.DataFrame:
    columns = {name: _column(dtype, [part[name] for part in parts]) for name, dtype in dtypes.items()}
    return DataFrame(columns, copy=False)


def _column(dtype: str, parts: Sequence[Column]) -> Any:
    whole_type = "int64" if dtype == "Int64" else dtype
    values = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, whole_type), *parts])
    if dtype == "Int64":
        return pd.arrays.IntegerArray(values, values == _UNKNOWN)
    return pd.Series(values, dtype=object, copy=False) if dtype == "object" else values


def _objects(values: Sequence[Any]) -> Column:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _known(values: Iterable[int | None]) -> Column:
    return np.array([_UNKNOWN if value is None else value for value in values], dtype="int64")


# --- tokens ---


def _tokens(choice: Choice) -> dict[str, Column]:
    tokens = choice.tokens
    logprob = np.array([token.logprob for token in tokens], dtype="float64")
    entropies = [_entropy(token) for token in tokens]
    return {
        "choice": np.full(len(tokens), choice.index),
        "position": np.arange(len(tokens)),
        "token": _objects([token.text for token in tokens]),
        "shown": _objects([token.shown for token in tokens]),
        "token_id": _known(token.id for token in tokens),
        "bytes": _objects([token.bytes for token in tokens]),
        "offset": _known(token.offset for token in tokens),
        "logprob": logprob,
        "prob": np.exp(logprob),
        "rank": _known(token.rank for token in tokens),
        "surprisal_bits": -logprob / np.log(2.0),
        "entropy_bits": np.array([bits for bits, _ in entropies], dtype="float64"),
        "entropy_exact": np.array([exact for _, exact in entropies], dtype="bool"),
    }


def _entropy(token: Token) -> tuple[float, bool]:
    if not token.top:
        return np.nan, False
    return measures.entropy_bits([one.logprob for one in token.top])


# --- alternatives ---


def _top_logprobs(choice: Choice) -> dict[str, Column]:
    columns = _from_columns(choice)
    return _from_tokens(choice) if columns is None else columns


def _from_tokens(choice: Choice) -> dict[str, Column]:
    rows = [
        (position, _rank(rank, one, token), one)
        for position, token in enumerate(choice.tokens)
        for rank, one in enumerate(token.top, 1)
    ]
    found = [one for _, _, one in rows]
    logprob = np.array([one.logprob for one in found], dtype="float64")
    return {
        "choice": np.full(len(rows), choice.index),
        "position": np.array([position for position, _, _ in rows], dtype="int64"),
        "rank": _known(rank for _, rank, _ in rows),
        "token": _objects([one.text for one in found]),
        "shown": _objects([one.shown for one in found]),
        "token_id": _known(one.id for one in found),
        "logprob": logprob,
        "prob": np.exp(logprob),
        "chosen": np.array([one.chosen for one in found], dtype="bool"),
    }


def _rank(rank: int, one: Alternative, token: Token) -> int | None:
    return token.rank if one.chosen else rank


class _Rows(NamedTuple):
    """Alternatives in columns; those of one position follow each other."""

    position: Column
    token: Column
    logprob: Column
    chosen: Column


def _from_columns(choice: Choice) -> dict[str, Column] | None:
    """Return the same as `_from_tokens`, ten times as fast, from the API's parallel lists.

    None where the lists are missing, differ in length or hold what is no logprob: those are rare,
    and `oai_nb.tokens` knows what to make of them.
    """
    lists = choice.logprobs
    if lists is None or lists.content is not None:
        return None
    texts, own, listed = lists.tokens or (), lists.token_logprobs or (), lists.top_logprobs or ()
    if not len(texts) == len(own) == len(listed) or None in texts:
        return None
    given = list(filter(None, listed))
    if len(given) < len(listed):
        given = [row or {} for row in listed]
    lengths = np.fromiter(map(len, given), "int64", len(given))
    known = np.array(own, dtype="float64")
    try:
        logprob = np.fromiter(chain.from_iterable(map(dict.values, given)), "float64", lengths.sum())
    except TypeError:  # null
        return None
    if np.isnan(logprob).any() or np.isnan(known).sum() != own.count(None):
        return None
    if logprob.max(initial=0) > 0 or np.nanmax(known, initial=0) > 0:
        return None
    token, text = np.fromiter(chain.from_iterable(given), "object", len(logprob)), _objects(texts)
    position = np.repeat(np.arange(len(given)), lengths)
    rows = _Rows(position, token, logprob, _chosen(position, token, logprob, text, known))
    return _named(_sorted(_with_chosen(rows, text, known, lengths)), choice, lengths)


def _chosen(position: Column, token: Column, logprob: Column, text: Column, known: Column) -> Column:
    """Find the chosen ones, of the same text and logprob; numbers are compared first, being cheaper."""
    own = known[position]
    with np.errstate(invalid="ignore"):  # inf - inf
        same: Column = (np.abs(logprob - own) < SAME_LOGPROB) | (logprob == own) | np.isnan(own)
    near = np.flatnonzero(same)
    same[near] = token[near] == text[position[near]]
    return same


def _with_chosen(rows: _Rows, text: Column, known: Column, lengths: Column) -> _Rows:
    """Add the chosen token at the end of each position whose list left it out."""
    found = np.zeros(len(text), dtype="bool")
    found[rows.position[rows.chosen]] = True
    left = np.flatnonzero((lengths > 0) & ~found & ~np.isnan(known))
    if not left.size:
        return rows
    ends = np.cumsum(lengths)[left]
    return _Rows(
        np.insert(rows.position, ends, left),
        np.insert(rows.token, ends, text[left]),
        np.insert(rows.logprob, ends, known[left]),
        np.insert(rows.chosen, ends, True),
    )


def _sorted(rows: _Rows) -> _Rows:
    """Sort the alternatives of each position from the likeliest down, which most servers have done."""
    rising = rows.logprob[1:] > rows.logprob[:-1]
    if not (rising & (rows.position[1:] == rows.position[:-1])).any():
        return rows
    order = np.lexsort((-rows.logprob, rows.position))
    return _Rows(*(column[order] for column in rows))


def _named(rows: _Rows, choice: Choice, listed: Column) -> dict[str, Column]:
    """Return the columns of the table; `listed` alternatives came for each position."""
    asked = choice.asked_logprobs
    k = listed[listed > 0].min(initial=np.iinfo("int64").max) if asked is None else asked
    lengths = np.bincount(rows.position, minlength=1)
    length = np.repeat(lengths, lengths)
    rank = np.arange(1, len(length) + 1) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rank[rows.chosen & (rank == length) & (length > k)] = _UNKNOWN
    ids, token_id = choice.token_ids, np.full(len(rank), _UNKNOWN)
    if ids is not None and len(ids) == len(listed):
        token_id[rows.chosen] = np.array(ids, dtype="int64")[rows.position[rows.chosen]]
    return {
        "choice": np.full(len(rank), choice.index),
        "position": rows.position,
        "rank": rank,
        "token": rows.token,
        "shown": np.fromiter(map(_shown.__getitem__, rows.token.tolist()), "object", len(rank)),
        "token_id": token_id,
        "logprob": rows.logprob,
        "prob": np.exp(rows.logprob),
        "chosen": rows.chosen,
    }


class _Shown(dict[str, str]):
    """Visible forms, each made once: a vocabulary is finite, and its tokens repeat."""

    def __missing__(self, text: str) -> str:
        if len(self) >= MOST_SHOWN:
            self.clear()
        shown = self[text] = visible(text)
        return shown


_shown = _Shown()
