"""A deadline that passed while nobody watched: what the remote job has come to by then is found out."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_gpu_placement.exceptions import TrainingFailed
from airflow_gpu_placement.hooks.memory import TaskStateMemory
from airflow_gpu_placement.launch import manifest
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.model.attempt import TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind
from airflow_gpu_placement.operators import GpuTrainingJobOperator
from airflow_gpu_placement.operators.launching import watch_arguments
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger
from tests.integration.cluster_support import opener
from tests.integration.test_adopting import TRAINED, create_job, launch
from tests.unit.surface.test_memory import JsonStore

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.launch.spec import LaunchSpec
    from airflow_gpu_placement.model.attempt import AttemptRecord
    from lab import Cluster

pytestmark = pytest.mark.lab

PASSED = datetime(2026, 1, 1, tzinfo=UTC)
FOREVER = "trap 'exit 0' TERM; sleep 600 & wait"


def late_event(cluster: Cluster, known: AttemptRecord) -> dict[str, Any]:
    """Return what a trigger tells that starts after the deadline."""
    trigger = RemoteJobTrigger(**watch_arguments(known, PASSED))
    return asyncio.run(trigger.news(opener(cluster)))


def resume_late(cluster: Cluster, known: AttemptRecord, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Resume the task as Airflow does when the back-stop of its deferral was reached."""
    extra = {"kube_config": json.dumps(cluster.kubeconfig())}
    monkeypatch.setenv("AIRFLOW_CONN_ONPREM", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    operator = GpuTrainingJobOperator(
        task_id="t",
        image="i",
        command=["c"],
        gpu={"gpus_per_node": 1},
        execution_timeout=timedelta(seconds=60),
    )
    store = JsonStore()
    TaskStateMemory(store).write(TaskRecord(attempts=(known,)))
    ti = SimpleNamespace(
        dag_id="d", run_id="r", task_id="t", map_index=-1, id=known.attempt_id, try_number=1, max_tries=5,
        start_date=PASSED,
    )  # fmt: skip
    context = {
        "ti": ti,
        "dag_run": SimpleNamespace(team_name=None, clear_number=0, start_date=None),
        "task_state_store": store,
    }
    return operator.resume_execution("__fail__", {"error": "Trigger timeout"}, cast("Context", context))


def test_a_success_before_anybody_looked_is_a_success(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trigger tells of it, and so does the worker when no triggerer was there at all."""
    known = asyncio.run(launch(cluster, namespace, TRAINED))
    event = late_event(cluster, known)
    assert (event["kind"], event["outcome"]["kind"]) == ("ended", OutcomeKind.SUCCEEDED)
    assert json.loads(event["outcome"]["result"]) == {"accuracy": 0.9}
    assert resume_late(cluster, known, monkeypatch) == {"accuracy": 0.9}


def test_a_success_does_not_wait_for_what_lives_on_beside_it(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster has added a container to the pod: it is withdrawn, and holds no GPU any longer."""
    alone = manifest._pod  # what a webhook changes on its way to the cluster

    def beside(spec: LaunchSpec) -> dict[str, Any]:
        pod = alone(spec)
        added = {"name": "a-shipper", "image": "training", "command": ["sh", "-c", FOREVER]}
        return {**pod, "containers": [added, *pod["containers"]]}

    monkeypatch.setattr(manifest, "_pod", beside)
    known = asyncio.run(create_job(cluster, namespace, TRAINED))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.wait(pods, training_has_ended, 60, "the training has ended")
    event = late_event(cluster, known)
    assert (event["kind"], event["outcome"]["kind"]) == ("ended", OutcomeKind.SUCCEEDED)
    assert event["outcome"]["grade"] == EndGrade.UNKNOWN
    assert resume_late(cluster, known, monkeypatch) == {"accuracy": 0.9}
    assert cluster.api.get(pods)["items"] == []


def training_has_ended(found: Any) -> bool:
    """Whether the one pod of a list reports that its training has ended and that something else runs."""
    states = {
        one["name"]: one["state"]
        for pod in found["items"]
        for one in pod["status"].get("containerStatuses", ())
    }
    return "terminated" in states.get("training", {}) and "running" in states.get("a-shipper", {})


def test_a_failure_of_the_training_is_not_taken_for_a_want_of_time(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be tried again, and fail again."""
    known = asyncio.run(launch(cluster, namespace, "exit 3"))
    with pytest.raises(TrainingFailed):
        resume_late(cluster, known, monkeypatch)


def test_a_job_that_still_runs_is_out_of_time(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told at once, and withdrawn by the worker."""
    known = asyncio.run(create_job(cluster, namespace, FOREVER))
    began = datetime.now(UTC)
    assert late_event(cluster, known)["kind"] == "deadline"
    assert datetime.now(UTC) - began < timedelta(seconds=15)
    with pytest.raises(AirflowTaskTimeout, match="is withdrawn"):
        resume_late(cluster, known, monkeypatch)
    path = jobs_path(namespace, known.job_name)
    cluster.api.wait(path, lambda job: job is None, 60, "the job is gone")


def test_the_limit_of_the_job_itself_is_a_want_of_time(cluster: Cluster, namespace: str) -> None:
    """The cluster ended the job in Airflow's place, some minutes after the deadline."""
    known = asyncio.run(launch(cluster, namespace, FOREVER, active_deadline_seconds=1))
    assert late_event(cluster, known)["kind"] == "deadline"
