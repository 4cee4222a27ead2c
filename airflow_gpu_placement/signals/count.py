"""Count what one cluster's answers say of each of its pools, a part at a time.

It is done on the event loop and not in a thread: a thread that counts takes five milliseconds from the loop
at each read from a socket, and with many clusters many sockets are ready together.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from airflow_gpu_placement.clusters.turns import a_turn
from airflow_gpu_placement.engine.capacity import (
    capacity_warnings,
    members_of,
    node_capacities,
)
from airflow_gpu_placement.engine.capacity_load import Load, largest
from airflow_gpu_placement.engine.capacity_report import report
from airflow_gpu_placement.engine.dra import dra_view
from airflow_gpu_placement.engine.gpu_devices import with_resource_of
from airflow_gpu_placement.engine.staying import horizon
from airflow_gpu_placement.model.signals import GapKind, PoolSignals, SignalGap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from airflow_gpu_placement.engine.capacity_report import CapacityReport
    from airflow_gpu_placement.engine.dra import DraView
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity
    from airflow_gpu_placement.signals.state import ClusterState

PartT = TypeVar("PartT")

_PART = 250
"""Objects that are counted in one turn, which takes some ten milliseconds."""


async def signals_of_pools(pools: Sequence[GpuPool], state: ClusterState) -> list[PoolSignals]:
    """Return the signals of every pool of a cluster."""
    seen = [await _of_cluster(pool, state) for pool in pools]
    load = Load(one.pool.gpu.resource_name for one in seen)
    async for pods in _parts(state.pods):
        load.add(pods)
    return [await _signals(one, state, load) for one in seen]


class _Seen(NamedTuple):
    """A pool as its nodes have it, and those nodes by name."""

    pool: GpuPool
    members: Sequence[Node]


async def _of_cluster(pool: GpuPool, state: ClusterState) -> _Seen:
    async with a_turn():
        members = sorted(members_of(state.nodes, pool), key=lambda node: node.metadata.name)
        return _Seen(with_resource_of(pool, members), members)


async def _signals(seen: _Seen, state: ClusterState, load: Load) -> PoolSignals:
    pool = seen.pool
    gap = _wrong_cluster(pool, state)
    nodes = await _nodes(seen, state, load) if gap is None else ()
    grows = gap is None and pool.growth.max_nodes is not None
    async with a_turn():
        return PoolSignals(
            pool=pool.name,
            observed_at=state.observed_at,
            source=state.source,
            cluster_uid=state.uid,
            nodes=nodes,
            waiting=load.waiting(pool, seen.members) if grows else {},
            largest=largest(seen.members) if grows else {},
            gpu_resource=pool.gpu.resource_name if gap is None else None,
            latency_seconds=state.latency_seconds,
            gap=gap,
            warnings=(*capacity_warnings(nodes), *_dra_warnings(nodes, state)),
        )


def _wrong_cluster(pool: GpuPool, state: ClusterState) -> SignalGap | None:
    if pool.cluster.uid is None or pool.cluster.uid == state.uid:
        return None
    return SignalGap(
        kind=GapKind.WRONG_CLUSTER,
        message=(
            f"pool {pool.name!r} belongs to cluster {pool.cluster.uid}, but connection "
            f"{pool.cluster.kubernetes_conn_id!r} leads to {state.server}, which is cluster {state.uid}; "
            f"correct the connection or the pool's cluster_uid"
        ),
    )


async def _nodes(seen: _Seen, state: ClusterState, load: Load) -> tuple[NodeCapacity, ...]:
    pool, members = seen
    dra = await asyncio.to_thread(_dra, pool, state)
    found: list[NodeCapacity] = []
    async for part in _parts(members):
        found += node_capacities(part, (), pool, load=load, dra=dra)
    return tuple(found)


def report_of_pool(pool: GpuPool, state: ClusterState) -> CapacityReport:
    """Tell everything about a pool's GPUs, for people; it takes its time, so not while jobs are watched."""
    pool = with_resource_of(pool, members_of(state.nodes, pool))
    return report(state.nodes, state.pods, pool, _dra(pool, state), horizon(state.observed_at))


def _dra(pool: GpuPool, state: ClusterState) -> DraView | None:
    if state.dra is None or not state.dra.slices:
        return None
    return dra_view(state.dra, pool.gpu.resource_name, pool.job_tolerations)


async def _parts(objects: Sequence[PartT]) -> AsyncIterator[Sequence[PartT]]:
    """Yield part after part, each in a turn of its own."""
    for first in range(0, len(objects), _PART):
        async with a_turn():
            yield objects[first : first + _PART]


def _dra_warnings(nodes: Sequence[NodeCapacity], state: ClusterState) -> tuple[str, ...]:
    """Say that DRA could not be read where it may be what is missing: on nodes with GPUs and no devices."""
    if state.dra_problem is None or not any(_without_devices(node) for node in nodes):
        return ()
    return (f"GPUs offered through DRA are not seen: {state.dra_problem}",)


def _without_devices(node: NodeCapacity) -> bool:
    return node.capacity == 0 and node.shares == 0 and not node.slices
