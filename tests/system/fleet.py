"""The fleet that the system tests place jobs on, and its catalogue.

Two healthy clusters with three pools, and three more pools each of which is broken in one way, so that every
decision shows that a broken pool is named and does not spoil the others.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lab import ClusterSpec, LabSpec, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab import Lab

REPOSITORY = Path(__file__).resolve().parents[2]
TRAINING = REPOSITORY / "dags" / "training" / "train_digits.py"
NAMESPACE = "training"
NODE_GRACE_SECONDS = 5
BROKEN_POOLS = {
    "broken-dark": "ClusterUnreachable",
    "broken-ghost": "ConnectionMissing",
    "broken-locked": "AccessForbidden",
    "broken-mixed-up": "WrongCluster",
}

SPEC = LabSpec(
    (
        ClusterSpec(
            "gke-us",
            (
                NodeSpec("us-a100-1", "gke-a100-80", renew_seconds=1, region="us-central1"),
                NodeSpec("us-l4-1", "gke-l4", renew_seconds=1, region="us-central1"),
            ),
            users=("visitor",),
        ),
        ClusterSpec(
            "gke-eu",
            (
                NodeSpec("eu-h100-1", "gke-h100", renew_seconds=1, region="europe-west4"),
                NodeSpec("eu-h100-2", "gke-h100", renew_seconds=1, region="europe-west4"),
            ),
        ),
    )
)


def containers_of(lab: Lab, timeout_seconds: float = 10) -> dict[str, list[int]]:
    """Return the processes of each node beside its agent, those that are still there after a while."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        running = {node.name: node.pids() for cluster in lab.clusters for node in cluster.nodes}
        left = {name: pids for name, pids in running.items() if len(pids) > 1}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def occupied(lab: Lab, cluster: str, node: str, gpus: int) -> Callable[[], None]:
    """Take all GPUs of a node by a pod of somebody else; return what gives them back."""
    api, path = lab.cluster(cluster).api, f"/api/v1/namespaces/{NAMESPACE}/pods"
    name = f"taken-{node}"
    amount = {"nvidia.com/gpu": str(gpus)}
    container = {
        "name": "main",
        "image": "lab/train-digits",
        "command": ["/bin/sleep", "3600"],
        "resources": {"requests": amount, "limits": amount},
    }
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
    api.post(path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def give_back() -> None:
        api.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})

    return give_back


def connections(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the Airflow connections of the pools; ``gpu_ghost`` is left out on purpose."""
    dark = lab.cluster("gke-us").kubeconfig()
    dark = json.loads(json.dumps(dark))
    dark["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"  # discard: nothing listens there
    configs = {
        "gpu_us": lab.cluster("gke-us").kubeconfig(),
        "gpu_eu": lab.cluster("gke-eu").kubeconfig(),
        "gpu_locked": lab.cluster("gke-us").kubeconfig("visitor"),
        "gpu_dark": dark,
    }
    return {
        name: {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config)}}
        for name, config in configs.items()
    }


def catalog(lab: Lab) -> dict[str, Any]:
    """Return the catalogue of the fleet; prices as in the demo."""
    us, eu = lab.cluster("gke-us"), lab.cluster("gke-eu")
    healthy = [
        _pool("us-a100", "gpu_us", us.uid, "nvidia-a100-80gb", 5.07, region="us-central1"),
        _pool("us-l4", "gpu_us", us.uid, "nvidia-l4", 1.0, region="us-central1"),
        _pool(
            "eu-h100", "gpu_eu", eu.uid, "nvidia-h100-80gb", 5.51, region="europe-west4", capacity_type="spot"
        ),
    ]
    broken = [
        _pool(
            "broken-dark", "gpu_dark", None, "nvidia-h100-80gb", 0.01, gpu={"model": "H100", "memory_gb": 80}
        ),
        _pool(
            "broken-ghost",
            "gpu_ghost",
            None,
            "nvidia-h100-80gb",
            0.01,
            gpu={"model": "H100", "memory_gb": 80},
        ),
        _pool("broken-locked", "gpu_locked", us.uid, "nvidia-a100-80gb", 0.01),
        _pool("broken-mixed-up", "gpu_eu", us.uid, "nvidia-h100-80gb", 0.01),
    ]
    return {
        "version": 1,
        "defaults": {
            "namespace": NAMESPACE,
            "node_grace_seconds": NODE_GRACE_SECONDS,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "pools": [*healthy, *broken],
    }


def _pool(
    name: str, conn_id: str, uid: str | None, accelerator: str, gpu_hour_usd: float, **fields: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "kubernetes_conn_id": conn_id,
        **({"cluster_uid": uid} if uid else {}),
        "node_selector": {"cloud.google.com/gke-accelerator": accelerator},
        "price": {"gpu_hour_usd": gpu_hour_usd},
        **fields,
    }


def write_catalog(lab: Lab, path: Path) -> Path:
    """Write the catalogue as YAML."""
    path.write_text(yaml.safe_dump(catalog(lab), sort_keys=False))
    return path


def airflow_environment(catalog_path: Path) -> Mapping[str, str]:
    """Return the environment that makes an Airflow use this catalogue, and not wait long."""
    return {
        "AIRFLOW__GPU_PLACEMENT__CATALOG": str(catalog_path),
        "AIRFLOW__GPU_PLACEMENT__SIGNAL_DEADLINE_SECONDS": "10",
        "AIRFLOW__GPU_PLACEMENT__DECIDE_AGAIN_SECONDS": "5",
        "AIRFLOW__GPU_PLACEMENT__FENCE_TIMEOUT_SECONDS": "3",
    }


DAG_TEMPLATE = """
from __future__ import annotations

from airflow.sdk import dag

from airflow_gpu_placement.operators import GpuTrainingJobOperator


@dag(dag_id={dag_id!r}, schedule=None, catchup=False)
def training():
    {operator}


training()
"""


def training_dag(
    dag_id: str,
    checkpoints: Path,
    *,
    gpu: Mapping[str, Any],
    arguments: list[str],
    mapped_over: list[dict[str, Any]] | None = None,
    **operator: Any,
) -> str:
    """Write a DAG with one task ``train`` that trains on the digits.

    :param mapped_over: keyword arguments for ``expand_kwargs``: one task instance each.
    """
    request = {**gpu, "checkpoint": {"uri": f"file://{checkpoints}"}}
    fixed = {
        "task_id": "train",
        "image": "lab/train-digits",
        "command": [sys.executable, str(TRAINING)],
        "volumes": [{"name": "checkpoints", "hostPath": {"path": str(checkpoints)}}],
        "volume_mounts": [{"name": "checkpoints", "mountPath": str(checkpoints)}],
        **operator,
    }
    if mapped_over is None:
        text = f"GpuTrainingJobOperator(**{ {**fixed, 'gpu': request, 'arguments': arguments}!r})"
    else:
        text = (
            f"GpuTrainingJobOperator.partial(**{ {**fixed, 'arguments': arguments}!r})"
            f".expand_kwargs({mapped_over!r})"
        )
    return DAG_TEMPLATE.format(dag_id=dag_id, operator=text)
