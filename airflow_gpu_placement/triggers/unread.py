"""Lines that the triggers of this process have logged and Airflow may not have read yet.

A triggerer reads them from its child by four kilobytes at a time, between queries of its database, and closes
the file of a trigger as soon as it hears that it has ended: whatever it has not read by then is not in the
task's log. When it is killed, all of that is lost. But it answers a request of the child in the same rounds.
"""

from __future__ import annotations

import time

_READ_AT_ONCE_BYTES = 4096
_SLOWEST_BYTES_PER_SECOND = 5 * _READ_AT_ONCE_BYTES
_SOCKET_BYTES = 256 * 1024  # more than that does not wait: a line that finds no room holds up its writer
_BYTES_AROUND_A_LINE = 512  # names of the task, the time, the logger
_SPARE_ROUNDS = 2


class Unread:
    """How much may wait to be read."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._at = time.monotonic()

    def add(self, line: str) -> None:
        """Count a line that is being logged."""
        self._bytes = min(self._now() + len(line.encode()) + _BYTES_AROUND_A_LINE, _SOCKET_BYTES)

    def rounds(self) -> int:
        """Return how many requests must be answered, one after the other, until all of it is read."""
        return int(self._now() // _READ_AT_ONCE_BYTES) + _SPARE_ROUNDS

    def _now(self) -> float:
        now = time.monotonic()
        self._bytes = max(0.0, self._bytes - (now - self._at) * _SLOWEST_BYTES_PER_SECOND)
        self._at = now
        return self._bytes


unread = Unread()
