"""Colours that can be read on white and on black, and HTML that shows text and nothing else."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb import markup, plots
from oai_nb.markup import bar, escaped, isolated, percent, shade, tint

WHITE, BLACK = (255, 255, 255), (17, 17, 17)
AA = 4.5


def luminance(color):
    parts = [c / 255 for c in color]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def blend(color, alpha, page):
    return tuple(alpha * c + (1 - alpha) * p for c, p in zip(color, page))


def parsed(text):
    """The colour and opacity of #rrggbb, #rrggbbaa or rgba()."""
    if found := re.search(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)", text):
        return tuple(map(int, found.groups()[:3])), float(found[4])
    digits = re.search("#([0-9a-f]+)", text)[1]
    values = [int(digits[i : i + 2], 16) for i in range(0, len(digits), 2)]
    return tuple(values[:3]), (values[3] / 255 if len(values) == 4 else 1.0)


# JupyterLab's text: black or white of opacity .87, and our small lines of .75 of that.
PAGES = [(WHITE, (0, 0, 0)), (BLACK, (255, 255, 255))]
SURPRISE = [shade(prob) for prob in (0.69, 0.5, 0.2, 0.05, 0.005, 1e-9)]
CHANCE = [*(tint(prob) for prob in (0.1, 0.5, 1.0)), bar(0.5)]
FULL, SMALL = 0.87, 0.87 * 0.75


@pytest.mark.parametrize(
    ("style", "opacity"),
    [(style, opacity) for style in SURPRISE for opacity in (FULL, SMALL)]
    + [(style, FULL) for style in CHANCE],
)
@pytest.mark.parametrize(("page", "ink"), PAGES)
def test_text_has_enough_contrast_on_every_colour_behind_it(style, opacity, page, ink):
    behind = blend(*parsed(style), page)
    assert contrast(blend(ink, opacity, behind), behind) >= AA


@pytest.mark.parametrize("z", [i / 20 for i in range(21)])
def test_the_text_of_the_heatmap_has_enough_contrast_in_every_cell(z):
    low, high = parsed(plots._UNLIKELY)[0], parsed(plots._LIKELY)[0]
    cell = blend(high, z, low)
    ink = tuple(int(c * 2, 16) for c in plots._INK[1:])
    assert contrast(ink, cell) >= AA


def test_surprise_is_seen_without_hue():
    """The line grows thicker and the background darker, step by step; where the model was sure is silence."""
    styles = [shade(p) for p in (0.5, 0.05, 0.002)]
    widths = [int(re.search(r"border-bottom:(\d)px", style)[1]) for style in styles]
    depths = [contrast(WHITE, blend(*parsed(style), WHITE)) for style in styles]
    assert widths == [1, 2, 3] and depths == sorted(depths) and shade(0.7) == shade(1.0) == ""


@pytest.mark.parametrize(
    ("prob", "text"),
    [
        (1, "100%"),
        (0.998, "99.8%"),
        (0.53, "53%"),
        (0.0171, "1.7%"),
        (0.0003, "0.03%"),
        (1e-9, "<0.01%"),
        (0, "0%"),
    ],
)
def test_probabilities_in_about_two_digits(prob, text):
    assert percent(prob) == text


class Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


@given(st.text())
def test_escaped_text_is_text(text):
    for html in (escaped(text), isolated(text)):
        reader = Reader()
        reader.feed(f"<pre>{html}</pre>")
        reader.close()
        assert set(reader.tags) <= {"pre", "bdi"}
        assert reader.text.replace("\n", "").replace("\t", "").replace("\u00a0", "") == markup.printable(
            text
        ).replace("\n", "").replace("\t", "").replace("\u00a0", "")


def test_writing_from_the_right_is_kept_to_itself():
    assert isolated("שלום") == "<bdi>שלום</bdi>" and isolated("é") == "é"
