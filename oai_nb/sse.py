"""Server-sent events, incrementally: bytes in as they come, the data of whole events out.

Only what the Completions API uses of the standard (https://html.spec.whatwg.org/multipage/server-sent-events.html):
`data` fields and their joining. Lines end at LF, CR or CRLF and nowhere else, so that U+2028 inside a
token is text. No I/O and no JSON here.
"""

from __future__ import annotations

DONE = b"[DONE]"


class Decoder:
    r"""Decode a stream of bytes, cut anywhere.

    >>> decoder = Decoder()
    >>> decoder.feed(b'data: {"a"'), decoder.feed(b': 1}\n\n')
    ([], [b'{"a": 1}'])
    """

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of each event that `chunk` completes; events without data are none."""
        buffer = self._tail + chunk
        if self._start and buffer:
            if len(buffer) < 3 and b"\xef\xbb\xbf".startswith(buffer):
                self._tail = buffer
                return []
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
            self._start = False
        whole, self._tail = _cut(buffer)
        return self._lines(whole)

    def close(self) -> list[bytes]:
        """Return what the end of the stream completes: a last event without its blank line counts."""
        events = self._lines(self._tail + b"\n\n")
        self._tail = b""
        return events

    def _lines(self, whole: bytes) -> list[bytes]:
        events = []
        for line in whole.splitlines():
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                self._data.append(b"")
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


def _cut(buffer: bytes) -> tuple[bytes, bytes]:
    """Cut after the last line end; a final CR waits, since an LF may follow and belong to it."""
    end = max(buffer.rfind(b"\n"), buffer.rfind(b"\r", 0, -1)) + 1
    return buffer[:end], buffer[end:]
