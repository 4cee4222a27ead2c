"""A clock that does not count the time in which this process could not listen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class AwakeClock:
    """Monotonic seconds during which this event loop was running.

    A process that was stopped or starved for a minute has not listened for a minute: without this, every node
    would seem to have been silent for that minute, although its renewals wait in the socket.

    :param longest_step_seconds: more than that between two ticks was sleep and is not counted.
    :param source: the monotonic clock below.
    """

    def __init__(self, *, longest_step_seconds: float, source: Callable[[], float] = time.monotonic) -> None:
        self._longest = longest_step_seconds
        self._source = source
        self._counted = 0.0
        self._asleep = 0.0
        self._last = source()

    def now(self) -> float:
        """Return the awake seconds since the clock was made."""
        return self._counted + min(self._source() - self._last, self._longest)

    def tick(self) -> None:
        """Count the time since the last tick; to be called more often than the longest step."""
        self._counted, self._asleep = self.now(), self.asleep_seconds()
        self._last = self._source()

    def asleep_seconds(self) -> float:
        """Return the time that was not counted, of all sleeps together."""
        return self._asleep + max(0.0, self._source() - self._last - self._longest)
