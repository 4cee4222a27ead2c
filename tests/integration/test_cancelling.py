"""A task that is killed on its worker takes its remote job with it, also one that is just being created."""

from __future__ import annotations

import contextlib
import json
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_gpu_placement.exceptions import TrainingFailed
from airflow_gpu_placement.hooks.clusters import ClusterAccess
from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.model.attempt import MARKER_KEY, RESUMED_KEY, AttemptRecord
from airflow_gpu_placement.operators import cancelling as module
from airflow_gpu_placement.operators.cancelling import Cancelling
from airflow_gpu_placement.operators.marking import hand_over
from airflow_gpu_placement.triggers.log_bookmarks import HOLDERS_KEY, POSITIONS_KEY
from tests.integration.cluster_support import pool_of, spec_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.launch.spec import LaunchSpec
    from lab import Cluster

pytestmark = pytest.mark.lab

RUNNING = "trap 'exit 0' TERM; sleep 600 & wait"


class Launch:
    """One attempt, its objects, and what a worker knows of it."""

    def __init__(self, cluster: Cluster, namespace: str, **changes: Any) -> None:
        self.api = cluster.api
        self.spec: LaunchSpec = spec_of(pool_of(cluster, namespace), RUNNING)
        self.path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        attempt = self.spec.attempt
        values: dict[str, Any] = {
            "attempt_id": attempt.attempt_id,
            "try_number": 1,
            "fence": 1,
            "pool": "h100",
            "kubernetes_conn_id": "gpu",
            "cluster_uid": cluster.uid,
            "namespace": namespace,
            "job_name": attempt.job_name,
        }
        self.known = AttemptRecord(**{**values, **changes})
        self.cancelling = Cancelling()
        self.cancelling.arm(self.known, ClusterAccess(config=cluster.kubeconfig(), context=None))

    def create(self, **labels: str) -> str:
        """Create the job, as the create call of the task does; return its uid."""
        body = json.loads(json.dumps(manifest(self.spec)[0]))
        body["metadata"]["labels"].update(labels)
        uid: str = self.api.post(self.path, body)["metadata"]["uid"]
        return uid

    def exists(self) -> bool:
        """Whether the job is there and nobody has asked for its deletion."""
        jobs = self.api.get(self.path, fieldSelector=f"metadata.name={self.known.job_name}")["items"]
        return any("deletionTimestamp" not in job["metadata"] for job in jobs)

    def kill(self) -> None:
        """End the task as Airflow's signal handler does while it is at work."""
        with pytest.raises(SystemExit, match="Airflow ended this task"), self.cancelling.at_work():
            self.cancelling.on_kill()


def test_a_job_that_runs_is_withdrawn(cluster: Cluster, namespace: str) -> None:
    """The deletion is asked for before the task is left, with credentials that were read before."""
    launch = Launch(cluster, namespace)
    launch.create()
    launch.kill()
    assert not launch.exists()


