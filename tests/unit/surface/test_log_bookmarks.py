"""Positions in logs are kept in an XCom of the task, with the names of those who watched."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.triggers import log_bookmarks
from airflow_gpu_placement.triggers.log_bookmarks import HOLDERS_KEY, POSITIONS_KEY, XComBookmarks
from airflow_gpu_placement.triggers.unread import Unread
from airflow_gpu_placement.watch.position import Bookmark

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = Bookmark("2026-01-01T00:00:00Z", 3, 1767225600.0, "123456789", 1767225600123000)
TI = SimpleNamespace(dag_id="llm", task_id="train", run_id="r", map_index=-1)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what Airflow stores; the supervisor that a trigger talks to is not there in a unit test.

    The operator has written that nobody has watched yet.
    """
    values: dict[str, Any] = {HOLDERS_KEY: "[]", POSITIONS_KEY: "{}"}

    async def aget_one(*, key: str, **_: Any) -> Any:
        assert key in values, "Airflow logs an error"
        return json.loads(values[key])

    async def aset(key: str, value: Any, **task: Any) -> None:
        assert task == {"dag_id": "llm", "task_id": "train", "run_id": "r", "map_index": -1}
        values[key] = json.dumps(value)

    monkeypatch.setattr(XCom, "aget_one", aget_one)
    monkeypatch.setattr(XCom, "aset", aset)
    return values


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], XComBookmarks]:
    """Return a function that gives the bookmarks as another process has them."""

    def bookmarks(name: str) -> XComBookmarks:
        monkeypatch.setattr(log_bookmarks, "_process", name)
        return XComBookmarks(TI)

    return bookmarks


@pytest.mark.asyncio
async def test_the_next_triggerer_finds_what_was_saved(
    stored: dict[str, Any], as_process: Callable[[str], XComBookmarks]
) -> None:
    """In small JSON values, each under its own key; no key is asked for that cannot be there."""
    first = as_process("a")
    assert await first.load() == {}
    await first.save({"pod": MARK})
    assert await first.is_ours()
    second = as_process("b")
    assert await second.load() == {"pod": MARK}
    assert await second.is_ours()
    assert {key: json.loads(value) for key, value in stored.items()} == {
        HOLDERS_KEY: ["a", "b"],
        POSITIONS_KEY: {"pod": ["2026-01-01T00:00:00Z", 3, 1767225600.0, "123456789", 1767225600123000, ""]},
    }


@pytest.mark.usefixtures("stored")
@pytest.mark.asyncio
async def test_whoever_was_replaced_knows(as_process: Callable[[str], XComBookmarks]) -> None:
    """A triggerer that slept finds another one's name."""
    first = as_process("a")
    await first.load()
    await as_process("b").load()
    as_process("a")
    assert not await first.is_ours()


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("save", ["save", "save_now"])
@pytest.mark.asyncio
async def test_a_save_that_ends_after_the_take_over_takes_nothing_back(
    as_process: Callable[[str], XComBookmarks], save: str
) -> None:
    """A triggerer that stood still in the midst of it goes on where it stopped."""
    first = as_process("a")
    await first.load()
    second = as_process("b")
    await second.load()
    as_process("a")
    await getattr(first, save)({"pod": MARK})
    assert not await first.is_ours()
    as_process("b")
    assert await second.is_ours()


@pytest.mark.usefixtures("stored")
@pytest.mark.asyncio
async def test_a_triggerer_that_gets_the_job_back_begins_anew(
    as_process: Callable[[str], XComBookmarks],
) -> None:
    """Airflow overwrites what it had logged for it before."""
    first = as_process("a")
    await first.load()
    await first.save_now({"pod": MARK})
    assert await as_process("b").load() == {"pod": MARK}
    assert await as_process("a").load() == {}


@pytest.mark.asyncio
async def test_a_position_is_not_kept_before_its_lines_are_written(
    stored: dict[str, Any], as_process: Callable[[str], XComBookmarks], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a watch: a triggerer reads four kilobytes of lines each time that it answers."""
    waiting = Unread()
    monkeypatch.setattr(log_bookmarks, "unread", waiting)
    asked: list[str] = []
    aget_one = XCom.aget_one

    async def counted(*, key: str, **task: Any) -> Any:
        assert stored[POSITIONS_KEY] == "{}"
        asked.append(key)
        return await aget_one(key=key, **task)

    monkeypatch.setattr(XCom, "aget_one", counted)
    bookmarks = as_process("a")
    await bookmarks.written()
    assert 1 <= len(asked) <= 3  # of the one that reads, and one that may be under way
    asked.clear()
    for _ in range(100):
        waiting.add("x" * 1000)
    await bookmarks.save_now({"pod": MARK})
    assert len(asked) * 4096 >= 100_000
    assert "pod" in json.loads(stored[POSITIONS_KEY])


def test_what_may_wait_to_be_read_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket holds so much, and a triggerer that lives reads it sooner or later."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    waiting = Unread()
    least = waiting.rounds()
    for _ in range(100_000):
        waiting.add("a line")
    assert 50 < waiting.rounds() < 100
    now += 60.0
    assert waiting.rounds() == least


@pytest.mark.parametrize("key", [HOLDERS_KEY, POSITIONS_KEY])
@pytest.mark.parametrize("value", ["words", {"pods": 3}, {"pod": ["x"]}, [3], None])
@pytest.mark.asyncio
async def test_what_nobody_can_read_counts_as_nothing(
    stored: dict[str, Any], as_process: Callable[[str], XComBookmarks], key: str, value: Any
) -> None:
    """A person may write into an XCom as well."""
    stored[HOLDERS_KEY] = '["b"]'
    stored[key] = json.dumps(value)
    bookmarks = as_process("a")
    assert await bookmarks.load() == {}
    assert await bookmarks.is_ours()
