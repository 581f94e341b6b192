"""Make docs/parameters.md from the declaration, `oai_nb.parameters`."""

from oai_nb.checks import allowed
from oai_nb.parameters import INT64, PARAMETERS, Parameter

HEAD = """\
# The parameters

Every parameter of `POST /v1/completions`, with its option in a cell. In Python each is an argument of
`oai_nb.complete`, `oai_nb.stream` and `oai_nb.Request` by its own name. What is not set is left to the API,
whose default is in the table. This page is made from `oai_nb/parameters.py`.

| parameter | option | range | default | what it does |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(map(_row, PARAMETERS.values()))


def _row(parameter: Parameter) -> str:
    option = "the cell's text" if parameter.name == "prompt" else f"`{parameter.option}`"
    default = "" if parameter.default is None else f"`{parameter.default}`".replace("|", "\\|")
    return f"| `{parameter.name}` | {option} | {_range(parameter)} | {default} | {parameter.help} |\n"


def _range(parameter: Parameter) -> str:
    if parameter.range == INT64:
        return "any 64-bit integer"
    if parameter.kind in ("number", "integer"):
        return allowed(parameter.range)
    return parameter.kind.replace("_", " ") if parameter.kind in ("boolean", "string") else ""