def test_a_job_whose_creation_is_under_way_is_withdrawn(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The create call may reach the API server after the signal; what it makes is waited for."""
    launch = Launch(cluster, namespace)
    late = threading.Timer(1.0, launch.create)
    late.start()
    with caplog.at_level("INFO"):
        launch.kill()
    late.join()
    assert not launch.exists()
    assert f"Airflow ended this task: withdrawing remote job {launch.known.job_name}" in caplog.text


@pytest.mark.parametrize(
    ("changes", "labels", "told"),
    [
        pytest.param(
            {}, {"airflow-gpu-placement/attempt-id": "another"}, "was not there", id="another attempt's"
        ),
        pytest.param({"cluster_uid": "another"}, {}, "not to another", id="another cluster"),
    ],
)
def test_what_is_not_ours_is_left_alone(
    cluster: Cluster,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, str],
    labels: dict[str, str],
    told: str,
) -> None:
    """A name alone is no proof, and neither is a connection."""
    monkeypatch.setattr(module, "KILLED_SECONDS", 1.0)
    launch = Launch(cluster, namespace, **changes)
    launch.create(**labels)
    launch.kill()
    assert launch.exists()
    assert told in caplog.text


def test_a_job_that_was_handed_to_the_triggerer_is_left_alone(cluster: Cluster, namespace: str) -> None:
    """A worker that shuts down signals a process whose task has just deferred."""
    launch = Launch(cluster, namespace)
    launch.create()
    with pytest.raises(TaskDeferred), launch.cancelling.at_work():
        raise TaskDeferred(trigger=None, method_name="execute_complete")
    launch.cancelling.on_kill()
    assert launch.exists()


def test_the_job_of_a_task_that_has_returned_is_left_alone(cluster: Cluster, namespace: str) -> None:
    """It has ended, and the cluster keeps it for a while to be looked at."""
    launch = Launch(cluster, namespace)
    launch.create()
    with launch.cancelling.at_work():
        pass
    launch.cancelling.on_kill()
    assert launch.exists()


def test_a_signal_before_the_work_keeps_it_from_beginning(cluster: Cluster, namespace: str) -> None:
    """Airflow goes on to call ``execute`` after the signal, which must not launch anything."""
    launch = Launch(cluster, namespace)
    launch.cancelling.disarm()
    launch.cancelling.on_kill()
    with pytest.raises(SystemExit, match="Airflow ended this task"), launch.cancelling.at_work():
        launch.create()
    assert not launch.exists()


def test_after_a_timeout_the_error_of_the_task_stays(cluster: Cluster, namespace: str) -> None:
    """Airflow calls ``on_kill`` once more when ``execution_timeout`` has already ended the task's work."""
    launch = Launch(cluster, namespace)
    launch.create()
    with pytest.raises(AirflowTaskTimeout), launch.cancelling.at_work():
        raise AirflowTaskTimeout
    assert launch.exists()
    launch.cancelling.on_kill()
    assert not launch.exists()
    with launch.cancelling.at_work():
        pass  # the next try may be in this process, as in dag.test()


def test_what_was_created_after_airflow_stopped_listening_is_withdrawn(
    cluster: Cluster, namespace: str
) -> None:
    """The next try may have looked for the job before it was there: its worker had lost its supervisor."""
    launch = Launch(cluster, namespace)
    launch.create()
    with pytest.raises(BrokenPipeError), launch.cancelling.at_work():
        raise BrokenPipeError
    assert not launch.exists()


def test_an_error_that_the_package_raises_comes_after_the_job_was_settled(
    cluster: Cluster, namespace: str
) -> None:
    """A job that failed is kept to be looked at."""
    launch = Launch(cluster, namespace)
    launch.create()
    with pytest.raises(TrainingFailed), launch.cancelling.at_work():
        raise TrainingFailed("exit code 1")
    assert launch.exists()


@pytest.mark.parametrize(
    ("states", "left"),
    [
        pytest.param({"t_3": "running"}, True, id="runs"),
        pytest.param({"t_3": "failed"}, False, id="marked as failed"),
        pytest.param({"t_3": "restarting"}, False, id="cleared"),
        pytest.param({}, False, id="deleted"),
    ],
)
def test_a_task_that_was_ended_just_now_is_not_handed_over(
    cluster: Cluster,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    states: dict[str, str],
    left: bool,
) -> None:
    """Its worker has not heard of it yet, and Airflow would refuse the deferral without telling the task."""
    extra = {"kube_config": json.dumps(cluster.kubeconfig())}
    monkeypatch.setenv("AIRFLOW_CONN_GPU", json.dumps({"conn_type": "kubernetes", "extra": extra}))
    asked: list[dict[str, Any]] = []

    def get_task_states(**question: Any) -> dict[str, dict[str, str]]:
        asked.append(question)
        return {"r": states} if states else {}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", get_task_states)
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        id="i", dag_id="d", run_id="r", task_id="t", map_index=3,
        xcom_push=lambda key, value: pushed.update({key: value}),
    )  # fmt: skip
    launch = Launch(cluster, namespace)
    launch.create()
    with contextlib.nullcontext() if left else pytest.raises(SystemExit, match="Airflow ended this task"):
        hand_over(cast("Context", {"ti": ti}), launch.known)
    assert launch.exists() is left
    assert asked == [{"dag_id": "d", "task_ids": ["t"], "run_ids": ["r"], "map_index": 3}]
    assert pushed == {MARKER_KEY: {"attempt_id": "i"}, RESUMED_KEY: "", HOLDERS_KEY: [], POSITIONS_KEY: {}}


def test_a_task_that_launches_nothing_yet_is_left_at_once(cluster: Cluster, namespace: str) -> None:
    """Going on would launch what nobody wants any more."""
    launch = Launch(cluster, namespace)
    launch.cancelling.disarm()
    launch.kill()
    assert not launch.exists()
