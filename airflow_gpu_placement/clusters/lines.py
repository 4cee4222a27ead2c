"""Cut a stream of byte chunks into lines, however long they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class LineSplitter:
    """Gathers chunks until a line is whole; each byte is looked at once.

    :param limit: longest line in bytes; a longer one is given out in pieces of that size. ``None``: no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield every line that ``chunk`` completes, without its end."""
        searched = len(self._rest)
        self._rest += chunk
        start = 0
        while (end := self._rest.find(b"\n", max(start, searched))) >= 0:
            yield from self._pieces(bytes(self._rest[start:end]))
            start = end + 1
        del self._rest[:start]
        while self._limit is not None and len(self._rest) > self._limit:
            yield bytes(self._rest[: self._limit])
            del self._rest[: self._limit]

    def flush(self) -> Iterator[bytes]:
        """Yield what is left at the end of the stream, if anything."""
        if self._rest:
            yield bytes(self._rest)
            self._rest.clear()

    def _pieces(self, line: bytes) -> Iterator[bytes]:
        if self._limit is None or len(line) <= self._limit:
            yield line
            return
        for start in range(0, len(line), self._limit):
            yield line[start : start + self._limit]
