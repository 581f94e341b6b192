"""What ``%config OaiNb`` sets beyond the parameters. Plain data, which any module may look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oai_nb.deadline import Limits


@dataclass
class Configuration:
    """What ``%config`` sets; None is not set. There is no key here, so that none gets into a notebook."""

    base_url: str | None = None
    model: str | None = None
    timeout: float | Limits | None = None
    history: bool | None = None


configuration = Configuration()
