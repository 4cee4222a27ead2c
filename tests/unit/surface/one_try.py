"""One try of a task and what it remembers, for tests of how it goes on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_gpu_placement.hooks.memory import TaskStateMemory
from airflow_gpu_placement.model.attempt import (
    MARKER_KEY,
    RESUMED_KEY,
    AttemptPhase,
    AttemptRecord,
    TaskRecord,
)
from airflow_gpu_placement.operators import GpuTrainingJobOperator
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger
from tests.unit.surface.test_memory import JsonStore, attempt

if TYPE_CHECKING:
    from airflow.sdk import Context

ATTEMPT = "id-1"


class Task:
    """One try of a task that began a while ago, with what it remembers.

    :param began_seconds_ago: when the try began.
    """

    def __init__(self, *known: AttemptRecord, began_seconds_ago: float = 0.0, **arguments: Any) -> None:
        self.operator = GpuTrainingJobOperator(
            task_id="t", image="i", command=["c"], gpu={"gpus_per_node": 1}, **arguments
        )
        self.pushed: dict[str, Any] = {}
        began = datetime.now(UTC) - timedelta(seconds=began_seconds_ago)
        ti = SimpleNamespace(
            dag_id="d", run_id="r", task_id="t", map_index=-1, id=ATTEMPT, try_number=1, max_tries=5,
            start_date=began, xcom_push=lambda key, value: self.pushed.update({key: value}),
        )  # fmt: skip
        store = JsonStore()
        self.memory = TaskStateMemory(store)
        self.memory.write(TaskRecord(attempts=known))
        self.context = cast(
            "Context",
            {
                "ti": ti,
                "dag_run": SimpleNamespace(team_name=None, clear_number=0, start_date=None),
                "task_state_store": store,
            },
        )

    @property
    def latest(self) -> AttemptRecord:
        """What is remembered of the last launch."""
        return self.memory.read().attempts[-1]

    def deferred(self, method: str, **kwargs: Any) -> TaskDeferred:
        """Call a method that defers again; the mark of the attempt must be left before."""
        with pytest.raises(TaskDeferred) as caught:
            getattr(self.operator, method)(context=self.context, **kwargs)
        watches = isinstance(caught.value.trigger, RemoteJobTrigger)
        fresh = {RESUMED_KEY: ""} if watches else {}
        assert self.pushed == {MARKER_KEY: {"attempt_id": ATTEMPT}} | fresh
        return caught.value

    def failed_deferral(self, error: str) -> Any:
        """Resume as Airflow does when a deferral failed."""
        return self.operator.resume_execution("__fail__", {"error": error}, self.context)


def launched(**fields: Any) -> AttemptRecord:
    """Build the record of a remote job that runs."""
    return attempt(1, phase=AttemptPhase.CREATED, job_uid="u", kubernetes_conn_id="nowhere", **fields)
