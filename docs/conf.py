"""How Sphinx builds these pages: `.ci/docs`. What is built needs no server and no network."""

import importlib.metadata
import re
from pathlib import Path

from docutils import nodes
from ipython_pygments_lexers import IPython3Lexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from oai_nb import Completion
from oai_nb.strip import bundle

project = author = "oai_nb"
project_copyright = "the authors of oai_nb"
release = importlib.metadata.version("oai-nb")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_heading_anchors = 3
smartquotes = False

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"

html_theme = "furo"
html_title = "oai_nb"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_search_summary = False  # it would fetch the pages found, which browsers refuse from a folder
html_theme_options = {"navigation_with_keys": True}


class Shown(SphinxDirective):
    """Show a recorded answer as a cell shows it: the argument is a file that `Completion.to_json` wrote."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return its HTML."""
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        completion = Completion.from_json(Path(path).read_bytes())
        html = bundle(completion)["text/html"]
        return [nodes.raw("", f'<div class="shown">{html}</div>', format="html")]


def _as_literal(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Keep the indented examples of docstrings as they are typed."""
    for number, line in reversed(list(enumerate(lines))):
        above = lines[number - 1] if number else ""
        if re.match(r" {4}\S", line) and not above.strip():
            lines[number:number] = ["::", ""]


def setup(app: Sphinx) -> None:
    """Add what is ours: cells are coloured as IPython reads them."""
    app.add_lexer("python", IPython3Lexer)
    app.add_directive("shown", Shown)
    app.connect("autodoc-process-docstring", _as_literal)
