"""Growing delays between tries, as a kubelet has them."""

from __future__ import annotations

import time

LONGEST = 30  # times the first delay
FORGOTTEN = 60  # times the first delay, without a try: then it begins anew


class Backoff:
    """The delays of one container: the first one, then doubled each time up to 30 times.

    :param base_seconds: the first delay; a kubelet has 10.
    :param first_free: whether the first try of all is not delayed.
    """

    def __init__(self, base_seconds: float, *, first_free: bool = False) -> None:
        self._base = base_seconds
        self._first_free = first_free
        self._tries = 0
        self._last = 0.0

    def next(self) -> float:
        """Return how long to wait now, and count it as a try."""
        clock = time.monotonic()
        if self._tries and clock - self._last > FORGOTTEN * self._base:
            self._tries = 0
        self._last = clock
        doublings = self._tries - (1 if self._first_free else 0)
        self._tries += 1
        if doublings < 0:
            return 0.0
        return self._base * min(LONGEST, 2.0 ** min(doublings, 10))
