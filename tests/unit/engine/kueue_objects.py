"""Kueue objects as the API sends them; every argument has a usual value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.kueue import quota_of_pool
from airflow_gpu_placement.model.kueue import (
    ClusterQueue,
    KueueObjects,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from tests.unit.engine.builders import pool

if TYPE_CHECKING:
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import QuotaSignals

GPU = "nvidia.com/gpu"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
A40 = {"nvidia.com/gpu.product": "NVIDIA-A40"}
ACTIVE = {"type": "Active", "status": "True", "reason": "Ready"}


def group(**flavors: Any) -> dict[str, Any]:
    """Build a resource group of GPUs: flavour -> nominal, or a dict of quota fields."""
    return {
        "coveredResources": [GPU],
        "flavors": [
            {
                "name": name,
                "resources": [{"name": GPU, **(one if isinstance(one, dict) else {"nominalQuota": one})}],
            }
            for name, one in flavors.items()
        ],
    }


def cluster_queue(
    name: str = "ml",
    *groups: dict[str, Any],
    reserved: dict[str, int] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    pending: int | None = None,
    **spec: Any,
) -> ClusterQueue:
    """Build a ClusterQueue as the API sends it."""
    usage = [
        {"name": flavor, "resources": [{"name": GPU, "total": str(total)}]}
        for flavor, total in (reserved or {}).items()
    ]
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {"resourceGroups": list(groups), **spec},
            "status": {
                "flavorsReservation": usage,
                # Lower than what is reserved: what waits for admission checks is missing here.
                "flavorsUsage": [],
                "pendingWorkloads": pending,
                "conditions": [ACTIVE] if conditions is None else conditions,
            },
        },
        ClusterQueue,
    )


def flavor(name: str, labels: dict[str, str] | None = None, **spec: Any) -> ResourceFlavor:
    """Build a ResourceFlavor."""
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"nodeLabels": labels or {}, **spec}}, ResourceFlavor
    )


def local_queue(name: str = "team", cluster: str = "ml", **spec: Any) -> LocalQueue:
    """Build a LocalQueue in the pool's namespace."""
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": cluster, **spec}},
        LocalQueue,
    )


def workload(name: str, gpus: int, *, priority: int = 0, queue: str = "team", **more: Any) -> Workload:
    """Build a Workload of one pod set; it waits unless it is told what it has."""
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "creationTimestamp": more.pop("created", "2026-01-05T10:00:00Z"),
            },
            "spec": {"queueName": queue, "priority": priority, "podSets": [pod_set], **more.pop("spec", {})},
            "status": more,
        },
        Workload,
    )


def admitted(name: str, gpus: int, *, at: str, queue: str = "ml", priority: int = 0) -> Workload:
    """Build a Workload that has its quota in flavour ``a100``."""
    assignment = {"name": "main", "flavors": {GPU: "a100"}, "resourceUsage": {GPU: str(gpus)}}
    return workload(
        name,
        gpus,
        priority=priority,
        admission={"clusterQueue": queue, "podSetAssignments": [assignment]},
        conditions=[{"type": "QuotaReserved", "status": "True", "lastTransitionTime": at}],
    )


def objects(*queues: ClusterQueue, **more: Any) -> KueueObjects:
    """Build everything; flavours ``a100`` and ``a40`` and LocalQueue ``team`` are there."""
    return KueueObjects(
        cluster_queues=queues,
        flavors=more.pop("flavors", (flavor("a100", A100), flavor("a40", A40))),
        local_queues=more.pop("local_queues", (local_queue(),)),
        **more,
    )


def a100_pool(**fields: Any) -> GpuPool:
    """Build the pool of the A100 nodes."""
    return pool(node_selector=fields.pop("node_selector", A100), **fields)


def quota(kueue: KueueObjects, pool: GpuPool | None = None, **more: Any) -> QuotaSignals:
    """Ask for the quota of LocalQueue ``team``."""
    return quota_of_pool(kueue, pool or a100_pool(), "team", **more)
