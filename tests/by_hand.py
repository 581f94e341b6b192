"""A server written out by hand, where the scripted one does too much: one call a request."""


def take_request(connection):
    """Read a whole request: closing on an unread rest would reset the connection."""
    with connection.makefile("rb") as lines:
        length = 0
        while (line := lines.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        lines.read(length)
