"""The fleet of the benchmark, its catalogue and its DAGs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from lab import ClusterSpec, LabSpec, NodeSpec

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Lab

HOME, HAVEN = "home", "haven"
NAMESPACE = "training"
DAG_ID = "node_loss"
RENEW_SECONDS = 10.0
NODE_MONITOR_GRACE_SECONDS = 50
GPUS_OF_HAVEN = 8
PEER_NODES = ("peer-1", "peer-2", "peer-3")
PEERS = {
    "peer_airflow": "KubernetesJobOperator, retried by Airflow",
    "peer_kubernetes": "KubernetesJobOperator, replaced by Kubernetes",
}
"""DAG id of each way to use the peer -> its title."""
EVICTION_SECONDS = 30
"""Toleration of a lost node that the tuned peer sets instead of the default of 300 s."""

_ROLE = "bench/role"


def spec(jobs: int) -> LabSpec:
    """Return a cluster with one node of one GPU for each job, and another where lost jobs find a place.

    Nodes renew every 10 s and the cluster calls them lost after 50 s, as by default.
    """
    home = [_node(f"n-{index:02}", "ours") for index in range(jobs)]
    peers = [_node(name, "peer") for name in PEER_NODES]
    haven = [
        NodeSpec(f"h-{index:02}", "gke-l4", gpus=GPUS_OF_HAVEN, renew_seconds=RENEW_SECONDS)
        for index in range(-(-jobs // GPUS_OF_HAVEN))
    ]
    return LabSpec(
        (ClusterSpec(HOME, (*home, *peers)), ClusterSpec(HAVEN, tuple(haven))),
        node_monitor_grace_seconds=NODE_MONITOR_GRACE_SECONDS,
    )


def _node(name: str, role: str) -> NodeSpec:
    return NodeSpec(name, "gke-l4", gpus=1, labels={_ROLE: role}, renew_seconds=RENEW_SECONDS)


def connections(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the Airflow connection of each cluster."""
    return {
        f"gpu_{name}": {
            "conn_type": "kubernetes",
            "extra": json.dumps({"kube_config": json.dumps(lab.cluster(name).kubeconfig())}),
        }
        for name in (HOME, HAVEN)
    }


def write_catalog(path: Path, lab: Lab, node_grace_seconds: float) -> Path:
    """Write the catalogue: the first cluster's pool is the cheaper one."""
    selectors = {HOME: {_ROLE: "ours"}, HAVEN: {"cloud.google.com/gke-accelerator": "nvidia-l4"}}
    prices = {HOME: 1.0, HAVEN: 2.0}
    content = {
        "version": 1,
        "defaults": {
            "namespace": NAMESPACE,
            "node_grace_seconds": node_grace_seconds,
            "tolerations": [_TOLERATION],
        },
        "pools": [
            {
                "name": name,
                "kubernetes_conn_id": f"gpu_{name}",
                "cluster_uid": lab.cluster(name).uid,
                "node_selector": selectors[name],
                "price": {"gpu_hour_usd": prices[name]},
            }
            for name in (HOME, HAVEN)
        ],
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}

_OURS = """
from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_gpu_placement.operators import GpuTrainingJobOperator


@dag(dag_id={dag_id!r}, schedule=None, catchup=False)
def losses():
    GpuTrainingJobOperator.partial(
        task_id="train",
        image="lab/sleep",
        command=["sleep", "100000"],
        gpu={{"gpus_per_node": 1, "models": ["L4"]}},
        retry_delay=timedelta(seconds=1),
    ).expand(env=[{{"NUMBER": str(number)}} for number in range({jobs})])


losses()
"""

_PEER = """
from __future__ import annotations

from datetime import timedelta

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.sdk import dag
from kubernetes.client import models as k8s

gpus = {{"nvidia.com/gpu": "1"}}
tolerations = [k8s.V1Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")]
for key in {evicted_for}:
    tolerations.append(
        k8s.V1Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds={seconds})
    )


@dag(dag_id={dag_id!r}, schedule=None, catchup=False)
def losses():
    KubernetesJobOperator(
        task_id="train",
        retries=5,
        retry_delay=timedelta(seconds=1),
        kubernetes_conn_id="gpu_home",
        namespace={namespace!r},
        name="peer",
        image="lab/sleep",
        cmds=["sleep", "100000"],
        node_selector={selector!r},
        container_resources=k8s.V1ResourceRequirements(requests=gpus, limits=gpus),
        tolerations=tolerations,
        deferrable=True,
        wait_until_job_complete=True,
        backoff_limit={backoff_limit},
        # The operator looks for its pod without a pause, and fails when the cluster has not made it yet.
        discover_pods_retry_number=100,
    )


losses()
"""


def sources(jobs: int) -> dict[str, str]:
    """Return the text of each DAG file by DAG id."""
    taints = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    evicted_for = {"peer_airflow": (), "peer_kubernetes": taints}
    backoff_limit = {"peer_airflow": 0, "peer_kubernetes": 2}
    peers = {
        name: _PEER.format(
            dag_id=name,
            namespace=namespace_of(name),
            selector={_ROLE: "peer"},
            evicted_for=evicted_for[name],
            seconds=EVICTION_SECONDS,
            backoff_limit=backoff_limit[name],
        )
        for name in PEERS
    }
    return {DAG_ID: _OURS.format(dag_id=DAG_ID, jobs=jobs), **peers}


def namespace_of(dag_id: str) -> str:
    """Return the namespace of a DAG's jobs."""
    return NAMESPACE if dag_id == DAG_ID else dag_id.replace("_", "-")
