"""How long an event loop stands still."""

from __future__ import annotations

import asyncio
import time

_TICK_SECONDS = 0.001


class LoopWatch:
    """Measures how late the event loop gets to a call that is due every millisecond.

    On a busy machine that is also time in which the process did not run at all, so the CPU time that passed
    meanwhile in the whole process is kept beside it.
    """

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self.longest_cpu_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + _TICK_SECONDS
        self._cpu = time.process_time()
        self._handle = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        now, cpu = self._loop.time(), time.process_time()
        self.longest_seconds = max(self.longest_seconds, now - self._due)
        self.longest_cpu_seconds = max(self.longest_cpu_seconds, cpu - self._cpu)
        self._due, self._cpu = now + _TICK_SECONDS, cpu
        self._handle = self._loop.call_at(self._due, self._tick)

    def stop(self) -> None:
        """End it."""
        self._handle.cancel()
