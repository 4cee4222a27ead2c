"""A container's log file: lines ``<RFC 3339 time, 9 digits> <F|P> <text>``, in the order of time.

Because times only grow, the file is its own index: the first line after a moment is found by bisection.
"""

from __future__ import annotations

import datetime
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STAMP_BYTES = len("2026-11-29T22:34:49.693228000Z")
PREFIX_BYTES = STAMP_BYTES + len(" F ")
BLOCK_BYTES = 65536


class BadLogRequest(Exception):
    """A log parameter that a node does not accept."""


@dataclass(frozen=True)
class LogRequest:
    """The query of a log request."""

    follow: bool = False
    timestamps: bool = False
    previous: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str | None = None  # the same form as the stamps in the file, so that text compares as time


def stamp(seconds: float) -> str:
    """Return a moment in the form of the file's time stamps."""
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def parse_log_request(query: Mapping[str, str], now_seconds: float | None = None) -> LogRequest:
    """Read the parameters that the API server passes on."""
    try:
        numbers = {
            name: int(query[name]) if name in query else None
            for name in ("tailLines", "limitBytes", "sinceSeconds")
        }
        since = _parse_since(query.get("sinceTime"), numbers["sinceSeconds"], now_seconds or time.time())
    except ValueError as error:
        raise BadLogRequest(f"invalid log parameter: {error}") from error
    return LogRequest(
        follow=query.get("follow") == "true",
        timestamps=query.get("timestamps") == "true",
        previous=query.get("previous") == "true",
        tail_lines=numbers["tailLines"],
        limit_bytes=numbers["limitBytes"],
        since=since,
    )


def _parse_since(since_time: str | None, since_seconds: int | None, now_seconds: float) -> str | None:
    if since_time is not None:
        return stamp(datetime.datetime.fromisoformat(since_time).timestamp())
    if since_seconds is not None:
        return stamp(now_seconds - since_seconds)
    return None


def first_line_since(stream: BinaryIO, since: str, size: int) -> int:
    """Offset of the first line whose time is not before a moment."""
    wanted = since.encode()
    low, high = 0, size  # low is the start of a line; the answer lies in [low, high]
    while low < high:
        middle = (low + high) // 2
        stream.seek(middle)
        if middle > low:
            stream.readline()
        start = stream.tell()
        if start >= high:  # less than a line between middle and high: few lines are left
            return _scan_since(stream, wanted, low, high)
        line = stream.readline()
        if line[:STAMP_BYTES] < wanted:
            low = start + len(line)
        else:
            high = start
    return low


def _scan_since(stream: BinaryIO, wanted: bytes, low: int, high: int) -> int:
    stream.seek(low)
    while low < high:
        line = stream.readline()
        if line[:STAMP_BYTES] >= wanted:
            break
        low += len(line)
    return low


def last_lines(stream: BinaryIO, count: int, size: int) -> int:
    """Offset at which the last lines of the file begin."""
    position, missing = size, count + 1  # the end of the line before the first wanted one
    while position > 0:
        step = min(BLOCK_BYTES, position)
        position -= step
        stream.seek(position)
        block = stream.read(step)
        ends = block.count(b"\n")
        if ends >= missing:
            cut = len(block)
            for _ in range(missing):
                cut = block.rindex(b"\n", 0, cut)
            return position + cut + 1
        missing -= ends
    return 0


class LogReader:
    """Reads one log file from where a request wants it to begin, in blocks, to its present end."""

    def __init__(self, path: Path, request: LogRequest) -> None:
        self._stream: BinaryIO = path.open("rb")
        self._request = request
        self._left = request.limit_bytes
        self._in_line = False
        size = os.fstat(self._stream.fileno()).st_size
        offset = 0
        if request.tail_lines is not None:
            offset = last_lines(self._stream, request.tail_lines, size)
        if request.since is not None:
            offset = max(offset, first_line_since(self._stream, request.since, size))
        self._stream.seek(offset)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    @property
    def exhausted(self) -> bool:
        """Whether the request's limit of bytes has been reached."""
        return self._left == 0

    def read(self) -> bytes:
        """Return the next block of text; empty at the present end of the file."""
        start = self._stream.tell()
        block = self._stream.read(BLOCK_BYTES)
        end = block.rfind(b"\n") + 1
        self._stream.seek(start + end)
        text = b"".join(self._show(line + b"\n") for line in block[:end].split(b"\n")[:-1])
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text

    def _show(self, line: bytes) -> bytes:
        piece = line[STAMP_BYTES + 1 : STAMP_BYTES + 2] == b"P"
        text = line[PREFIX_BYTES:-1] if piece else line[PREFIX_BYTES:]
        shown = line[: STAMP_BYTES + 1] + text if self._request.timestamps and not self._in_line else text
        self._in_line = piece
        return shown


def log_tail(path: Path, lines: int, limit_bytes: int) -> str:
    """Return the end of a log, for a termination message."""
    try:
        reader = LogReader(path, LogRequest(tail_lines=lines))
    except FileNotFoundError:
        return ""
    try:
        text = b""
        while block := reader.read():
            text = (text + block)[-limit_bytes:]
    finally:
        reader.close()
    return text.decode(errors="replace")
