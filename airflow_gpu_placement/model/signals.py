"""Observed facts about pools: what was seen, when, by what, and what could not be seen."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.pool import CapacityType, GpuIdentity


class GapKind(StrEnum):
    """Why a pool's signals are missing."""

    CONNECTION_MISSING = "connection_missing"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    WRONG_CLUSTER = "wrong_cluster"
    INVALID = "invalid"


class SignalGap(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing and why; unknown is never free."""

    kind: GapKind
    message: str


class NodeCapacity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whole GPUs of one node, for a job with the pool's tolerations.

    There may be tens of thousands, in no circle: the garbage collector need not look at them.

    :param capacity: devices that the node has.
    :param allocatable: devices that pods may use (unhealthy ones are not in it).
    :param used: devices held by pods that are bound and not ended, terminating ones included, and by pods
        that the scheduler has promised the node.
    :param free: devices that a new pod could get now; 0 when the node is not usable.
    :param fabric: value of the pool's fabric label; nodes with the same value are on one fabric.
    :param architecture: ``amd64`` or ``arm64``.
    :param region: where its labels say that it is.
    :param capacity_type: how its labels say that it is bought; ``None``: none tells.
    :param labels: those of its labels that tell its GPUs, its processors, where it is and how it is bought.
    :param boot: first eight characters of its boot id, which tell two boots apart; empty: not known.
    :param leaves_at: when its machine is to be stopped for maintenance; ``None``: nothing says so.
    :param whole: its devices are whole GPUs; shares of a GPU and slices of one are not, and count as none.
    :param shares: shares of GPUs that it offers instead.
    :param slices: profile -> slices of GPUs that it offers instead, or beside whole ones.
    :param spare: what pods leave free beside GPUs, by resource: pod slots (``pods``), thousandths of a CPU
        (``cpu``), bytes (``memory``), pieces of others; without what the node does not tell.
    :param closed: the scheduler would, or should, put no new pod on it.
    :param unusable_because: short reason such as ``cordoned`` or ``taint gpu=maintenance:NoSchedule``, also
        where its devices are no whole GPUs; ``None``: usable.
    """

    name: str
    gpu: GpuIdentity | None = None
    capacity: int = 0
    allocatable: int = 0
    used: int = 0
    free: int = 0
    zone: str | None = None
    fabric: str | None = None
    architecture: str | None = None
    region: str | None = None
    capacity_type: CapacityType | None = None
    labels: dict[str, str] = {}
    boot: str = ""
    leaves_at: datetime | None = None
    whole: bool = True
    shares: int = 0
    slices: dict[str, int] = {}
    spare: dict[str, int] = {}
    closed: bool = False
    unusable_because: str | None = None


class QuotaSignals(msgspec.Struct, frozen=True, kw_only=True):
    """What Kueue would admit in the pool's flavour for one queue; GPUs.

    :param nominal: quota of the queue itself in this flavour.
    :param reserved: held by workloads, those that wait for admission checks included.
    :param available: what one more workload can reserve now, borrowing included.
    :param potential: the most that the queue could ever have, were nobody else there.
    :param borrowing: the part of ``available`` that is borrowed.
    :param reclaimable: not available, but would be after others, who borrow it, were made to give it back.
    :param pending_ahead: workloads that wait before a new one.
    :param wait_seconds: predicted wait of a new one; ``None``: unknown, which is never 0.
    :param stopped_because: why nothing is admitted at all, such as ``ClusterQueue held``; ``None``: it is.
    """

    local_queue: str
    cluster_queue: str
    flavor: str
    nominal: int = 0
    reserved: int = 0
    available: int = 0
    potential: int = 0
    borrowing: int = 0
    reclaimable: int = 0
    pending_ahead: int = 0
    wait_seconds: float | None = None
    stopped_because: str | None = None


class PoolSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything observed about one pool at one moment; with a ``gap`` the rest is empty.

    :param source: what was read, such as ``nodes and pods of https://10.0.0.1:6443``.
    :param cluster_uid: uid of the ``kube-system`` namespace that answered.
    :param quota: LocalQueue name -> what Kueue would admit there; empty on pools without Kueue.
    :param waiting: GPUs a pod -> pods of others for which there is no room, and which get the next nodes that
        a growing pool adds.
    :param largest: the most of each thing beside GPUs that a node of a growing pool has, as in ``spare``.
    :param gpu_resource: extended resource under which its nodes have GPUs; ``None``: nothing was read.
    :param latency_seconds: time that the cluster took for its first answer.
    """

    pool: str
    observed_at: datetime
    source: str
    cluster_uid: str | None = None
    nodes: tuple[NodeCapacity, ...] = ()
    quota: dict[str, QuotaSignals] = {}
    waiting: dict[int, int] = {}
    largest: dict[str, int] = {}
    gpu_resource: str | None = None
    latency_seconds: float | None = None
    gap: SignalGap | None = None
    warnings: tuple[str, ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that an attempt was promised in a pool and that its cluster may not show yet.

    :param seen_gpus: GPUs of pods that carry this attempt's label in the same snapshot.
    :param released_at: when the claim ended; ``None``: it holds.
    """

    pool: str
    attempt_id: str
    gpus_per_node: int
    nodes: int
    seen_gpus: int = 0
    released_at: datetime | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All signals of one decision, keyed by pool name, and the claims on them."""

    taken_at: datetime
    pools: dict[str, PoolSignals]
    claims: tuple[Claim, ...] = ()
