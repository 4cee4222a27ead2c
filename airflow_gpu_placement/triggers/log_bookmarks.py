"""Positions in the logs of a remote job, kept where the next triggerer finds them: in XComs of the task.

Who watches is an XCom of its own, written when a watch begins: a triggerer that stood still ends a save that
was under way, and must not take the job back by that. Airflow removes both when the next try begins.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.triggers.unread import unread
from airflow_gpu_placement.watch.position import Bookmark

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

POSITIONS_KEY = "gpu_placement_log_positions"
"""XCom of positions: uid of a pod -> where its log stopped."""

HOLDERS_KEY = "gpu_placement_log_holders"
"""XCom of the processes that have watched the job, the latest one last; empty before the first."""

_SAVES_PER_SECOND = 10.0
_HOLDERS_KEPT = 20
_ANSWER_SECONDS = 60.0

_process = uuid.uuid4().hex[:12]
"""Names this process: all triggers of a triggerer run in one."""

_saving = asyncio.Semaphore(1)
"""Every save is a request to Airflow that all triggers of this triggerer wait behind."""


class XComBookmarks:
    """The positions of the logs of one task's remote job.

    :param ti: the task instance as a trigger gets it.
    """

    __slots__ = ("_ti",)

    def __init__(self, ti: Any) -> None:
        self._ti = ti

    async def load(self) -> Mapping[str, Bookmark]:
        """Take over from whoever watched before.

        A triggerer that gets a trigger back overwrites what it had logged for it: then the logs begin anew.
        """
        earlier = await self._get(HOLDERS_KEY, list[str]) or []
        await self._set(HOLDERS_KEY, [*earlier, _process][-_HOLDERS_KEPT:])
        if not earlier or _process in earlier:
            return {}
        return await self._get(POSITIONS_KEY, dict[str, Bookmark]) or {}

    async def save(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions; with many jobs each waits its turn."""
        async with _saving:
            await self._set(POSITIONS_KEY, msgspec.to_builtins(dict(marks)))
            await asyncio.sleep(1 / _SAVES_PER_SECOND)

    async def save_now(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions as soon as their lines are in the log: there may be no other time."""
        await self.written()
        await self._set(POSITIONS_KEY, msgspec.to_builtins(dict(marks)))

    async def written(self) -> None:
        """Wait until Airflow has written every line that was logged so far."""
        for _ in range(unread.rounds()):
            await self._get(HOLDERS_KEY, list[str])  # any question would do

    async def is_ours(self) -> bool:
        """Tell whether nobody else has taken over since."""
        return (await self._get(HOLDERS_KEY, list[str]) or [])[-1:] == [_process]

    async def _get(self, key: str, kind: type[T]) -> T | None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            value = await XCom.aget_one(key=key, **self._task())
        try:
            return None if value is None else msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return None  # of another version, or a person's

    async def _set(self, key: str, value: Any) -> None:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await XCom.aset(key, value, **self._task())

    def _task(self) -> dict[str, Any]:
        names = ("dag_id", "task_id", "run_id", "map_index")
        return {name: getattr(self._ti, name) for name in names}
