"""The clusters on which remote jobs come to every kind of end, and a catalogue for each scenario.

Three clusters with one pool a node. ``main`` has its faults on nodes of their own. ``dark`` fails as a whole.
``frail`` has an etcd of its own, so that its outage hits nobody else; versions of its objects cannot be
compared with those of the others, so no job moves from or to it where the law of remote jobs is judged.
"""

from __future__ import annotations

import http
import json
from typing import TYPE_CHECKING, Any

import yaml

from lab import ClusterSpec, LabSpec, NodeSpec
from lab.airflow.rest import ApiError
from tests.system import fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lab import Lab
    from lab.airflow.client import AirflowClient

NAMESPACE = fleet.NAMESPACE
#: A namespace of cluster ``main`` in which no pod may be created.
NO_PODS = "no-pods"
QUOTA = "zero-pods"
#: A namespace of the same cluster in which no Job may be created.
NO_JOBS = "no-jobs"
JOB_QUOTA = "zero-jobs"
POOL_LABEL = "outcomes/pool"
MANY = 64
#: What the nodes of cluster ``dark`` can pull and those of the others cannot.
IMAGES = ("*", "lab/*", "private.registry.invalid/*")
#: Graces of pools whose node is not harmed: a busy machine is late, and must not look lost.
PATIENT: Mapping[str, Any] = {"node_grace_seconds": 60, "cluster_grace_seconds": 300}
#: Grace of pools whose node is lost. Nodes renew every second here.
SHORT_GRACE_SECONDS = 8


def _node(name: str, gpus: int = 1, **more: Any) -> NodeSpec:
    return NodeSpec(name, "onprem-h100-sxm", gpus=gpus, labels={POOL_LABEL: name}, renew_seconds=1, **more)


SPEC = LabSpec(
    (
        ClusterSpec(
            "main",
            (
                _node("calm", MANY),
                _node("refuge", MANY),
                *(_node(f"busy-{number}") for number in (1, 2, 3)),
                *(_node(f"gone-{number}") for number in (1, 2)),
                *(_node(f"{fault}-1") for fault in ("tainted", "drained", "spot", "prey")),
                *(_node(f"{fault}-1") for fault in ("cut", "dead", "mute")),
            ),
        ),
        ClusterSpec("dark", tuple(_node(f"dark-{number}", 8, images=IMAGES) for number in (1, 2, 3))),
        ClusterSpec(
            "frail",
            (_node("frail-1", MANY),),
            own_etcd=True,
        ),
    )
)
_CLUSTER_OF = {node.name: cluster.name for cluster in SPEC.clusters for node in cluster.nodes}


def prepare(lab: Lab) -> None:
    """Create the namespaces, one of them with a quota of no pods, and one with a quota of no Jobs."""
    for cluster in lab.clusters:
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    main = lab.cluster("main").api
    for namespace, name, what in ((NO_PODS, QUOTA, "pods"), (NO_JOBS, JOB_QUOTA, "count/jobs.batch")):
        main.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        main.post(path, {"metadata": {"name": name}, "spec": {"hard": {what: "0"}}})
        main.wait(
            f"{path}/{name}",
            lambda quota: quota is not None and "hard" in quota.get("status", {}),
            60,
            "the quota is in force",
        )


def connect(lab: Lab, airflow: AirflowClient) -> None:
    """Give Airflow a connection to each cluster."""
    for cluster in lab.clusters:
        extra = json.dumps({"kube_config": json.dumps(cluster.kubeconfig())})
        body = {"connection_id": _connection(cluster.name), "conn_type": "kubernetes", "extra": extra}
        try:
            airflow.call("POST", "/connections", json=body)
        except ApiError as error:
            if error.status_code != http.HTTPStatus.CONFLICT:  # a module before this one has done it
                raise


def _connection(cluster: str) -> str:
    return f"outcome_{cluster}"


def pool(node: str, gpu_hour_usd: float, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the pool that is one node.

    :param name: of the pool; the node's by default.
    """
    return {
        "name": name or node,
        "kubernetes_conn_id": _connection(_CLUSTER_OF[node]),
        "node_selector": {POOL_LABEL: node},
        "price": {"gpu_hour_usd": gpu_hour_usd},
        **PATIENT,
        **fields,
    }


#: Where a job goes that cannot stay: in reach of every scenario, and dearer than what it starts in.
REFUGE = pool("refuge", 9.0)


def write_catalog(path: Path, pools: Iterable[Mapping[str, Any]]) -> None:
    """Write a catalogue of these pools."""
    document = {"version": 1, "defaults": {"namespace": NAMESPACE}, "pools": [dict(one) for one in pools]}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
