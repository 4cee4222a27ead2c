"""Keep the logs of a thousand remote jobs from flooding a triggerer or a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_FOLLOWED = 32
_READ_AT_ONCE = 8
_READS_PER_SECOND = 20.0
_SHORTEST_ROUND_SECONDS = 5.0
_POD_UNITS_PER_SECOND, _POD_BURST_UNITS = 300.0, 3000.0
_CLUSTER_UNITS_PER_SECOND, _CLUSTER_BURST_UNITS = 2000.0, 6000.0


class Pace:
    """How fast something may go on for long, and how much at once.

    :param burst: as much passes without a delay after a time of rest.
    """

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = self._left = burst
        self._at = time.monotonic()

    def spend(self, units: float) -> float:
        """Let something pass and return how many seconds to wait before anything more."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second) - units
        self._at = now
        return max(0.0, -self._left / self._per_second)


def pod_pace() -> Pace:
    """Return the pace of one pod's log, in units of :meth:`LogTurns.passed`."""
    return Pace(_POD_UNITS_PER_SECOND, _POD_BURST_UNITS)


class Part:
    """The part that a pod's log takes in the turns, from its first line to its last.

    As a generator it would take half a kilobyte, and a triggerer has a thousand.

    :param count: takes how many more there are.
    """

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *_: object) -> None:
        self._count(-1)


class LogTurns:
    """Who may read a log of this cluster now, and how.

    The first few pods are followed: a connection each, on which every line arrives at once. The logs of all
    others are read in turns, what is new each time, with few connections and at a bounded rate of requests:
    the more pods, the longer a round.
    """

    def __init__(self, *, followed: int = _FOLLOWED, at_once: int = _READ_AT_ONCE) -> None:
        self._followed_at_most = followed
        self._followed = 0
        self._waiting = 0
        self._reading = asyncio.Semaphore(at_once)
        self._pace = Pace(_CLUSTER_UNITS_PER_SECOND, _CLUSTER_BURST_UNITS)

    def taking_part(self) -> Part:
        """Be counted, while this is entered, among the pods whose logs are read."""
        return Part(self._count)

    def _count(self, more: int) -> None:
        self._waiting += more

    @contextlib.asynccontextmanager
    async def turn(self, *, last: bool) -> AsyncIterator[bool]:
        """Wait for a turn; inside, the value says whether the log may be followed.

        :param last: only what is left is to be read.
        """
        if not last and self._followed < self._followed_at_most:
            self._followed += 1
            self._waiting -= 1
            try:
                yield True
            finally:
                self._followed -= 1
                self._waiting += 1
        else:
            async with self._reading:
                yield False

    def round_seconds(self) -> float:
        """Return how long a pod that is not followed waits for its next turn."""
        return max(_SHORTEST_ROUND_SECONDS, self._waiting / _READS_PER_SECOND)

    def passed(self, line: bytes, pod: Pace) -> float:
        """Count a line, a long one more than once, and return how many seconds to wait before the next."""
        units = 1 + len(line) / 1024
        return max(pod.spend(units), self._pace.spend(units))
