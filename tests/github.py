"""GitHub's rules for HTML in a notebook, as far as they are known.

Known: its pages show static HTML; scripts, ``<style>``, and the attributes style, class and id are dropped
(pandas' issue 33076, nbviewer's issue 450), tags that are not listed are dropped and what is in them stays.
The list here is that of the open html-pipeline, from which GitHub's own came. Not known: the list in use
today for notebooks. So this is the narrow reading: what reads well under it does so under a wider one.
"""

import bleach

TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "blockquote", "pre", "hr", "br", "details", "summary"),
    *(
        "b",
        "i",
        "strong",
        "em",
        "code",
        "tt",
        "samp",
        "kbd",
        "var",
        "ins",
        "del",
        "s",
        "strike",
        "sup",
        "sub",
    ),
    *("a", "img", "q", "ruby", "rt", "rp", "ul", "ol", "li", "dl", "dt", "dd"),
    *("table", "thead", "tbody", "tfoot", "tr", "td", "th"),
}
ATTRIBUTES = {"*": ["align", "dir", "open", "title", "colspan"]}


def shown(html):
    """Return what is left of one text/html output."""
    return bleach.clean(html, tags=TAGS, attributes=ATTRIBUTES, strip=True, strip_comments=True)
