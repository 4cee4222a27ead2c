"""Turns for work that stops the event loop for a moment, so that many such moments never add up to one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_LOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
_LET_GO = 500
"""Objects that are let go of in one turn, which takes some two milliseconds."""
_NEVER = 2**30


@contextlib.asynccontextmanager
async def a_turn() -> AsyncIterator[None]:
    """Wait until this loop has run everything else that was ready, and let nobody else have a turn meanwhile.

    A page of 500 nodes takes some ten milliseconds to decode, and nothing else runs in them, in whichever
    thread it is done. Pages of many clusters that arrive together would stop the loop for all of them at
    once.
    """
    lock = _LOCKS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:
        await asyncio.sleep(0)
        yield


async def in_turn() -> None:
    """Wait for a turn and give it up at once: for short work that a thousand may be about to do.

    The next one goes on when everything else that was ready has run.
    """
    async with a_turn():
        pass


async def let_go(objects: list[Any]) -> None:
    """Empty a list of large objects bit by bit: fifteen thousand at once stop the loop for 35 ms."""
    while objects:
        async with a_turn():
            del objects[-_LET_GO:]


class _Postponed:
    """How many want full collections put off now, and what to go back to when nobody does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted_by = 0
        self._usual = (0, 0, 0)

    def begin(self) -> None:
        with self._lock:
            if not self._wanted_by:
                self._usual = gc.get_threshold()
                gc.set_threshold(self._usual[0], self._usual[1], _NEVER)
            self._wanted_by += 1

    def end(self) -> None:
        with self._lock:
            self._wanted_by -= 1
            if not self._wanted_by:
                gc.set_threshold(*self._usual)


_POSTPONED = _Postponed()


@contextlib.contextmanager
def full_collections_postponed() -> Iterator[None]:
    """Keep the garbage collector from looking at all that the process has loaded, which takes 50 ms or more.

    New connections by the dozen make it do so, although what is read is out of its sight. Young objects are
    looked at as ever.
    """
    _POSTPONED.begin()
    try:
        yield
    finally:
        _POSTPONED.end()
