"""Positions in logs are kept in an XCom of the task, with the names of those who watched."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.triggers import log_bookmarks
from airflow_gpu_placement.triggers.log_bookmarks import XCOM_KEY, XComBookmarks
from airflow_gpu_placement.watch.position import Bookmark

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.asyncio

MARK = Bookmark("2026-01-01T00:00:00Z", 3, 1767225600.0, "123456789")
TI = SimpleNamespace(dag_id="llm", task_id="train", run_id="r", map_index=-1)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what Airflow stores; the supervisor that a trigger talks to is not there in a unit test."""
    values: dict[str, Any] = {}

    async def aget_one(*, key: str, **_: Any) -> Any:
        return json.loads(values[key]) if key in values else None

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


async def test_the_next_triggerer_finds_what_was_saved(
    stored: dict[str, Any], as_process: Callable[[str], XComBookmarks]
) -> None:
    """In a small JSON value under its own key."""
    first = as_process("a")
    assert await first.load() == {}
    await first.save({"pod": MARK})
    assert await first.is_ours()
    second = as_process("b")
    assert await second.load() == {"pod": MARK}
    assert await second.is_ours()
    assert json.loads(stored[XCOM_KEY]) == {
        "holders": ["a", "b"],
        "pods": {"pod": ["2026-01-01T00:00:00Z", 3, 1767225600.0, "123456789"]},
    }


@pytest.mark.usefixtures("stored")
async def test_whoever_was_replaced_knows(as_process: Callable[[str], XComBookmarks]) -> None:
    """A triggerer that slept finds another one's name."""
    first = as_process("a")
    await first.load()
    await as_process("b").load()
    as_process("a")
    assert not await first.is_ours()


@pytest.mark.usefixtures("stored")
async def test_a_triggerer_that_gets_the_job_back_begins_anew(
    as_process: Callable[[str], XComBookmarks],
) -> None:
    """Airflow overwrites what it had logged for it before."""
    first = as_process("a")
    await first.load()
    await first.save_now({"pod": MARK})
    assert await as_process("b").load() == {"pod": MARK}
    assert await as_process("a").load() == {}


@pytest.mark.parametrize("value", ["words", {"pods": 3}, {"pods": {"pod": ["x"]}}])
async def test_what_nobody_can_read_counts_as_nothing(
    stored: dict[str, Any], as_process: Callable[[str], XComBookmarks], value: Any
) -> None:
    """A person may write into an XCom as well."""
    stored[XCOM_KEY] = json.dumps(value)
    assert await as_process("a").load() == {}
