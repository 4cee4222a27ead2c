"""Where a log stream stopped, so that the next one goes on without a gap and without a repeat: pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

_SECOND = 19  # length of 2026-01-31T12:00:00


class Bookmark(msgspec.Struct, frozen=True, array_like=True):
    """Where a log stopped, in a form that can be stored.

    :param second: the newest second, as the log writes it.
    :param given: lines given out with a stamp in that second.
    :param newest_seconds: the newest stamp, in seconds since 1970.
    :param newest_fraction: the digits after its decimal point.
    """

    second: str
    given: int
    newest_seconds: float
    newest_fraction: str


class LogPosition:
    """How much of one container's log has been given out.

    The API can begin at a whole second only, so the next stream starts with the last second anew. Of its
    lines as many are dropped as were given out before; the order within a log never changes. A line that is
    newer than all that was given out is never dropped (the log may have been rotated in between).

    :param mark: where somebody else stopped; ``None``: at the beginning.
    """

    __slots__ = ("_dropping", "_given", "_newest", "_second", "_second_value", "_to_drop", "continues")

    def __init__(self, mark: Bookmark | None = None) -> None:
        mark = mark or Bookmark("", 0, 0.0, "")
        self._second = mark.second  # the newest second, as text with its offset
        parsed = _parse(mark.second)
        self._second_value = 0.0 if parsed is None else parsed[1][0]
        self._given = mark.given  # lines given out with a stamp in or after the newest second
        self._newest: tuple[float, str] = (mark.newest_seconds, mark.newest_fraction)
        self._to_drop = 0
        self._dropping = False
        self.continues = False  # whether what was taken last is the next piece of a line

    def is_new(self, line: bytes) -> bool:
        """Whether a stamped line is newer than all that was given out."""
        at = _parse(line.partition(b" ")[0].decode("ascii", "replace"))
        return at is not None and at[1] > self._newest

    def mark(self) -> Bookmark | None:
        """Return where the log stops now; ``None``: nothing was given out yet."""
        return Bookmark(self._second, self._given, *self._newest) if self._second else None

    def query(self) -> dict[str, str]:
        """Return the parameters of the next stream, and be ready to drop what it repeats."""
        self._to_drop = self._given
        return {"timestamps": "true"} | ({"sinceTime": self._second} if self._second else {})

    def take(self, line: bytes) -> bytes | None:
        """Return the text of a stamped line; ``None`` when it was given out before."""
        stamp, _, text = line.partition(b" ")
        at = _parse(stamp.decode("ascii", "replace"))
        self.continues = at is None
        if at is None:
            # No stamp: the next piece of a line that was too long, which goes the way of its first.
            return None if self._dropping else line
        second, value = at
        if self._to_drop:
            self._dropping = value <= self._newest
            self._to_drop = self._to_drop - 1 if self._dropping else 0
            if self._dropping:
                return None
        self._dropping = False
        if value[0] > self._second_value:
            self._second, self._second_value, self._given = second, value[0], 1
        elif value[0] == self._second_value:
            self._given += 1
        self._newest = max(self._newest, value)
        return text


def _parse(stamp: str) -> tuple[str, tuple[float, str]] | None:
    """Return the second as text, and the time as a pair that can be compared: second, fraction."""
    rest = stamp[_SECOND:]
    fraction = ""
    if rest.startswith("."):
        digits = len(rest) - len(rest[1:].lstrip("0123456789"))
        fraction, rest = rest[1:digits], rest[digits:]
    try:
        second = datetime.fromisoformat(stamp[:_SECOND] + rest)
    except ValueError:
        return None
    if second.tzinfo is None:
        return None
    return stamp[:_SECOND] + rest, (second.timestamp(), fraction.ljust(9, "0"))
