"""Remember how far the logs of a remote job were given out, so that the next watcher goes on there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from airflow_gpu_placement.watch.position import LogPosition
from airflow_gpu_placement.watch.stamps import Grid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from airflow_gpu_placement.watch.position import Bookmark

logger = logging.getLogger(__name__)

_SAVE_SECONDS = 2.0
_LAST_SAVE_SECONDS = 5.0
_SUSPICIOUS_SLEEP_SECONDS = 10.0

_saving: set[asyncio.Task[None]] = set()  # keeps what outlives its caller from being collected


class LogBookmarks(Protocol):
    """Where the positions of one remote job's logs are kept between two watchers.

    Every call may raise anything, and ends in some time.
    """

    async def load(self) -> Mapping[str, Bookmark]:
        """Take over from whoever watched before; return the position of each log, by uid of the pod."""

    async def save(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions."""

    async def save_now(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions at once: there may be no other time."""

    async def is_ours(self) -> bool:
        """Tell whether nobody else has taken over since."""


class LogBook:
    """The positions of all logs of one remote job.

    They are saved every two seconds while lines come, and when the watch is cancelled. What is saved is two
    seconds old: a line reaches its file by another way than its position does, and a triggerer that is killed
    in between would leave a gap. So what it told in its last seconds is told once more.

    :param bookmarks: where they are kept; ``None``: nowhere.
    :param asleep_seconds: how long this process could not run so far: meanwhile somebody may have taken over.
    """

    __slots__ = (
        "_asleep",
        "_asleep_seconds",
        "_bookmarks",
        "_loading",
        "_positions",
        "_saved",
        "_saver",
        "_taken_over",
    )

    def __init__(self, bookmarks: LogBookmarks | None, asleep_seconds: Callable[[], float]) -> None:
        self._bookmarks = bookmarks
        self._asleep_seconds = asleep_seconds
        self._asleep = asleep_seconds()
        self._loading: asyncio.Task[Mapping[str, Bookmark]] | None = None
        self._saver: asyncio.Task[None] | None = None
        self._positions: dict[str, LogPosition] = {}
        self._saved: dict[str, Bookmark] = {}
        self._taken_over = False

    async def position(self, pod_uid: str, grid: Grid = Grid()) -> LogPosition:  # noqa: B008 - immutable
        """Return where to go on with a pod's log.

        :param grid: the moments that its lines may take.
        """
        if pod_uid not in self._positions:
            marks: Mapping[str, Bookmark] = {}
            if self._bookmarks is not None:
                if self._loading is None:
                    self._loading = asyncio.create_task(self._load(self._bookmarks))
                marks = await asyncio.shield(self._loading)
            self._positions[pod_uid] = LogPosition(marks.get(pod_uid), grid)
        return self._positions[pod_uid]

    async def may_give(self) -> bool:
        """Tell whether lines are still ours to give out; after a long sleep, ask."""
        if self._bookmarks is None or self._taken_over:
            return not self._taken_over
        asleep = self._asleep_seconds()
        if asleep - self._asleep >= _SUSPICIOUS_SLEEP_SECONDS:
            try:
                self._taken_over = not await self._bookmarks.is_ours()
            except Exception:
                # The edge to the store: a log is better given out twice than not at all.
                logger.warning("who reads the logs cannot be asked", exc_info=True)
            self._asleep = asleep  # known from here on, for whoever else asks as well
        return not self._taken_over

    def changed(self) -> None:
        """Know that a line was given out; it is saved a little later."""
        if self._bookmarks is not None and (self._saver is None or self._saver.done()):
            self._saver = asyncio.create_task(self._save_while_changing(self._bookmarks))

    async def close(self, *, save: bool) -> None:
        """Stop saving.

        :param save: once more, since somebody will go on; not cut off when the caller is cancelled again.
        """
        for task in (self._loading, self._saver):
            if task is not None:
                task.cancel()
        changed = self._marks() != self._saved
        if save and changed and self._bookmarks is not None and not self._taken_over:
            last = asyncio.create_task(self._save_last(self._bookmarks))
            _saving.add(last)
            last.add_done_callback(_saving.discard)
            await asyncio.shield(last)

    async def _load(self, bookmarks: LogBookmarks) -> Mapping[str, Bookmark]:
        try:
            return await bookmarks.load()
        except Exception:
            # The edge to the store, which may raise anything.
            logger.warning("positions in the logs are not known; they begin anew", exc_info=True)
            return {}

    async def _save_while_changing(self, bookmarks: LogBookmarks) -> None:
        marks = self._marks()
        while marks != self._saved:
            await asyncio.sleep(_SAVE_SECONDS)
            if not await self.may_give():
                return
            newer = self._marks()
            await self._save(bookmarks.save, marks)
            if newer == marks:
                return  # even if it failed: the next line tries again
            marks = newer

    async def _save_last(self, bookmarks: LogBookmarks) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SAVE_SECONDS):
                if await self.may_give():
                    await self._save(bookmarks.save_now, self._marks())

    def _marks(self) -> dict[str, Bookmark]:
        return {uid: mark for uid, one in self._positions.items() if (mark := one.mark()) is not None}

    async def _save(
        self, save: Callable[[dict[str, Bookmark]], Awaitable[None]], marks: dict[str, Bookmark]
    ) -> None:
        try:
            await save(marks)
        except Exception:
            # As above: the next watcher repeats some lines.
            logger.warning("positions in the logs cannot be saved", exc_info=True)
        else:
            self._saved = marks
