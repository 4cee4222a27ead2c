"""Positions in logs survive a change of the watcher."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.watch import bookmarks as module
from airflow_gpu_placement.watch.bookmarks import LogBook
from airflow_gpu_placement.watch.position import Bookmark

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.asyncio

LINES = [f"2026-01-01T00:00:00.{i:03}Z line {i}".encode() for i in range(10)]


class Shelf:
    """Bookmarks in memory, as JSON, with the name of whoever took over last."""

    def __init__(self) -> None:
        self.stored = b"{}"
        self.holder = 0
        self.saves = 0
        self.slow_seconds = 0.0
        self.slow_answer_seconds = 0.0
        self.broken = False

    def of(self, holder: int) -> Marks:
        """Return the bookmarks as one watcher has them."""
        return Marks(self, holder)


class Marks:
    """The bookmarks of one watcher."""

    def __init__(self, shelf: Shelf, holder: int) -> None:
        self._shelf = shelf
        self._holder = holder

    async def load(self) -> Mapping[str, Bookmark]:
        """Take over."""
        if self._shelf.broken:
            raise RuntimeError("no answer")
        self._shelf.holder = self._holder
        return msgspec.json.decode(self._shelf.stored, type=dict[str, Bookmark])

    async def save(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep them."""
        await asyncio.sleep(self._shelf.slow_seconds)
        if self._shelf.broken:
            raise RuntimeError("no answer")
        self._shelf.saves += 1
        self._shelf.stored = msgspec.json.encode(marks)

    save_now = save

    async def is_ours(self) -> bool:
        """Tell whether nobody else took over."""
        await asyncio.sleep(self._shelf.slow_answer_seconds)
        return self._shelf.holder == self._holder


class Asleep:
    """How long a process was asleep; a test moves it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


async def give(book: LogBook, lines: list[bytes]) -> list[bytes]:
    """Read lines as one stream of a pod's log and return those that are given out."""
    position = await book.position("pod")
    position.query()
    given = [told.text for line in lines if (told := position.take(line)) is not None]
    book.changed()
    return given


async def test_the_next_watcher_goes_on_where_the_last_one_stopped() -> None:
    """Saved when the watch is cancelled, without waiting for the usual time."""
    shelf = Shelf()
    first = LogBook(shelf.of(1), Asleep())
    assert len(await give(first, LINES[:4])) == 4
    await first.close(save=True)
    second = LogBook(shelf.of(2), Asleep())
    assert await give(second, LINES) == [b"line %d" % i for i in range(4, 10)]
    await second.close(save=False)


async def test_positions_are_saved_while_lines_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not any more when none do."""
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.01)
    shelf = Shelf()
    book = LogBook(shelf.of(1), Asleep())
    await give(book, LINES[:4])
    async with asyncio.timeout(5):
        while not shelf.saves:  # noqa: ASYNC110 - the saver works beside
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert shelf.saves == 1
    assert len(await give(LogBook(shelf.of(2), Asleep()), LINES)) == 6
    await book.close(save=False)


async def test_a_position_is_saved_a_while_after_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed may not have written the last ones, whose positions would leave a gap."""
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.2)
    shelf = Shelf()
    book = LogBook(shelf.of(1), Asleep())
    await give(book, LINES[:4])
    await asyncio.sleep(0)
    await give(book, LINES[4:7])
    for saves, lines in ((1, 4), (2, 7)):
        async with asyncio.timeout(5):
            while shelf.saves < saves:  # noqa: ASYNC110 - the saver works beside
                await asyncio.sleep(0.01)
        assert msgspec.json.decode(shelf.stored, type=dict[str, Bookmark])["pod"].given == lines
    await book.close(save=False)


async def test_the_last_save_is_not_cut_off() -> None:
    """A triggerer that stops cancels its triggers more than once."""
    shelf = Shelf()
    book = LogBook(shelf.of(1), Asleep())
    await give(book, LINES[:4])
    shelf.slow_seconds = 0.1
    closing = asyncio.create_task(book.close(save=True))
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    async with asyncio.timeout(5):
        while not shelf.saves:  # noqa: ASYNC110 - the save goes on beside
            await asyncio.sleep(0.01)


async def test_whoever_slept_asks_before_it_goes_on() -> None:
    """Another triggerer may have taken over meanwhile, and its positions stay."""
    shelf, asleep = Shelf(), Asleep()
    first = LogBook(shelf.of(1), asleep)
    await give(first, LINES[:4])
    await LogBook(shelf.of(2), Asleep()).position("pod")
    assert await first.may_give()
    asleep.seconds += 45
    assert not await first.may_give()
    await first.close(save=True)
    assert shelf.saves == 0


async def test_whoever_slept_gives_nothing_before_it_knows() -> None:
    """Not for another pod either while the question is on its way, nor when it is ended meanwhile."""
    shelf, asleep = Shelf(), Asleep()
    first = LogBook(shelf.of(1), asleep)
    await give(first, LINES[:4])
    await LogBook(shelf.of(2), Asleep()).position("pod")
    asleep.seconds += 45
    shelf.slow_answer_seconds = 0.05
    asking = asyncio.create_task(first.may_give())
    await asyncio.sleep(0)
    assert not await first.may_give()
    assert not await asking

    ended = LogBook(shelf.of(1), asleep)
    await give(ended, LINES[:4])
    await LogBook(shelf.of(2), Asleep()).position("pod")
    asleep.seconds += 45
    asking = asyncio.create_task(ended.may_give())
    await asyncio.sleep(0)
    asking.cancel()
    await ended.close(save=True)
    assert shelf.saves == 0


async def test_whoever_slept_alone_goes_on() -> None:
    """Nobody has taken over."""
    shelf, asleep = Shelf(), Asleep()
    book = LogBook(shelf.of(1), asleep)
    await give(book, LINES[:4])
    asleep.seconds += 45
    assert await book.may_give()
    await book.close(save=False)


async def test_a_store_that_fails_never_stops_a_log() -> None:
    """Then lines may be repeated, and none is missing."""
    shelf = Shelf()
    shelf.broken = True
    book = LogBook(shelf.of(1), Asleep())
    assert len(await give(book, LINES)) == 10
    await book.close(save=True)


async def test_without_a_store_nothing_is_kept() -> None:
    """As on a worker, which nobody takes over from."""
    book = LogBook(None, Asleep())
    assert len(await give(book, LINES)) == 10
    assert await book.may_give()
    await book.close(save=True)
