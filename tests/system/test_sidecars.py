"""Containers that a cluster adds to the pods of a training, on real control planes and nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.harness.dag_test import dag_test_result, run_dag_test
from tests.system import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

#: The DAG adds the second container itself, where a cluster's webhook does it.
DAG = """
from __future__ import annotations

from airflow.sdk import DAG

from airflow_gpu_placement.launch import manifest
from airflow_gpu_placement.operators import GpuTrainingJobOperator

alone = manifest._pod


def beside(spec):
    pod = alone(spec)
    shipper = {{"name": "a-shipper", "image": "lab/train-digits", "command": ["/bin/sh", "-c", {sidecar!r}]}}
    pod["containers"].insert(0, shipper)
    return pod


if alone.__name__ != "beside":
    manifest._pod = beside

with DAG("beside", schedule=None, catchup=False):
    GpuTrainingJobOperator(
        task_id="train",
        image="lab/train-digits",
        command=["/bin/sh", "-c", {training!r}],
        retries=0,
        gpu={{"gpus_per_node": 1, "nodes": {nodes}, "models": ["A100", "H100"]}},
        volumes=[{{"name": "proof", "hostPath": {{"path": {folder!r}}}}}],
        volume_mounts=[{{"name": "proof", "mountPath": {folder!r}}}],
    )
"""
RESULT = """echo '{"accuracy": 0.9}' > "$GPU_PLACEMENT_RESULT_PATH" """
LIVES_ON = "trap 'exit 1' TERM; sleep 600 & wait"
DIES_FIRST = "sleep 1; echo the shipper has lost its server >&2; exit 1"


@pytest.mark.parametrize(
    ("nodes", "training", "sidecar", "warning"),
    [
        pytest.param(1, f"sleep 2; {RESULT}; touch $0/0", LIVES_ON, "", id="lives-on"),
        pytest.param(
            2,
            # A success of the whole would be told long before the last rank has ended, if it were too early.
            f"[ $NODE_RANK = 0 ] || sleep 20; {RESULT}; touch $0/$NODE_RANK",
            LIVES_ON,
            "",
            id="lives-on-in-a-gang",
        ),
        pytest.param(
            1,
            f"sleep 8; {RESULT}; touch $0/0",
            DIES_FIRST,
            "beside it failed: a-shipper (exit code 1)",
            id="dies-first",
        ),
    ],
)
def test_what_is_added_to_a_pod_decides_nothing(
    gpu_fleet: Lab,
    catalog_path: Path,
    tmp_path: Path,
    nodes: int,
    training: str,
    sidecar: str,
    warning: str,
) -> None:
    """The training succeeds with its own result once every rank has, and no GPU is held afterwards."""
    folder = tmp_path / "proof"
    folder.mkdir(mode=0o777)
    dag_file = tmp_path / "dags" / "beside.py"
    dag_file.parent.mkdir()
    script = training.replace("$0", str(folder))
    dag_file.write_text(DAG.format(sidecar=sidecar, training=script, nodes=nodes, folder=str(folder)))
    completed = run_dag_test(
        dag_file,
        "beside",
        env=fleet.airflow_environment(catalog_path),
        connections=fleet.connections(gpu_fleet),
        timeout_seconds=180,
    )
    told = completed.stdout + completed.stderr
    result = dag_test_result(completed)
    assert (result.run_state, result.tries["train"]) == ("success", 1), told
    assert result.xcoms["train"] == {"accuracy": 0.9}
    assert {one.name for one in folder.iterdir()} == {str(rank) for rank in range(nodes)}
    assert fleet.containers_of(gpu_fleet, timeout_seconds=40) == {}
    assert warning in told
    if sidecar is LIVES_ON:
        assert "(a-shipper) is withdrawn with the job" in told
        assert unfinished(gpu_fleet) == []


def unfinished(lab: Lab) -> list[str]:
    """Return the pods of the fleet's namespace that have not ended."""
    path = f"/api/v1/namespaces/{fleet.NAMESPACE}/pods"
    return [
        json.dumps(pod["status"])
        for cluster in lab.clusters
        for pod in cluster.api.get(path)["items"]
        if pod["status"]["phase"] not in {"Succeeded", "Failed"}
    ]
