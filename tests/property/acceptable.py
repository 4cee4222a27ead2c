"""What the laws take for a right node, worked out apart from the engine."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu_models import satisfies, wanted_model
from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.reasons import Verdict
from tests.property.fleets import Situation, decide

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import PoolVerdict
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals


def pool_of(situation: Situation, name: str) -> GpuPool:
    """Return a pool of a situation."""
    (pool,) = [pool for pool in situation.pools if pool.name == name]
    return pool


def fitting(situation: Situation) -> list[tuple[GpuPool, PoolSignals, PoolVerdict]]:
    """Return the pools that fit with their signals and verdicts."""
    return [
        (pool_of(situation, one.pool), situation.snapshot.pools[one.pool], one)
        for one in decide(situation).verdicts
        if one.verdict is Verdict.FIT
    ]


def lost_in_cluster_of(situation: Situation, pool: GpuPool) -> set[str]:
    """Return all nodes lost in a pool's cluster."""
    return {
        node
        for other in situation.pools
        if other.cluster == pool.cluster
        for node in situation.history.lost_nodes.get(other.name, ())
    }


def acceptable(situation: Situation, pool: GpuPool) -> list[NodeCapacity]:
    """Return the nodes that a job may really use, worked out in another way than the engine does."""
    lost = lost_in_cluster_of(situation, pool)
    return [
        node
        for node in situation.snapshot.pools[pool.name].nodes
        if node.name not in lost
        and node.unusable_because is None
        and is_right(situation, pool, node)
        and stays(situation, pool, node)
    ]


def stays(situation: Situation, pool: GpuPool, node: NodeCapacity) -> bool:
    """Whether a node is not stopped before the job would have ended on it, or before a day is over."""
    time, learnt = situation.request.time, situation.setting.knowledge.runtime_hours
    gpu = effective_gpu(pool, node.gpu)
    given = [
        hours for name, hours in time.runtime_hours_by_model.items() if satisfies(gpu, wanted_model(name))
    ]
    if time.runtime_hours is not None:
        given.append(time.runtime_hours)
    given += [estimate.value for estimate in learnt.values()]
    hours = given[0] + 1 if given else 24
    if situation.request.checkpoint.uri is not None:
        hours = min(hours, 24)
    return node.leaves_at is None or situation.now + timedelta(hours=hours) <= node.leaves_at


def region_of(situation: Situation, pool: GpuPool) -> str | None:
    """Return where a pool is: as the catalogue says, else where all of its nodes are that may be used."""
    if pool.place.region is not None:
        return pool.place.region
    signals = situation.snapshot.pools.get(pool.name)
    nodes = () if signals is None else signals.nodes
    told = {node.region for node in nodes if not (node.closed and node.region is None)}
    return min(told, key=str) if len(told) == 1 else None


def is_right(situation: Situation, pool: GpuPool, node: NodeCapacity) -> bool:
    """Whether a node has what is asked for, be it free or not."""
    architecture = pool.architecture or node.architecture
    return (
        _right_gpu(situation, pool, node)
        and _right_purchase(situation, pool, node)
        and (situation.request.architecture or architecture) == architecture
        and architecture not in situation.history.excluded_architectures
    )


def places(situation: Situation, node: NodeCapacity) -> int:
    """Return how many of the job's pods find GPUs on a node, a slot, and the CPU and memory of their own."""
    resources = situation.setting.pod_resources
    cpu, memory = float(resources.get("cpu", 0)) * 1000, float(resources.get("memory", 0))
    most = node.free // situation.request.gpus_per_node
    pods = 0
    while (
        pods < most
        and node.spare.get("pods", most) > pods
        and node.spare.get("cpu", 0) >= cpu * (pods + 1)
        and node.spare.get("memory", 0) >= memory * (pods + 1)
    ):
        pods += 1
    return pods


def bought(pool: GpuPool, node: NodeCapacity) -> CapacityType:
    """Return how a node is bought: spot if anybody says so, else reserved if anybody does."""
    said = {pool.capacity_type, node.capacity_type}
    return next(
        kind for kind in (CapacityType.SPOT, CapacityType.RESERVED, CapacityType.ON_DEMAND) if kind in said
    )


def _right_purchase(situation: Situation, pool: GpuPool, node: NodeCapacity) -> bool:
    bounds = (situation.request.where.capacity_types, situation.setting.profile.capacity_types)
    return all(not allowed or bought(pool, node) in allowed for allowed in bounds)


def _right_gpu(situation: Situation, pool: GpuPool, node: NodeCapacity) -> bool:
    request, gpu = situation.request, effective_gpu(pool, node.gpu)
    form = None if gpu is None else gpu.form_factor
    memory = (gpu.memory_gb if gpu is not None else None) or 0
    board = form == "SXM" and node.capacity == 8
    forms = {form} | ({"HGX"} if board else set())
    joined = pool.gpu.interconnect or (("nvswitch" if board else "nvlink") if form == "SXM" else None)
    enough = {"nvlink": {"nvlink", "nvswitch"}, "nvswitch": {"nvswitch"}}
    return (
        (not request.models or any(satisfies(gpu, wanted_model(name)) for name in request.models))
        and memory >= (request.min_memory_gb or 0)
        and (not request.form_factors or bool(forms & set(request.form_factors)))
        and (request.interconnect is None or joined in enough[request.interconnect])
    )
