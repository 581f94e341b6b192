"""``%config OaiNb``: the magic's defaults and the server's address, checked when they are assigned.

One trait for each parameter, made from `oai_nb.parameters`. There is none for a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traitlets import Any as Any_
from traitlets import Bool, TraitError, TraitType, Unicode, observe, validate
from traitlets.config import Configurable

from oai_nb import errors
from oai_nb.configuration import Configuration, configuration
from oai_nb.imports import load
from oai_nb.parameters import PARAMETERS, Parameter


class Value(TraitType[Any, Any]):
    """The default of one parameter; None leaves it to the API."""

    def __init__(self, parameter: Parameter) -> None:
        super().__init__(None, allow_none=True, help=parameter.help, config=True)
        self.parameter = parameter

    def validate(self, _: Any, value: Any) -> Any:
        """Return the checked value. Raises TraitError, which IPython shows as one line."""
        try:
            return self.parameter.check(value)
        except errors.InvalidRequestError as error:
            raise TraitError(f"OaiNb.{error}") from None


def _checked(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    """Return a value that the client can take. Raises TraitError, which never repeats a key."""
    try:
        check(value)
    except errors.ConfigurationError as error:
        raise TraitError(f"OaiNb.{name}: {error}") from None
    return value


_DEFAULTS = {name: Value(parameter) for name, parameter in PARAMETERS.items() if name != "prompt"}
_Defaults: Any = type("Defaults", (Configurable,), dict(_DEFAULTS))
_CONFIGURED = tuple(vars(Configuration()))


class OaiNb(_Defaults):  # type: ignore[misc]
    """What the magic does where an option is not given, and which server it asks."""

    base_url = Unicode(
        None,
        allow_none=True,
        config=True,
        help="The server: local, or an address such as http://host:8000/v1.",
    )
    timeout = Any_(
        None, allow_none=True, config=True, help="Seconds that a whole answer may take, or Limits."
    )
    history = Bool(
        None,
        allow_none=True,
        config=True,
        help="Keeps every run, for oai_nb.history(); unset means yes, unless OAI_NB_HISTORY is off.",
    )
    full_tracebacks = Bool(False, config=True, help="Shows whole tracebacks of oai_nb's own errors.")

    @validate("base_url")
    def _check_base_url(self, proposal: Any) -> Any:
        return _checked("base_url", load("oai_nb.address").parse, proposal["value"])

    @validate("timeout")
    def _check_timeout(self, proposal: Any) -> Any:
        return _checked("timeout", load("oai_nb.deadline").as_limits, proposal["value"])

    @observe(*_CONFIGURED)
    def _configure(self, change: Any) -> None:
        setattr(configuration, change["name"], change["new"])

    @observe("full_tracebacks")
    def _show_tracebacks(self, change: Any) -> None:
        errors.full_tracebacks = change["new"]

    def defaults(self) -> dict[str, Any]:
        """Return the user's own defaults of parameters. The model is not among them: the client has it."""
        values = {name: getattr(self, name) for name in _DEFAULTS if name not in _CONFIGURED}
        return {name: value for name, value in values.items() if value is not None}

    def reset(self) -> None:
        """Put back what a change has set elsewhere."""
        self.full_tracebacks = False
        for name in _CONFIGURED:
            setattr(self, name, None)
