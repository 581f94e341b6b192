"""How large a heatmap is in a saved notebook, against plotly's own of the same numbers.

Bytes of JSON in UTF-8; the indentation with which notebooks are stored comes on top and is told. JupyterLab
may add a PNG of its own to what it displays directly; that is not ours and not counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go

from benchmarks.measure import Row
from benchmarks.tables import body
from oai_nb.decode import decode
from oai_nb.fold import fold
from oai_nb.plots import MIME, heatmap

TOKENS, BUDGET = 100, 15_000
SCRIPT = "plotly.js v"
"""What a copy of plotly.js says of itself."""


def rows(_: int) -> Iterator[Row]:
    """Yield the size of one heatmap. It is the same in every round."""
    completion = fold([decode(body(TOKENS).encode())])
    bundle = heatmap(completion)._repr_mimebundle_()
    ours, theirs = size(bundle[MIME]), size(usual(completion).to_plotly_json())
    yield Row(
        f"heatmap of {TOKENS} tokens in the .ipynb, plotly JSON",
        f"<= {BUDGET / 1e3:.0f} kB, no plotly.js",
        f"{ours / 1e3:.1f} kB ({size(bundle, indent=1) / 1e3:.0f} kB indented, with HTML and text)",
        ours <= BUDGET and SCRIPT not in str(bundle),
        f"plotly's own figure {theirs / 1e3:.1f} kB",
        f"{ours / theirs:.2f}x",
    )


def size(value: Any, indent: int | None = None) -> int:
    """Return the bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False, indent=indent, default=list).encode())


def usual(completion: Any) -> go.Figure:
    """Return the figure that one would make of the same alternatives."""
    rows = [token.top for token in completion.choices[0].tokens]
    ranks = range(max(map(len, rows)))
    columns = [[one[rank] if rank < len(one) else None for one in rows] for rank in ranks]
    z = [[one and one.logprob for one in column] for column in columns]
    text = [[one and one.text for one in column] for column in columns]
    return go.Figure(go.Heatmap(z=z, text=text, texttemplate="%{text}"), {"title": "top_logprobs"})
