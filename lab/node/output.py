"""A container's output as the lines of its log file. The shim's: standard library only."""

from __future__ import annotations

import os
import time

LINE_LIMIT_BYTES = 16384  # longer lines are split, as containerd does


class Log:
    """Writes ``<time> <F|P> <line>`` for each line of output; P marks a piece of a longer line."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take output; the unfinished last line waits for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        pieces: list[tuple[bytes, bytes]] = []
        for line in lines:
            while len(line) > LINE_LIMIT_BYTES:
                pieces.append((b"P", line[:LINE_LIMIT_BYTES]))
                line = line[LINE_LIMIT_BYTES:]
            pieces.append((b"F", line))
        while len(self._rest) > LINE_LIMIT_BYTES:
            pieces.append((b"P", self._rest[:LINE_LIMIT_BYTES]))
            self._rest = self._rest[LINE_LIMIT_BYTES:]
        self._write(pieces)

    def close(self) -> None:
        """Write a last line that had no end."""
        if self._rest:
            self._write([(b"P", self._rest)])

    def _write(self, pieces: list[tuple[bytes, bytes]]) -> None:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09d}Z "
        text = b"".join(stamp.encode() + tag + b" " + line + b"\n" for tag, line in pieces)
        while text:
            text = text[os.write(self._file, text) :]
