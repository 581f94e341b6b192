"""The event decoder: the standard's own examples, fed in nasty pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb.sse import Decoder


def decode(*pieces):
    decoder = Decoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n", b""]),
        (b": test\n\ndata: a\nid: 1\n\n", [b"a"]),
        (b"id: 1\n\n: ping\n\nevent: x\nretry: 5\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        ("data: a\u2028b\u2029c\x0bd\x0ce\x85f\n\n".encode(), ["a\u2028b\u2029c\x0bd\x0ce\x85f".encode()]),
        (b"data: {}\n\ndata: [DONE]", [b"{}", b"[DONE]"]),
        (b"database: no\n\n", []),
        (b"", []),
        (b"\n\n\n", []),
    ],
)
def test_decodes(raw, events):
    assert decode(raw) == events
    assert decode(*(raw[i : i + 1] for i in range(len(raw)))) == events


def test_an_event_is_given_as_soon_as_its_blank_line_is_there():
    decoder = Decoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\ndata: b") == [b"a"]


pieces = st.lists(
    st.sampled_from(
        [b"data: x", b"data:", b"\n", b"\r", b"\r\n", b": c", b"id", "é\u2028".encode(), b"\xef\xbb\xbf"]
    )
)


@given(pieces, st.lists(st.integers(0, 200)))
def test_any_cut_of_the_bytes_gives_the_same_events(parts, cuts):
    raw = b"".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    assert decode(*(raw[a:b] for a, b in pairwise(edges))) == decode(raw)
