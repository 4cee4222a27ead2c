"""The node's network cable. A fault cuts it for everything the agent says and hears; containers live on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from lab.node.shim import write_atomically

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

LOG = logging.getLogger(__name__)
CUT_FLAG = "link.cut"  # exists while the node is cut off; it outlives the agent, as a pulled cable does
SEEN_FILE = "link.seen"  # what the agent has taken note of
CUT, WHOLE = "cut", "whole"


class Link:
    """Follows the flag in the node's folder.

    What the agent asks goes through :meth:`carry`; who is asked hears of each change by ``on_change``.
    """

    def __init__(self, root_dir: Path) -> None:
        self._root_dir = root_dir
        self._whole = asyncio.Event()
        self._whole.set()
        self._under_way: set[asyncio.Timeout] = set()
        self.on_change: list[Callable[[], None]] = []

    @property
    def is_cut(self) -> bool:
        """Whether nothing goes through."""
        return not self._whole.is_set()

    def look(self) -> None:
        """Take note of the flag and say so, for who has set it waits for that."""
        cut = (self._root_dir / CUT_FLAG).exists()
        if cut != self.is_cut:
            LOG.warning("the network is %s", "cut" if cut else "back")
            if cut:
                self._whole.clear()
                for patience in self._under_way:
                    patience.reschedule(asyncio.get_running_loop().time())
            else:
                self._whole.set()
            for tell in self.on_change:
                tell()
        write_atomically(str(self._root_dir / SEEN_FILE), CUT if cut else WHOLE)

    @contextlib.asynccontextmanager
    async def carry(self, timeout_seconds: float) -> AsyncIterator[None]:
        """Let a request through while the network is whole; a cut ends what is under way.

        A request that begins while it is cut fails when the time is up, or when the network is back: what it
        was to say is out of date then, so the sender has to begin anew.

        :raises TimeoutError: the network is cut.
        :raises ConnectionError: the network was cut when the request began.
        """
        if self.is_cut:
            async with asyncio.timeout(timeout_seconds):
                await self._whole.wait()
            raise ConnectionError("the network was cut when this was sent")
        async with asyncio.timeout(None) as patience:
            self._under_way.add(patience)
            try:
                yield
            finally:
                self._under_way.discard(patience)

    async def until_whole(self) -> None:
        """Wait until the network is whole."""
        await self._whole.wait()
