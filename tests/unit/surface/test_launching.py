"""A launch that fails before anything was asked of the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.exceptions import ConnectionMissing, Unreachable
from airflow_gpu_placement.hooks.clusters import ClusterAccess
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from airflow_gpu_placement.model.outcome import EndGrade
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.operators import launching
from airflow_gpu_placement.operators.cancelling import Cancelling
from airflow_gpu_placement.operators.steps import Refused
from tests.unit.surface.test_settling import Memory, attempt

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

SPEC = LaunchSpec(
    attempt=Attempt(
        task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="id-1", try_number=1, fence=1
    ),
    pool=GpuPool(name="a", cluster=ClusterRef(kubernetes_conn_id="c", namespace="n")),
    image="i",
)


class Locked(ClusterAccess):
    """Credentials that open nothing."""

    async def open(self) -> ClusterClient:
        """Fail as a credential plugin does that is out of order."""
        raise Unreachable("plugin aws has not answered within 30 s")


@pytest.mark.parametrize("is_missing", [True, False])
def test_credentials_that_fail_at_the_last_moment_burn_no_try(
    is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pool is tried at once, and since nothing was asked for, nothing is waited for."""

    async def access(conn_id: str, context: str | None) -> ClusterAccess:
        if is_missing:
            raise ConnectionMissing(f"connection {conn_id!r} does not exist")
        return Locked(config={}, context=context)

    async def nobody(*_: object, **__: object) -> EndGrade:
        raise AssertionError("nothing is there to be withdrawn")

    monkeypatch.setattr(launching, "access_on_worker", access)
    monkeypatch.setattr("airflow_gpu_placement.operators.refusal.withdraw_attempt", nobody)
    memory = Memory()
    step = asyncio.run(
        launching.launch(
            SPEC,
            attempt(1, "a"),
            memory.record,
            memory,
            cancelling=Cancelling(),
            fence_timeout_seconds=30.0,
        )
    )
    assert isinstance(step, Refused)
    (known,) = memory.record.attempts
    assert known.grade is EndGrade.CONFIRMED
    assert known.refusal is not None
