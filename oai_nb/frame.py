"""DataFrame and Series whose displays never interpret a token: no TeX, no ANSI, no override of direction."""

from __future__ import annotations

import pandas as pd

from oai_nb.markup import NOT_MATHS
from oai_nb.visible import printable


class DataFrame(pd.DataFrame):
    """A DataFrame that is shown literally, and so is what is taken from it."""

    @property
    def _constructor(self) -> type[DataFrame]:
        return DataFrame

    @property
    def _constructor_sliced(self) -> type[Series]:
        return Series

    def _repr_html_(self) -> str | None:
        page: str | None = super()._repr_html_()  # type: ignore[misc]
        return None if page is None else f"<div {NOT_MATHS}>{printable(page)}</div>"

    def __repr__(self) -> str:
        return printable(super().__repr__())


class Series(pd.Series):
    """A column or a row of such a DataFrame."""

    @property
    def _constructor(self) -> type[Series]:
        return Series

    @property
    def _constructor_expanddim(self) -> type[DataFrame]:
        return DataFrame

    def __repr__(self) -> str:
        return printable(super().__repr__())
