"""Where a log stream stopped, so that the next one goes on without a gap and without a repeat: pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from airflow_gpu_placement.watch.stamps import Grid

_SECOND = 19  # length of 2026-01-31T12:00:00


class Bookmark(msgspec.Struct, frozen=True, array_like=True):
    """Where a log stopped, in a form that can be stored.

    :param second: the newest second, as the log writes it.
    :param given: lines given out with a stamp in that second.
    :param newest_seconds: the newest stamp, in seconds since 1970.
    :param newest_fraction: the digits after its decimal point.
    :param moment: under which the last line was told, in microseconds since 1970.
    :param earliest_fraction: the same digits of the earliest stamp in that second.
    """

    second: str
    given: int
    newest_seconds: float
    newest_fraction: str
    moment: int = 0
    earliest_fraction: str = ""


class Line(NamedTuple):
    """A line of a log that is to be told.

    :param moment: under which, in microseconds since 1970: the same for every watcher.
    :param continues: whether it is the next piece of the line before it.
    :param of_node: whether it is no line of the log, but what the node says instead of one.
    """

    text: bytes
    moment: int
    continues: bool = False
    of_node: bool = False


class LogPosition:
    """How much of one container's log has been given out.

    The API can begin at a whole second only, so the next stream starts with the last second anew. Of its
    lines as many are dropped as were given out before; the order within a log never changes. A line that is
    newer than all that was given out is never dropped (the log may have been rotated in between). The rest of
    a long line that began before that second comes first, with a stamp of its own: it is not one of them.

    :param mark: where somebody else stopped; ``None``: at the beginning.
    :param grid: the moments that its lines may take.
    """

    __slots__ = (
        "_begun",
        "_dropping",
        "_earliest",
        "_given",
        "_grid",
        "_newest",
        "_pieces",
        "_second",
        "_second_value",
        "_to_drop",
        "moment",
    )

    def __init__(self, mark: Bookmark | None = None, grid: Grid = Grid()) -> None:  # noqa: B008 - immutable
        mark = mark or Bookmark("", 0, 0.0, "")
        self._grid = grid
        self.moment = mark.moment  # of the last line that was told
        self._pieces = 0  # that followed it
        self._second = mark.second  # the newest second, as text with its offset
        parsed = _parse(mark.second)
        self._second_value = 0.0 if parsed is None else parsed[1][0]
        self._given = mark.given  # lines given out with a stamp in or after the newest second
        self._newest: tuple[float, str] = (mark.newest_seconds, mark.newest_fraction)
        self._earliest = mark.earliest_fraction  # of those lines
        self._to_drop = 0
        self._dropping = False
        self._begun = False  # whether this stream has given a line with a stamp

    def take_newer(self, line: bytes) -> Line | None:
        """Return a stamped line of any stream; ``None`` when it is no newer than what :meth:`take` gave."""
        stamp, _, text = line.partition(b" ")
        at = _parse(stamp.decode("ascii", "replace"))
        return None if at is None or at[1] <= self._newest else self._line(text, at[1])

    def mark(self) -> Bookmark | None:
        """Return where the log stops now; ``None``: nothing was given out yet."""
        if not self._second:
            return None
        return Bookmark(self._second, self._given, *self._newest, self.moment, self._earliest)

    def query(self) -> dict[str, str]:
        """Return the parameters of the next stream, and be ready to drop what it repeats."""
        self._to_drop = self._given
        self._begun = False
        return {"timestamps": "true"} | ({"sinceTime": self._second} if self._second else {})

    def take(self, line: bytes) -> Line | None:
        """Return a stamped line; ``None`` when it was given out before."""
        stamp, _, text = line.partition(b" ")
        at = _parse(stamp.decode("ascii", "replace"))
        if at is None and not self._begun:
            # A node that cannot read a log says why in its place, and calls that an answer.
            return Line(line, self.moment, of_node=True)
        if at is None:
            # No stamp: the next piece of a line that was too long, which goes the way of its first.
            return None if self._dropping else self._piece(line)
        self._begun = True
        second, value = at
        if self._to_drop:
            self._dropping = value <= self._newest
            is_rest = value < (self._second_value, self._earliest)
            self._to_drop = self._to_drop - (0 if is_rest else 1) if self._dropping else 0
            if self._dropping:
                return None
        self._dropping = False
        if value[0] > self._second_value:
            self._second, self._second_value, self._given = second, value[0], 1
            self._earliest = value[1]
        elif value[0] == self._second_value:
            self._given += 1
            self._earliest = min(self._earliest, value[1])
        self._newest = max(self._newest, value)
        return self._line(text, value)

    def _line(self, text: bytes, at: tuple[float, str]) -> Line:
        stamped = int(at[0]) * 1_000_000 + int(at[1][:6])
        self.moment = self._grid.after(stamped, self.moment)
        self._pieces = 0
        return Line(text, self.moment)

    def _piece(self, text: bytes) -> Line:
        # Right after its first, so that the moments of later lines do not hang on how it was cut.
        self._pieces += 1
        return Line(text, self.moment + self._pieces, continues=True)


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
