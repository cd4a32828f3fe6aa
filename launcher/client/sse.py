"""Server-Sent Events from bytes, as a pure feed/flush object.

Works on whole lines of bytes: a line feed is never part of a longer UTF-8 character, so a chunk may
be cut anywhere, inside a character too. Lines end at LF or CR LF and nowhere else: U+2028, U+0085 and
their like are ordinary text to JSON and to us.
"""

from __future__ import annotations

from launcher.errors import ServerRefused

LIMIT = 8 * 1024 * 1024  # bytes of one event; the largest that llama-server sends is a few KiB

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Bytes in, the ``data`` of each event out. Comments, pings and other fields are ignored.

    Bytes that are no UTF-8 become U+FFFD. Raises ServerRefused when one event outgrows ``limit`` bytes:
    whatever sends that is no llama-server.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._tail: list[bytes] = []  # pieces of a line that has not ended yet
        self._data: list[bytes] = []  # data lines of an event that has not ended yet
        self._held = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[str]:
        """Take in the next bytes; return the data of the events that they complete."""
        if b"\n" not in chunk:
            self._hold(self._tail, chunk)
            return []
        lines = (b"".join([*self._tail, chunk]) if self._tail else chunk).split(b"\n")
        self._held = sum(map(len, self._data))
        self._tail = []
        done: list[str] = []
        for line in lines[:-1]:
            self._line(line, done)
        if lines[-1]:
            self._hold(self._tail, lines[-1])
        return done

    def flush(self) -> list[str]:
        """The stream is over: return what a sender that forgot the last blank line still owes us."""
        done: list[str] = []
        if self._tail:
            self._line(b"".join(self._tail), done)
            self._tail = []
        self._line(b"", done)
        return done

    def _line(self, line: bytes, done: list[str]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        line = line.removesuffix(b"\r")
        if not line:
            if self._data:
                done.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._data = []
                self._held = 0
            return
        if line.startswith(b"data:"):
            self._hold(self._data, line[6:] if line[5:6] == b" " else line[5:])
        elif line == b"data":
            self._hold(self._data, b"")

    def _hold(self, where: list[bytes], piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._limit:
            raise ServerRefused(
                f"The engine sent one event of more than {self._limit} bytes, which no answer needs.",
                "Check that the address belongs to a llama-server.",
            )
        where.append(piece)
