"""From a DAG to a real cluster and back: one exact end state each, on real Airflow and control planes."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.harness.dag_test import dag_test_result, run_dag_test
from tests.harness.leaks import LeakScope, find_leaks
from tests.system import fleet

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from lab import Lab
    from lab.airflow.servers import AirflowProcesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

FOUR_BIG_GPUS = {"gpus_per_node": 4, "models": ["H100", "A100"], "min_memory_gb": 80}


@pytest.fixture
def no_leaks(gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str) -> Iterator[None]:
    """Fail a test that leaves a live remote job, a pod, a process or an unfinished task."""
    yield
    scopes = [LeakScope(c, gpu_fleet.cluster(c).api, fleet.NAMESPACE) for c in ("gke-us", "gke-eu")]
    leaks = find_leaks(
        scopes,
        airflow=airflow.client,
        dag_ids=[unique_dag_id],
        deadline_seconds=30,
        finished_is_leak=False,
    )
    leaks += [f"processes on node {name}: {pids}" for name, pids in fleet.containers_of(gpu_fleet).items()]
    assert not leaks


def jobs_of(lab: Lab, dag_id: str) -> list[dict[str, Any]]:
    """Return every remote job of a DAG on every cluster."""
    found = []
    for cluster in ("gke-us", "gke-eu"):
        path = f"/apis/batch/v1/namespaces/{fleet.NAMESPACE}/jobs"
        for job in lab.cluster(cluster).api.get(path)["items"]:
            identity = json.loads(job["metadata"]["annotations"]["airflow-gpu-placement/identity"])
            if identity["dag_id"] == dag_id:
                found.append(job)
    return found


def wait_for_step(root: Path, step: int, timeout_seconds: float = 60) -> Path:
    """Wait until some attempt has finished the checkpoint of a step."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        for manifest in root.glob(f"*/*/*/step-{step:012d}/manifest.json"):
            return manifest.parent
        time.sleep(0.1)
    raise AssertionError(f"no checkpoint of step {step} below {root} within {timeout_seconds:g} s")


