"""Everything that Node and Pod objects tell about the GPUs of a pool, in one value: for people and checks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from airflow_gpu_placement.engine.capacity import gang_fits, node_capacities, oddity, served_by_plugin
from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.engine.capacity_pods import devices_held, is_live, pending_devices, used_devices
from airflow_gpu_placement.engine.gpu_devices import DeviceKind, NodeDevices, devices_of, units_per_card
from airflow_gpu_placement.engine.leaving import closed_from
from airflow_gpu_placement.engine.taints import not_tolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from airflow_gpu_placement.engine.dra import DraView
    from airflow_gpu_placement.model.kube import Node, Pod
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity

ValueT = TypeVar("ValueT")

KUBE_SCHEDULER = "kube-scheduler"
KUEUE_TAS = "kueue-tas"
_KUEUE = "kueue.x-k8s.io/"
"""How the labels and annotations begin that Kueue puts on pods of its own."""


class CapacityReport(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a pool's nodes; counts are whole GPUs unless they say otherwise.

    :param total: in the machines, withdrawn ones included.
    :param withdrawn: in the machines and not allocatable.
    :param used: held by pods on the pool's nodes.
    :param free: could be given to a job with the pool's tolerations now.
    :param pending_demand: asked for by pods of the cluster that are not bound yet.
    :param usable_nodes: nodes that can take such a job.
    :param largest_block: most free ones on one node.
    :param gpu_nodes: names of the nodes that offer GPUs in any form.
    :param warnings: what is odd, a line a node; ``warn_nodes`` are their names.
    :param reasons: why nodes cannot take the job, a line a node.
    :param excluded_by_taint: key of a taint that is not tolerated -> GPUs that would be free without it.
    :param mig: profile -> slices that pods may use; ``mig_free``: those that no pod holds.
    :param slice_units_used: parts of cards that all slices take, of ``slice_units_per_card`` a card.
    :param whole_gpus: allocatable ones that can be trusted to be whole.
    :param whole_gpus_trusted: no node offers the same cards whole and in slices.
    :param physical_gpus: cards in the machines, as far as anything tells.
    :param shared_slots_free: free shares of GPUs on nodes that can take the job.
    :param kind: what the devices are, when they are all the same.
    :param model: of the one GPU that all nodes have, with its memory and form factor; ``None``: unknown or
        several.
    :param architecture: likewise for their processors.
    :param models: node name -> model of its GPU; ``variants``: what tells it from others of the model.
    """

    total: int = 0
    withdrawn: int = 0
    used: int = 0
    free: int = 0
    pending_demand: int = 0
    usable_nodes: int = 0
    largest_block: int = 0
    gpu_nodes: tuple[str, ...] = ()
    warn_nodes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    excluded_by_taint: dict[str, int] = {}
    mig: dict[str, int] = {}
    mig_free: dict[str, int] = {}
    slice_units_used: int = 0
    slice_units_per_card: int = 7
    whole_gpus: int = 0
    whole_gpus_trusted: bool = True
    physical_gpus: int = 0
    shared_slots_free: int = 0
    kind: str | None = None
    model: str | None = None
    memory_gb: float | None = None
    form_factor: str | None = None
    architecture: str | None = None
    models: dict[str, str | None] = {}
    variants: dict[str, str | None] = {}


class Seen(NamedTuple):
    """One node of the pool with all that is known of its devices."""

    node: Node
    capacity: NodeCapacity
    devices: NodeDevices


def seen_nodes(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    pool: GpuPool,
    dra: DraView | None = None,
    until: datetime | None = None,
) -> tuple[Seen, ...]:
    """Return the pool's GPU nodes by name."""
    by_name = {node.metadata.name: node for node in nodes}
    return tuple(
        Seen(
            by_name[one.name],
            closed_from(one, until),
            devices_of(by_name[one.name], pool.gpu.resource_name),
        )
        for one in node_capacities(nodes, pods, pool, dra=dra)
    )


def report(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    pool: GpuPool,
    dra: DraView | None = None,
    until: datetime | None = None,
) -> CapacityReport:
    """Tell everything about a pool's GPUs.

    :param nodes: nodes of the cluster; the pool's selector is applied here.
    :param pods: pods of the cluster, ended and unbound ones too.
    :param dra: what the cluster offers through Dynamic Resource Allocation under the pool's resource.
    :param until: when such a job would have ended, before which no node may be stopped for maintenance;
        ``None``: nobody knows.
    """
    seen = seen_nodes(nodes, pods, pool, dra, until)
    capacities = [_with_slots(one.capacity) for one in seen]
    odd = {one.name: text for one in capacities if (text := oddity(one)) is not None}
    gpu = _only({one.gpu for one in capacities})
    mig, mig_free = _slices(seen, pods)
    return CapacityReport(
        total=sum(one.capacity for one in capacities),
        withdrawn=sum(max(one.capacity - one.allocatable, 0) for one in capacities),
        used=sum(_held(seen, pods, pool.gpu.resource_name)),
        free=sum(one.free for one in capacities),
        pending_demand=pending_devices(pods, pool.gpu.resource_name),
        usable_nodes=sum(1 for one in capacities if one.unusable_because is None),
        largest_block=max((one.free for one in capacities), default=0),
        gpu_nodes=tuple(one.name for one in capacities if one.capacity or one.shares or one.slices),
        warn_nodes=tuple(odd),
        warnings=(*(f"node {name}{text}" for name, text in odd.items()), *_nameless(capacities, pool)),
        reasons=tuple(f"{one.name}: {one.unusable_because}" for one in capacities if one.unusable_because),
        excluded_by_taint=excluded_by_taint(seen, pool),
        mig=mig,
        mig_free=mig_free,
        slice_units_used=sum(one.devices.slice_units for one in seen),
        slice_units_per_card=max((units_per_card(one.node.metadata.labels) for one in seen), default=7),
        whole_gpus=sum(one.devices.allocatable for one in seen),
        whole_gpus_trusted=not any(one.devices.offered_twice for one in seen),
        physical_gpus=sum(one.devices.physical or 0 for one in seen),
        shared_slots_free=_free_shares(seen, pods),
        kind=_kind(seen),
        model=None if gpu is None else gpu.model,
        memory_gb=None if gpu is None else gpu.memory_gb,
        form_factor=None if gpu is None else gpu.form_factor,
        architecture=_only({one.architecture for one in capacities}),
        models={one.name: None if one.gpu is None else one.gpu.model for one in capacities},
        variants={one.name: None if one.gpu is None else one.gpu.variant for one in capacities},
    )


