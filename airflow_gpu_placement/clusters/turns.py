"""Turns for work that stops the event loop for a moment, so that many such moments never add up to one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


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
