"""What the laws take for a right node, worked out apart from the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu_models import satisfies, wanted_model
from airflow_gpu_placement.engine.identity import effective_gpu
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
    request = situation.request
    lost = lost_in_cluster_of(situation, pool)
    return [
        node
        for node in situation.snapshot.pools[pool.name].nodes
        if node.name not in lost
        and node.unusable_because is None
        and _right_gpu(situation, pool, node)
        and (request.architecture or pool.architecture or node.architecture)
        == (pool.architecture or node.architecture)
        and (pool.architecture or node.architecture) not in situation.history.excluded_architectures
    ]


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