def _with_slots(node: NodeCapacity) -> NodeCapacity:
    """Take a node without a free pod slot for what it is: nothing more can be put there."""
    if node.unusable_because is not None or node.spare.get(SLOTS, 1) > 0:
        return node
    return msgspec.structs.replace(node, free=0, unusable_because="no pod slot is free")


def _held(seen: Iterable[Seen], pods: Sequence[Pod], resource_name: str) -> Iterator[int]:
    """Yield what pods hold on each node, without what is only promised to one that is not there yet."""
    held = used_devices(pods, resource_name)
    promised = {pod.status.nominated_node_name for pod in pods if not pod.spec.node_name}
    for one in seen:
        is_counted = one.capacity.whole and served_by_plugin(one.node, resource_name)
        if is_counted and one.capacity.name in promised:
            yield held.get(one.capacity.name, 0)
        else:
            yield one.capacity.used


def excluded_by_taint(seen: Iterable[Seen], pool: GpuPool) -> dict[str, int]:
    """Return the GPUs that each taint keeps from the pool's jobs, by the taint's key."""
    excluded: Counter[str] = Counter()
    for one in seen:
        kept_out = not_tolerated(one.node.spec.taints, pool.job_tolerations)
        for key in sorted({taint.key for taint in kept_out}):
            excluded[key] += max(one.capacity.allocatable - one.capacity.used, 0)
    return dict(excluded)


def reclaimable(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, *, priority: int, admission: str
) -> int:
    """Return the whole GPUs that would come free if pods of a lower priority gave way.

    The scheduler preempts any of them. Kueue evicts only what it has admitted itself: other pods hold their
    GPUs for good as far as its topology-aware scheduling is concerned.

    :param admission: ``kube-scheduler`` or ``kueue-tas``.
    """
    return reclaimable_by_admission(nodes, pods, pool, priority=priority)[admission]


def reclaimable_by_admission(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, *, priority: int
) -> dict[str, int]:
    """Return :func:`reclaimable` for each way of admission."""
    usable = {
        one.capacity.name for one in seen_nodes(nodes, pods, pool) if one.capacity.unusable_because is None
    }
    found = {KUBE_SCHEDULER: 0, KUEUE_TAS: 0}
    for pod in pods:
        ending = pod.metadata.deletion_timestamp is not None
        if pod.spec.node_name not in usable or not is_live(pod) or ending:
            continue
        if (pod.spec.priority or 0) < priority:
            gpus = devices_held(pod, pool.gpu.resource_name)
            found[KUBE_SCHEDULER] += gpus
            if any(key.startswith(_KUEUE) for key in (*pod.metadata.labels, *pod.metadata.annotations)):
                found[KUEUE_TAS] += gpus
    return found


def fits_now(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, *, gpus_per_pod: int, pods_wanted: int = 1
) -> bool:
    """Whether a gang fits on what is free now."""
    found = [one.capacity for one in seen_nodes(nodes, pods, pool)]
    return gang_fits(found, gpus_per_pod, ()) >= pods_wanted


def could_ever_fit(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, *, gpus_per_pod: int, pods_wanted: int = 1
) -> bool:
    """Whether a gang would fit if the nodes were empty and in order; withdrawn devices do not come back.

    Nothing allocatable at all is how a node looks while its device plugin restarts, so capacity counts there.
    """
    sizes = [one.allocatable or one.capacity for one in node_capacities(nodes, pods, pool)]
    return sum(size // gpus_per_pod for size in sizes) >= pods_wanted


def _slices(seen: Iterable[Seen], pods: Sequence[Pod]) -> tuple[dict[str, int], dict[str, int]]:
    offered: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for one in seen:
        for profile, count in one.devices.slices.items():
            held = used_devices(pods, one.devices.slice_resources[profile]).get(one.capacity.name, 0)
            offered[profile] += count
            free[profile] += max(count - held, 0)
    return dict(offered), dict(free)


def _free_shares(seen: Iterable[Seen], pods: Sequence[Pod]) -> int:
    free = 0
    for one in seen:
        if one.devices.shares_resource is not None and not one.capacity.closed:
            held = used_devices(pods, one.devices.shares_resource).get(one.capacity.name, 0)
            free += max(one.devices.shares - held, 0)
    return free


def _kind(seen: Iterable[Seen]) -> DeviceKind | None:
    return _only({one.devices.kind for one in seen})


def _only(values: set[ValueT]) -> ValueT | None:
    return next(iter(values)) if len(values) == 1 else None


def _nameless(capacities: Iterable[NodeCapacity], pool: GpuPool) -> tuple[str, ...]:
    if pool.gpu.model is not None:
        return ()
    return tuple(
        f"node {one.name}: no label tells its GPU model; set gpu.model of the pool"
        for one in capacities
        if one.gpu is None
    )
