"""Texts that something on the way to the eye could take for an instruction, and answers made of them.

Each name says what is not to happen to its tokens. `HOST` is asked by nobody unless a text was interpreted.
"""

from wire import DONE, Wait, event, stream

from oai_nb.visible import printable

HOST = "odd.invalid"
ODD = {
    "right to left": ["שלום", " עולם", " 12", ", hello ", "مر", "حبا", " بالعالم", " (abc)", "\n"],
    "override": ["user", "\u202e", "}txt.exe", "\u202c", " \u2066a\u2069", "\u200f", " after", "\n"],
    "emoji": ["👩", "\u200d", "👧", " ❤", "\ufe0f", " 👍", "🏽", " 🇩", "🇪", " e", "\u0301", "\n"],
    "no width": ["zero", "\u200b", "width\u200cnon\u2060\ufeff\u00ad", "\u3164", "\u034f", "\n"],
    "control": ["\0", "\x1b[31mred\x1b[0m", f"\x1b]8;;http://{HOST}/osc\x07link", "\x07", "\x9b1m", "\n"],
    "return": ["first\r", "second", "\b\b\b", "third", "\r\n", "\x0c", "\x85", "\u2028", "\n"],
    "halves": ["\ufffd", " \ufffd\ufffd ", "bytes:\\xf0\\x9f", "\n"],
    "maths": ["$x$", " $$y^2$$", " \\(x\\)", " \\[z\\]", " costs $5 and $6", "\n"],
    "tags": ["<b>bold</b>", " </pre></div>", "<br>", f' <a href="http://{HOST}/a">a</a>', "<!--", "\n"],
    "entities": ["&amp;", " &lt;b&gt;", " &#36;", " &copy", "&nbsp;", "\n"],
    "scripts": ["<script>alert(1)</script>", f"<img src=http://{HOST}/i.png onerror=alert(2)>", "\n"],
    "markdown": [f"![i](http://{HOST}/m.png)", " [l](javascript:alert(3))", " **b**", " `c`", "\n# h", "\n"],
    "links": [f"http://{HOST}/bare", f" www.{HOST}", " javascript:alert(4)", "\n"],
    "templates": ["%{z}", " %{x} {0}", "<extra>x</extra>", " {{y}}", "\n"],
    "spaces": ["\t", "tab", "   ", "\u00a0", "\n\n", "wide 日本語", " " + "w" * 120, "  "],
}
TOKENS = [token for tokens in ODD.values() for token in tokens]
TEXT = "".join(TOKENS)
SHOWN = printable(TEXT)
MARKUP = ["<b>x</b>", "<a href=//odd>", "$x$", "%{z}", "<extra>q", "&lt;", "<br>", "שלום"]
"""Tokens for a heatmap that shows all of them at once and whole."""
TAG = f"<img src=http://{HOST}/model.png onerror=alert(6)>"


def logprobs(position, token, tokens=TOKENS):
    """Describe one position: one of the alternatives is odd too, and the chosen one not always likeliest."""
    other = tokens[(7 * position + 3) % len(tokens)]
    mine, others = (-0.2, -2.0) if position % 3 else (-2.5, -0.3)
    top = {token: mine} | ({other: others} if other != token else {})
    return {"tokens": [token], "token_logprobs": [mine], "top_logprobs": [top], "text_offset": [0]}


def events(index=0, reason="stop", tokens=TOKENS, **more):
    """List the events of one choice, the last with its end."""
    each = [
        event(token, index, logprobs=logprobs(i, token, tokens), **more) for i, token in enumerate(tokens)
    ]
    return [*each, event("", index, reason, **more)]


def held(n=1):
    """Return a script of `n` odd choices that waits before their ends, and what it waits for."""
    gate, each = Wait(), [events(index) for index in range(n)]
    return stream(*(one for choice in each for one in choice[:-1]), gate, *(c[-1] for c in each), DONE), gate


def marked_up():
    """Return a script of a few tokens that look like markup, with a model and an end that do too."""
    return stream(*events(tokens=MARKUP, reason="<b>end</b>", model=TAG), DONE)
