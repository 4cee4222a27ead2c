"""Positions in the logs of a remote job, kept where the next triggerer finds them: in an XCom of the task.

Airflow removes it when the next try begins.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.watch.position import Bookmark

if TYPE_CHECKING:
    from collections.abc import Mapping

XCOM_KEY = "gpu_placement_log_positions"

_SAVES_PER_SECOND = 10.0
_HOLDERS_KEPT = 20
_ANSWER_SECONDS = 60.0

_process = uuid.uuid4().hex[:12]
"""Names this process: all triggers of a triggerer run in one."""

_saving = asyncio.Semaphore(1)
"""Every save is a request to Airflow that all triggers of this triggerer wait behind."""


class _Kept(msgspec.Struct, omit_defaults=True):
    """What the XCom holds.

    :param holders: processes that have watched the job, the latest one last.
    :param pods: uid of a pod -> where its log stopped.
    """

    holders: list[str] = []
    pods: dict[str, Bookmark] = {}


class XComBookmarks:
    """The positions of the logs of one task's remote job.

    :param ti: the task instance as a trigger gets it.
    """

    def __init__(self, ti: Any) -> None:
        self._task: dict[str, Any] = {
            "dag_id": ti.dag_id,
            "task_id": ti.task_id,
            "run_id": ti.run_id,
            "map_index": ti.map_index,
        }
        self._holders: list[str] = []

    async def load(self) -> Mapping[str, Bookmark]:
        """Take over from whoever watched before.

        A triggerer that gets a trigger back overwrites what it had logged for it: then the logs begin anew.
        """
        kept = await self._get()
        pods = {} if _process in kept.holders else kept.pods
        self._holders = [*kept.holders, _process][-_HOLDERS_KEPT:]
        await self._set(pods)
        return pods

    async def save(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions; with many jobs each waits its turn."""
        async with _saving:
            await self._set(marks)
            await asyncio.sleep(1 / _SAVES_PER_SECOND)

    async def save_now(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep the positions at once: there may be no other time."""
        await self._set(marks)

    async def is_ours(self) -> bool:
        """Tell whether nobody else has taken over since."""
        return (await self._get()).holders[-1:] == [_process]

    async def _get(self) -> _Kept:
        async with asyncio.timeout(_ANSWER_SECONDS):
            value = await XCom.aget_one(key=XCOM_KEY, **self._task)
        try:
            return _Kept() if value is None else msgspec.convert(value, _Kept)
        except msgspec.ValidationError:
            return _Kept()  # of another version, or a person's

    async def _set(self, marks: Mapping[str, Bookmark]) -> None:
        value = msgspec.to_builtins(_Kept(holders=self._holders, pods=dict(marks)))
        async with asyncio.timeout(_ANSWER_SECONDS):
            await XCom.aset(XCOM_KEY, value, **self._task)
