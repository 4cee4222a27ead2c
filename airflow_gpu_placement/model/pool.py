"""A GPU pool: one kind of GPU capacity in one cluster."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.kube import Toleration


class CapacityType(StrEnum):
    """How the capacity is bought, which decides whether it may be taken away."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


class GpuIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of GPU a device is.

    :param model: canonical model name, such as ``H100`` or ``RTX-A6000``.
    :param memory_gb: marketed memory class in GB (40, 80, 141); ``None`` when nothing tells it.
    :param form_factor: ``PCIe``, ``SXM``, ``NVL`` ...; ``None`` when nothing tells it.
    """

    model: str
    memory_gb: float | None = None
    form_factor: str | None = None


class DeclaredGpu(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalogue says of a pool's GPUs; each ``None`` is read from the nodes instead.

    :param per_node: GPUs of one node; needed only for pools that can be empty.
    :param resource_name: extended resource that a pod asks for.
    """

    model: str | None = None
    memory_gb: float | None = None
    form_factor: str | None = None
    per_node: int | None = None
    resource_name: str = "nvidia.com/gpu"


class GpuPool(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of GPU capacity: cluster x region x model x capacity type.

    :param name: unique in the catalogue.
    :param kubernetes_conn_id: Airflow connection of the cluster.
    :param context: kubeconfig context; ``None``: the current one.
    :param cluster_uid: uid of the cluster's ``kube-system`` namespace; a cluster that answers with another
        is refused.
        ``None``: the cluster that the signals came from must be the one that is written to.
    :param namespace: where remote jobs are created.
    :param node_selector: labels of the pool's nodes; also put on the remote job.
    :param tolerations: put on the remote job; a taint that they do not cover makes a node unusable.
    :param gpu_hour_usd: price of one GPU for one hour in USD; ``None``: unknown, ranks after every known
        price.
    :param price_source: where the price comes from, shown beside it.
    :param max_nodes: most nodes of a pool that grows by itself; ``None``: it does not grow.
    :param node_grace_seconds: silence of a node, by the watcher's own clock, after which it counts as lost.
    :param cluster_grace_seconds: silence of a whole cluster after which its jobs count as lost.
    :param node_deletion_is_proof: a deleted Node object proves that the machine is gone (a cloud controller
        deletes it
        after the machine).
    """

    name: str
    kubernetes_conn_id: str
    context: str | None = None
    cluster_uid: str | None = None
    namespace: str = "default"
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    gpu: DeclaredGpu = DeclaredGpu()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    gpu_hour_usd: float | None = None
    price_source: str | None = None
    max_nodes: int | None = None
    node_grace_seconds: float = 120.0
    cluster_grace_seconds: float = 900.0
    node_deletion_is_proof: bool = False
