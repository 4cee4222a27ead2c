"""What a success does for earlier launches that could not be withdrawn, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.hooks.memory import TaskStateMemory
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.model.attempt import AttemptPhase, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind
from airflow_gpu_placement.operators import GpuTrainingJobOperator, sweep
from airflow_gpu_placement.operators.sweep import sweep_again
from tests.integration.cluster_support import pool_of, spec_of
from tests.integration.test_sweep import SCRIPT, launch, moved
from tests.unit.surface.test_memory import JsonStore

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.model.attempt import AttemptRecord, LogicalTask
    from lab import Cluster

pytestmark = pytest.mark.lab

SUCCESS = Outcome(kind=OutcomeKind.SUCCEEDED, cause="Complete", grade=EndGrade.CONFIRMED, result="7")


def two_launches(cluster: Cluster, namespace: str) -> tuple[LogicalTask, AttemptRecord, AttemptRecord]:
    """Create the jobs of two tries; of the first one the cluster did not answer when it was given up."""
    first = spec_of(pool_of(cluster, namespace), SCRIPT)
    second = moved(first, attempt_id="0196e7b2-8d1a-7c31-a5b4-0000000000aa", try_number=2, fence=2)
    earlier, known = asyncio.run(launch(cluster, first)), asyncio.run(launch(cluster, second))
    given_up = msgspec.structs.replace(
        earlier, phase=AttemptPhase.ENDED, outcome=OutcomeKind.INFRASTRUCTURE, grade=EndGrade.UNKNOWN
    )
    return first.attempt.task, given_up, known


def end(task: LogicalTask, store: JsonStore, known: AttemptRecord) -> Any:
    """Let the task of a launch take up its success."""
    operator = GpuTrainingJobOperator(task_id="t", image="i", command=["c"], gpu={"gpus_per_node": 1})
    ti = SimpleNamespace(
        dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id, map_index=task.map_index,
        id=known.attempt_id, try_number=2, max_tries=5,
    )  # fmt: skip
    context = cast("Context", {"ti": ti, "task_state_store": store})
    event = {"version": 1, "kind": "ended", "outcome": msgspec.to_builtins(SUCCESS)}
    return operator.execute_complete(context, event)


@pytest.mark.parametrize("answers", [True, False], ids=["it answers again", "it is still away"])
def test_a_success_looks_after_what_was_left(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """The job that succeeded stays to be looked at; one that is away still costs some seconds."""
    task, earlier, known = two_launches(cluster, namespace)
    config = cluster.kubeconfig() if answers else cluster.proxy("away").kubeconfig()
    extra = {"kube_config": json.dumps(config)}
    monkeypatch.setenv(
        f"AIRFLOW_CONN_{cluster.name.upper()}", json.dumps({"conn_type": "kubernetes", "extra": extra})
    )
    if answers:  # a busy machine takes its time to end a pod
        monkeypatch.setattr(sweep, "LOOK_SECONDS", 30.0)
        monkeypatch.setattr(sweep, "_AFTERWARDS_SECONDS", 30.0)
    store = JsonStore()
    memory = TaskStateMemory(store)
    memory.write(TaskRecord(attempts=(earlier, known)))
    proxy = cluster.proxy("away")
    proxy.blackhole()
    began = time.monotonic()
    try:
        assert end(task, store, known) == 7
    finally:
        proxy.carry()
    assert answers or time.monotonic() - began < 10
    jobs = cluster.api.get(jobs_path(namespace))["items"]
    left = {job["metadata"]["name"] for job in jobs if "deletionTimestamp" not in job["metadata"]}
    assert left == ({known.job_name} if answers else {earlier.job_name, known.job_name})
    grades = [one.grade for one in memory.read().attempts]
    assert grades == [EndGrade.CONFIRMED if answers else EndGrade.UNKNOWN, EndGrade.CONFIRMED]


def test_what_is_proven_is_not_looked_at_and_nothing_makes_the_success_fail(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever keeps connections may raise anything."""
    task, earlier, known = two_launches(cluster, namespace)
    asked: list[str] = []

    async def broken(conn_id: str, context: str | None) -> ClusterClient:
        asked.append(conn_id)
        if len(asked) > 1:
            return await client_from_kubeconfig(cluster.kubeconfig(), context)
        raise RuntimeError("vault is sealed")

    def remembered(*attempts: AttemptRecord) -> TaskStateMemory:
        memory = TaskStateMemory(JsonStore())
        memory.write(TaskRecord(attempts=attempts))
        return memory

    proven = msgspec.structs.replace(earlier, grade=EndGrade.CONFIRMED)
    asyncio.run(sweep_again(remembered(proven, known), known, task, broken))
    assert asked == []
    memory = remembered(earlier, known)
    asyncio.run(sweep_again(memory, known, task, broken))
    assert "may still run: vault is sealed" in caplog.text
    theirs = msgspec.structs.replace(task, dag_id="of-another")
    asyncio.run(sweep_again(memory, known, theirs, broken))
    jobs = cluster.api.get(jobs_path(namespace))["items"]
    assert all("deletionTimestamp" not in job["metadata"] for job in jobs), "the label of the task is another"
