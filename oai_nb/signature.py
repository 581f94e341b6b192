"""The visible signature of functions that take the API's parameters, made from their declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oai_nb.parameters import PARAMETERS

F = TypeVar("F", bound=Callable[..., Any])


def shows_parameters(function: F) -> F:
    """Put every parameter of the API in the place of ``**parameters``, so that Shift-Tab shows them."""
    own = inspect.signature(function)
    kept = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    declared = [
        inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=p.type)
        for p in PARAMETERS.values()
        if p.name != "prompt"
    ]
    extra = inspect.Parameter(
        "extra", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Mapping[str, Any] | None
    )
    function.__signature__ = own.replace(parameters=[*kept, *declared, extra])  # type: ignore[attr-defined]
    return function
