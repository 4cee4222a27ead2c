"""Who is compared: the DAG of each contender, and the fleet that all of them share."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lab import ClusterSpec, LabSpec, NodeSpec

if TYPE_CHECKING:
    from benchmarks.peer.speed import Speed
    from lab import Cluster

REPOSITORY = Path(__file__).resolve().parents[2]
TRAINING = REPOSITORY / "dags" / "training" / "train_digits.py"
CLUSTER = "site"
FIRST_NODE, SECOND_NODE = "a100-1", "a100-2"
CONN_ID = "gpu_site"
GPU_LABEL = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
GPUS_EACH = 2
RETRIES = 2


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to run the job: a DAG with one task, in a namespace of its own.

    :param key: name of DAG, namespace and checkpoint folder.
    :param title: name in the table.
    :param settings: in words, for the report.
    :param source: text of the DAG file.
    """

    key: str
    title: str
    settings: str
    source: str

    @property
    def dag_id(self) -> str:
        """Name of the DAG; its task is called ``train``."""
        return self.key.replace("-", "_")


def fleet(speed: Speed) -> LabSpec:
    """Return one cluster with two nodes of 8 A100 GPUs and one without any."""
    nodes = tuple(
        NodeSpec(name, "onprem-a100-80", renew_seconds=speed.renew_seconds)
        for name in (FIRST_NODE, SECOND_NODE)
    )
    return LabSpec(
        (ClusterSpec(CLUSTER, nodes),), node_monitor_grace_seconds=speed.node_monitor_grace_seconds
    )


def connections(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return the one Airflow connection that all contenders use."""
    extra = {"kube_config": json.dumps(cluster.kubeconfig())}
    return {CONN_ID: {"conn_type": "kubernetes", "extra": extra}}


def write_catalog(path: Path, cluster: Cluster, speed: Speed, namespace: str) -> Path:
    """Write the product's catalogue: one pool with the very nodes that the peer's selector names."""
    content = {
        "version": 1,
        "defaults": {"namespace": namespace, "node_grace_seconds": speed.node_grace_seconds},
        "pools": [
            {
                "name": "site-a100",
                "kubernetes_conn_id": CONN_ID,
                "cluster_uid": cluster.uid,
                "node_selector": GPU_LABEL,
            }
        ],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def contenders(shared: Path, speed: Speed, epochs: int, seconds_per_epoch: float) -> tuple[Contender, ...]:
    """Return all contenders; the product is the first."""
    program = ["--epochs", str(epochs), "--seconds-per-epoch", str(seconds_per_epoch)]
    waiting = {
        "deferrable": True,
        "wait_until_job_complete": True,
        "job_poll_interval": speed.job_poll_seconds,
        "retries": RETRIES,
        # The operator looks for its pod without a pause, and fails when the cluster has not made it yet.
        "discover_pods_retry_number": 100,
    }
    return (
        Contender(
            key="ours",
            title="GpuTrainingJobOperator",
            settings=f"retries={RETRIES}, retry_delay 1 s",
            source=_product("ours", shared / "ours", program),
        ),
        Contender(
            key="peer-airflow",
            title="KubernetesJobOperator, retried by Airflow",
            settings=f"deferrable, waits for the Job, backoff_limit=0, retries={RETRIES}, retry_delay 1 s",
            source=_peer("peer-airflow", shared / "peer-airflow", program, {**waiting, "backoff_limit": 0}),
        ),
        Contender(
            key="peer-kubernetes",
            title="KubernetesJobOperator, replaced by Kubernetes",
            settings=(
                f"deferrable, waits for the Job, backoff_limit=2, tolerationSeconds {speed.eviction_seconds}"
                f" for a lost node, retries={RETRIES}, retry_delay 1 s"
            ),
            source=_peer(
                "peer-kubernetes",
                shared / "peer-kubernetes",
                program,
                {**waiting, "backoff_limit": 2},
                eviction_seconds=speed.eviction_seconds,
            ),
        ),
        Contender(
            key="peer-defaults",
            title="KubernetesJobOperator, defaults",
            settings=f"only told what to run: does not wait for the Job; retries={RETRIES}, retry_delay 1 s",
            source=_peer("peer-defaults", shared / "peer-defaults", program, {"retries": RETRIES}),
        ),
    )


_PRODUCT_DAG = """
from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_gpu_placement.operators import GpuTrainingJobOperator


@dag(dag_id={dag_id!r}, schedule=None, catchup=False)
def training():
    GpuTrainingJobOperator(retry_delay=timedelta(seconds=1), **{operator!r})


training()
"""

_PEER_DAG = """
from __future__ import annotations

from datetime import timedelta

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk import dag
from kubernetes.client import models as k8s

gpus = {{"nvidia.com/gpu": "{gpus}"}}
folder = {folder!r}


@dag(dag_id={dag_id!r}, schedule=None, catchup=False)
def training():
    KubernetesJobOperator(
        retry_delay=timedelta(seconds=1),
        container_resources=k8s.V1ResourceRequirements(requests=gpus, limits=gpus),
        volumes=[k8s.V1Volume(name="checkpoints", host_path=k8s.V1HostPathVolumeSource(path=folder))],
        volume_mounts=[k8s.V1VolumeMount(name="checkpoints", mount_path=folder)],
        tolerations={tolerations},
        **{operator!r},
    )


training()
"""

_EVICTION = """[
            k8s.V1Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds={seconds})
            for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
        ]"""


def _command(folder: Path, program: list[str]) -> list[str]:
    """Return the command; the checkpoint folder is its last word, by which a running copy is recognised."""
    return [*program, "--checkpoint-dir", str(folder)]


def _product(key: str, folder: Path, program: list[str]) -> str:
    operator = {
        "task_id": "train",
        "image": "lab/train-digits",
        "command": [sys.executable, str(TRAINING)],
        "arguments": _command(folder, program),
        "gpu": {
            "gpus_per_node": GPUS_EACH,
            "models": ["A100"],
            "checkpoint": {"uri": f"file://{folder}"},
        },
        "volumes": [{"name": "checkpoints", "hostPath": {"path": str(folder)}}],
        "volume_mounts": [{"name": "checkpoints", "mountPath": str(folder)}],
        "retries": RETRIES,
    }
    return _PRODUCT_DAG.format(dag_id=key.replace("-", "_"), operator=operator)


def _peer(
    key: str,
    folder: Path,
    program: list[str],
    settings: dict[str, Any],
    *,
    eviction_seconds: int | None = None,
) -> str:
    operator = {
        "task_id": "train",
        "kubernetes_conn_id": CONN_ID,
        "namespace": key,
        "name": "train-digits",
        "image": "lab/train-digits",
        "cmds": [sys.executable, str(TRAINING)],
        "arguments": _command(folder, program),
        "node_selector": GPU_LABEL,
        **settings,
    }
    return _PEER_DAG.format(
        dag_id=key.replace("-", "_"),
        folder=str(folder),
        gpus=GPUS_EACH,
        operator=operator,
        tolerations="None" if eviction_seconds is None else _EVICTION.format(seconds=eviction_seconds),
    )