def in_one_process(
    lab: Lab, catalog: Path, dag_id: str, folder: Path, **dag: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``dag.test()`` on a training DAG that saves its checkpoints below a folder."""
    dag_file = folder / "dags" / f"{dag_id}.py"
    dag_file.parent.mkdir()
    dag_file.write_text(fleet.training_dag(dag_id, folder, gpu=FOUR_BIG_GPUS, **dag))
    return run_dag_test(
        dag_file, dag_id, env=fleet.airflow_environment(catalog), connections=fleet.connections(lab)
    )


@pytest.mark.scenario("PLACE.CHEAPEST", "the cheapest pool that fits ran it; its result is the XCom")
@pytest.mark.usefixtures("no_leaks")
def test_a_job_is_placed_runs_and_returns_its_result(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """The cheapest pool that fits is chosen, each other has a reason, the result is the XCom."""
    source = fleet.training_dag(unique_dag_id, tmp_path, gpu=FOUR_BIG_GPUS, arguments=["--epochs", "3"])
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    task = airflow.client.wait_task_state(unique_dag_id, run_id, "train", "success", timeout_seconds=120)

    result = airflow.client.xcom(unique_dag_id, run_id, "train")
    log = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    assert task.try_number == 1
    assert (result["epochs"], result["pool"], result["fence"]) == (3, "us-a100", 1)
    assert result["accuracy"] > 0.8
    assert [job["metadata"]["namespace"] for job in jobs_of(gpu_fleet, unique_dag_id)] == [fleet.NAMESPACE]
    explanation = f"2/7 GPU pools fit {unique_dag_id}.train: chose us-a100 (A100 80 GB"
    assert log.count(explanation) == 1, log
    for pool, code in {**fleet.BROKEN_POOLS, "us-l4": "GpuModelNotOffered"}.items():
        assert re.search(rf"{pool}\b.*{code}", log), f"{pool}: {code}\n{log}"
    assert "4 GPUs = 1 x 4" in log
    assert "epoch 3" in log


@pytest.mark.scenario("PLACE.GANG", "two ranks on two whole nodes agreed on one result")
@pytest.mark.usefixtures("no_leaks")
def test_a_job_over_two_nodes_runs_as_a_gang(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """Two whole nodes exist in one pool only; both ranks run there and agree on the weights."""
    gpu = {"gpus_per_node": 8, "nodes": 2, "models": ["H100", "A100"]}
    source = fleet.training_dag(unique_dag_id, tmp_path, gpu=gpu, arguments=["--epochs", "2"])
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    airflow.client.wait_task_state(unique_dag_id, run_id, "train", "success", timeout_seconds=120)

    result = airflow.client.xcom(unique_dag_id, run_id, "train")
    log = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    assert (result["pool"], result["epochs"]) == ("eu-h100", 2)
    (job,) = jobs_of(gpu_fleet, unique_dag_id)
    assert (job["spec"]["completionMode"], job["status"]["succeeded"]) == ("Indexed", 2)
    assert "[rank 0]" in log
    assert "[rank 1]" in log


@pytest.mark.scenario("END.TRAINING-BUG", "failed in try 1 with one remote job ever")
@pytest.mark.usefixtures("no_leaks")
def test_a_bug_in_the_training_code_fails_the_task_now(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """One try, one remote job ever; the message has the exit code and the last lines of the log."""
    source = fleet.training_dag(
        unique_dag_id, tmp_path, gpu=FOUR_BIG_GPUS, arguments=["--epochs", "5", "--fail-at-epoch", "2"]
    )
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    task = airflow.client.wait_task_state(unique_dag_id, run_id, "train", "failed", timeout_seconds=120)

    assert (task.try_number, task.max_tries) == (1, 5)
    assert len(jobs_of(gpu_fleet, unique_dag_id)) == 1
    log = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    error = log[log.index("TrainingFailed") :]
    assert "exited with code 3" in error
    assert "AskedFailureError" in error


@pytest.mark.scenario("PLACE.NEVER", "failed in try 1 without a remote job")
@pytest.mark.usefixtures("no_leaks")
def test_what_can_never_fit_fails_at_once_and_says_why_for_each_pool(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """A misspelt model is offered by no pool: one try, no remote job, the nearest name is named."""
    source = fleet.training_dag(
        unique_dag_id, tmp_path, gpu={"gpus_per_node": 1, "models": ["H1000"]}, arguments=["--epochs", "1"]
    )
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    task = airflow.client.wait_task_state(unique_dag_id, run_id, "train", "failed", timeout_seconds=120)

    log = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    error = log[log.index("NoPoolFits") :]
    assert task.try_number == 1
    assert jobs_of(gpu_fleet, unique_dag_id) == []
    for pool in ("us-a100", "us-l4", "eu-h100", *fleet.BROKEN_POOLS):
        assert pool in error
    assert "'H100'" in error


@pytest.mark.scenario("LOSS.POWER", "success in try 2 elsewhere, from the newest checkpoint")
@pytest.mark.usefixtures("no_leaks")
def test_the_loss_of_a_node_moves_the_job_and_it_resumes(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """The node loses power; the second try goes on elsewhere from the newest checkpoint."""
    node = gpu_fleet.cluster("gke-us").node("us-a100-1")
    source = fleet.training_dag(
        unique_dag_id, tmp_path, gpu=FOUR_BIG_GPUS, arguments=["--epochs", "12", "--seconds-per-epoch", "1"]
    )
    airflow.add_dag(unique_dag_id, source)
    run_id = airflow.client.trigger(unique_dag_id)
    try:
        reached = wait_for_step(tmp_path, 3)
        node.power_off()
        task = airflow.client.wait_task_state(unique_dag_id, run_id, "train", "success", timeout_seconds=120)
    finally:
        node.start()

    result = airflow.client.xcom(unique_dag_id, run_id, "train")
    first = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    assert task.try_number == 2
    assert (result["pool"], result["fence"], result["epochs"]) == ("eu-h100", 2, 12)
    assert result["resumed_from_epoch"] >= 3
    assert result["epochs_run"] == 12 - result["resumed_from_epoch"]
    assert reached.parent.name.startswith("1-")
    assert "RemoteJobLost" in first
    assert "us-a100-1" in first[first.index("RemoteJobLost") :]
    record = airflow.client.task_store(unique_dag_id, run_id, "train")["gpu_placement.record"]
    assert [(a["pool"], a["outcome"]) for a in record["attempts"]] == [
        ("us-a100", "infrastructure"),
        ("eu-h100", "succeeded"),
    ]
    assert record["attempts"][0]["lost_nodes"] == ["us-a100-1"]
    assert record["attempts"][0]["grade"] == "unknown"


@pytest.mark.scenario("PLACE.DAG-TEST", "dag.test() ended as a success with one remote job")
def test_dag_test_runs_the_whole_line(
    gpu_fleet: Lab, catalog_path: Path, unique_dag_id: str, tmp_path: Path
) -> None:
    """``dag.test()`` needs no scheduler and no triggerer, and ends the same."""
    process = in_one_process(gpu_fleet, catalog_path, unique_dag_id, tmp_path, arguments=["--epochs", "2"])

    result = dag_test_result(process)
    assert (result.run_state, result.task_states) == ("success", {"train": "success"}), process.stdout
    assert len(jobs_of(gpu_fleet, unique_dag_id)) == 1


def test_no_catalogue_says_where_it_was_looked_for(
    gpu_fleet: Lab, unique_dag_id: str, tmp_path: Path
) -> None:
    """The message names the path and shows how to make one."""
    process = in_one_process(
        gpu_fleet, tmp_path / "nowhere.yaml", unique_dag_id, tmp_path, arguments=[], retries=0
    )

    assert process.returncode == 1
    told = process.stdout + process.stderr
    assert str(tmp_path / "nowhere.yaml") in told
    assert "pools:" in told
    assert "retries=0" in told


@pytest.mark.scenario("PLACE.REFUSED", "success in try 2 in another pool")
def test_a_pool_that_refuses_the_job_is_left_for_another(
    gpu_fleet: Lab, unique_dag_id: str, tmp_path: Path
) -> None:
    """The cheapest pool's namespace does not exist: the next try goes elsewhere at once."""
    document = fleet.catalog(gpu_fleet)
    document["pools"][0]["namespace"] = "nowhere"
    (catalog := tmp_path / "catalog.yaml").write_text(yaml.safe_dump(document))
    process = in_one_process(gpu_fleet, catalog, unique_dag_id, tmp_path, arguments=["--epochs", "2"])

    result = dag_test_result(process)
    assert (result.run_state, result.tries) == ("success", {"train": 2}), process.stdout
    assert result.xcoms["train"]["pool"] == "eu-h100"
    assert 'namespaces "nowhere" not found' in process.stdout + process.stderr


@pytest.mark.scenario("PLACE.ON-WORKER", "success without a deferral")
@pytest.mark.usefixtures("no_leaks")
def test_a_worker_can_wait_itself(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """With ``deferrable=False`` the task is never deferred and ends the same."""
    source = fleet.training_dag(
        unique_dag_id, tmp_path, gpu=FOUR_BIG_GPUS, arguments=["--epochs", "2"], deferrable=False
    )
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    airflow.client.wait_task_state(unique_dag_id, run_id, "train", "success", timeout_seconds=120)

    log = airflow.client.task_log(unique_dag_id, run_id, "train", 1)
    assert airflow.client.xcom(unique_dag_id, run_id, "train")["epochs"] == 2
    assert "epoch 2" in log
    assert "Pausing task as DEFERRED" not in log
    assert len(jobs_of(gpu_fleet, unique_dag_id)) == 1


@pytest.mark.scenario("PLACE.MAPPED", "three remote jobs in three pools")
@pytest.mark.usefixtures("no_leaks")
def test_mapped_tasks_are_placed_each_on_its_own(
    gpu_fleet: Lab, airflow: AirflowProcesses, unique_dag_id: str, tmp_path: Path
) -> None:
    """Three requests, three remote jobs, three places, with the operator's own retries."""
    checkpoint = {"uri": f"file://{tmp_path}"}
    wishes = [
        {"gpu": {"gpus_per_node": 1, "models": ["L4"], "checkpoint": checkpoint}},
        {"gpu": {"gpus_per_node": 2, "models": ["A100"], "checkpoint": checkpoint}},
        {"gpu": {"gpus_per_node": 2, "models": ["H100"], "checkpoint": checkpoint}},
    ]
    source = fleet.training_dag(
        unique_dag_id, tmp_path, gpu={}, arguments=["--epochs", "2"], mapped_over=wishes
    )
    airflow.add_dag(unique_dag_id, source)

    run_id = airflow.client.trigger(unique_dag_id)
    airflow.client.wait_run_state(unique_dag_id, run_id, "success", timeout_seconds=180)

    pools = [
        airflow.client.xcom(unique_dag_id, run_id, "train", map_index=index)["pool"] for index in range(3)
    ]
    assert pools == ["us-l4", "us-a100", "eu-h100"]
    assert len(jobs_of(gpu_fleet, unique_dag_id)) == 3
    tries = {task.max_tries for task in airflow.client.task_instances(unique_dag_id, run_id)}
    assert tries == {5}
