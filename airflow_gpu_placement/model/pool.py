"""A GPU pool: one kind of GPU capacity in one cluster."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.outcome import LossPolicy


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
    :param variant: what tells two machines with the same GPU apart, such as ``MEGA`` (more network); mostly
        ``None``.
    """

    model: str
    memory_gb: float | None = None
    form_factor: str | None = None
    variant: str | None = None

    def __str__(self) -> str:
        """Return the words for people, such as ``H100 80 GB SXM``."""
        memory = None if self.memory_gb is None else f"{self.memory_gb:g} GB"
        return " ".join(part for part in (self.model, self.variant, memory, self.form_factor) if part)


class DeclaredGpu(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalogue says of a pool's GPUs; each ``None`` is read from the nodes instead.

    :param per_node: GPUs of one node; needed only for pools that can be empty.
    :param interconnect: between the GPUs of a node: ``nvlink``, ``nvswitch``, ``pcie``; ``None``: unknown.
    :param resource_name: extended resource that a pod asks for; where it is the usual one and no node has it,
        the one that they have.
    """

    model: str | None = None
    memory_gb: float | None = None
    form_factor: str | None = None
    per_node: int | None = None
    interconnect: str | None = None
    resource_name: str = "nvidia.com/gpu"


class Execution(StrEnum):
    """By which path a remote job gets to the pool's nodes."""

    JOB = "job"
    KUEUE = "kueue"
    MULTIKUEUE = "multikueue"


class PoolNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The network between the pool's nodes, as far as the catalogue tells it.

    :param kind: ``infiniband``, ``roce``, ``efa``, ``gpudirect-tcpx``, ``ethernet`` ...; ``None``: unknown.
    :param gbps: bandwidth of one node in Gbit/s; ``None``: unknown.
    :param fabric_label: node label whose whole value names the fabric that a node is on.
    """

    kind: str | None = None
    gbps: float | None = None
    fabric_label: str | None = None


class KueueQueue(msgspec.Struct, frozen=True, kw_only=True):
    """How the pool is reached through Kueue.

    :param local_queues: tenant name -> LocalQueue in the pool's namespace; ``*`` stands for any tenant.
    :param flavor: ResourceFlavor that stands for this pool; ``None``: found by its node labels.
    """

    local_queues: dict[str, str] = {}
    flavor: str | None = None


class ClusterRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pool's API is.

    :param kubernetes_conn_id: Airflow connection of the cluster.
    :param context: kubeconfig context; ``None``: the current one.
    :param uid: uid of the cluster's ``kube-system`` namespace; a cluster that answers with another is
        refused. ``None``: the cluster that the signals came from must be the one that is written to.
    :param namespace: where remote jobs are created.
    """

    kubernetes_conn_id: str
    context: str | None = None
    uid: str | None = None
    namespace: str = "default"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pool's machines are; ``None``: not told.

    :param region_source: what tells the region where the catalogue does not; ``None``: the catalogue does, or
        nothing.
    """

    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    region_source: str | None = None

    @property
    def region_words(self) -> str:
        """Name the region for people, with what tells it where the catalogue does not."""
        if self.region is None:
            return "unknown"
        return self.region if self.region_source is None else f"{self.region} ({self.region_source})"


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What the pool's GPUs cost.

    :param gpu_hour_usd: price of one GPU for one hour in USD; ``None``: unknown, ranks after every known
        price.
    :param source: where the price comes from, shown beside it.
    :param rank_gpu_hour_usd: price that orders pools instead, such as the opportunity price of reserved GPUs;
        ``None``: the price itself. Never used for money.
    :param preference_usd: the platform team's own bias in USD a job, for ordering only; negative attracts.
    """

    gpu_hour_usd: float | None = None
    source: str | None = None
    rank_gpu_hour_usd: float | None = None
    preference_usd: float = 0.0


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the pool adds nodes to itself.

    :param max_nodes: most nodes of a pool that grows; ``None``: it does not grow.
    :param provisioning_seconds: time until a node that it adds can be used.
    """

    max_nodes: int | None = None
    provisioning_seconds: float = 300.0


class GpuPool(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of GPU capacity: cluster x region x model x capacity type.

    :param name: unique in the catalogue.
    :param node_selector: labels of the pool's nodes; also put on the remote job.
    :param tolerations: put on the remote job; a taint that they do not cover makes a node unusable.
    :param loss: how long silence of a node or of the whole cluster is borne, and a late start.
    :param interruptions_per_gpu_hour: prior of the interruption rate; ``None``: the capacity type's default.
    :param architecture: ``amd64`` or ``arm64``; ``None``: read from the nodes.
    :param execution: path by which remote jobs get there.
    :param max_signal_age_seconds: older signals of this pool count as unknown.
    """

    name: str
    cluster: ClusterRef
    place: Place = Place()
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    gpu: DeclaredGpu = DeclaredGpu()
    network: PoolNetwork = PoolNetwork()
    architecture: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    price: Price = Price()
    growth: Growth = Growth()
    loss: LossPolicy = LossPolicy()
    interruptions_per_gpu_hour: float | None = None
    execution: Execution = Execution.JOB
    kueue: KueueQueue = KueueQueue()
    max_signal_age_seconds: float = 120.0

    @property
    def job_tolerations(self) -> tuple[Toleration, ...]:
        """Tolerations that every remote job in this pool carries.

        The pool's own, and one for the taint that keeps other pods off GPU nodes: it is named as the
        resource, and the admission plugin ExtendedResourceToleration adds the same to every pod that asks for
        it.
        """
        gpu_taint = Toleration(key=self.gpu.resource_name, operator="Exists", effect="NoSchedule")
        return self.tolerations if gpu_taint in self.tolerations else (*self.tolerations, gpu_taint)

    @property
    def watch_policy(self) -> LossPolicy:
        """What a remote job in this pool is watched by: a pool that grows is given time to add a node."""
        if self.growth.max_nodes is None:
            return self.loss
        return msgspec.structs.replace(self.loss, unschedulable_timeout_seconds=None)
