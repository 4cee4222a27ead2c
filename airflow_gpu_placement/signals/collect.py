"""Read nodes and pods of every cluster once, all clusters at the same time, and tell what each pool has."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity import capacity_warnings, node_capacities, used_devices
from airflow_gpu_placement.engine.dra import dra_view
from airflow_gpu_placement.exceptions import (
    ClusterError,
    ConnectionMissing,
    Forbidden,
    Unreachable,
    WrongCluster,
)
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity, PoolSignals, SignalGap, Snapshot
from airflow_gpu_placement.signals.state import ClusterState, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.pool import GpuPool

logger = logging.getLogger(__name__)

_CLEAN_UP_SECONDS = 1.0


class _ClusterKey(msgspec.Struct, frozen=True):
    kubernetes_conn_id: str
    context: str | None

    def __str__(self) -> str:
        context = f", context {self.context!r}" if self.context else ""
        return f"connection {self.kubernetes_conn_id!r}{context}"


async def collect(
    pools: Sequence[GpuPool],
    open_cluster: OpenCluster,
    *,
    deadline_seconds: float,
    clock: Callable[[], datetime],
) -> Snapshot:
    """Return signals for every pool; what cannot be read becomes a gap of its pools and nothing else.

    :param open_cluster: opens a cluster by (connection id, context); each is opened once and closed here.
    :param deadline_seconds: after it, clusters that have not answered are given up, all together.
    :param clock: what stamps the observations.
    """
    taken_at = clock()
    by_cluster: dict[_ClusterKey, list[GpuPool]] = defaultdict(list)
    for pool in pools:
        by_cluster[_ClusterKey(pool.cluster.kubernetes_conn_id, pool.cluster.context)].append(pool)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_seconds
    one_at_a_time = asyncio.Lock()
    tasks: dict[asyncio.Task[list[PoolSignals]], tuple[_ClusterKey, list[GpuPool]]] = {}
    signals: dict[str, PoolSignals] = {}
    if by_cluster:
        try:
            for key, members in by_cluster.items():
                task = asyncio.create_task(_signals_of(key, members, open_cluster, clock, one_at_a_time))
                tasks[task] = key, members
                # Building a client reads certificates, which stops the loop for a moment: one at a time.
                await asyncio.sleep(0)
            done, pending = await asyncio.wait(tasks, timeout=max(deadline - loop.time(), 0.0))
        finally:
            await _cancel(task for task in tasks if not task.done())
        for task in done:
            signals.update((one.pool, one) for one in task.result())
        for task in pending:
            key, members = tasks[task]
            message = f"{key} did not answer within {deadline_seconds:g} s"
            gap = SignalGap(kind=GapKind.TIMEOUT, message=message)
            signals.update((pool.name, _missing(pool, key, gap, clock())) for pool in members)
    return Snapshot(taken_at=taken_at, pools={pool.name: signals[pool.name] for pool in pools})


async def _signals_of(
    key: _ClusterKey,
    pools: Sequence[GpuPool],
    open_cluster: OpenCluster,
    clock: Callable[[], datetime],
    one_at_a_time: asyncio.Lock,
) -> list[PoolSignals]:
    try:
        state = await _read(key, open_cluster, clock)
        # Threads that count at the same time would only keep the loop from its turn.
        async with one_at_a_time:
            return await asyncio.to_thread(_of_pools, pools, state)
    except ClusterError as error:
        gap = gap_of(error)
    except Exception as error:  # one cluster must not take the signals of the others away
        logger.warning("signals of %s could not be read", key, exc_info=True)
        gap = SignalGap(kind=GapKind.INVALID, message=f"{key}: {type(error).__name__}: {error}")
    return [_missing(pool, key, gap, clock()) for pool in pools]


async def _read(key: _ClusterKey, open_cluster: OpenCluster, clock: Callable[[], datetime]) -> ClusterState:
    async with await open_cluster(key.kubernetes_conn_id, key.context) as client:
        return await read_state(client, clock)


def _of_pools(pools: Sequence[GpuPool], state: ClusterState) -> list[PoolSignals]:
    resources = {pool.gpu.resource_name for pool in pools}
    used = {name: used_devices(state.pods, name) for name in resources}
    return [_of_pool(pool, state, used[pool.gpu.resource_name]) for pool in pools]


def _of_pool(pool: GpuPool, state: ClusterState, used: Mapping[str, int]) -> PoolSignals:
    gap = None
    if pool.cluster.uid is not None and pool.cluster.uid != state.uid:
        gap = gap_of(
            WrongCluster(
                f"pool {pool.name!r} belongs to cluster {pool.cluster.uid}, but connection "
                f"{pool.cluster.kubernetes_conn_id!r} leads to {state.server}, which is cluster {state.uid}; "
                f"correct the connection or the pool's cluster_uid"
            )
        )
    nodes = _nodes(pool, state, used) if gap is None else ()
    return PoolSignals(
        pool=pool.name,
        observed_at=state.observed_at,
        source=state.source,
        cluster_uid=state.uid,
        nodes=nodes,
        latency_seconds=state.latency_seconds,
        gap=gap,
        warnings=(*capacity_warnings(nodes), *_dra_warnings(nodes, state)),
    )


def _nodes(pool: GpuPool, state: ClusterState, used: Mapping[str, int]) -> tuple[NodeCapacity, ...]:
    dra = None
    if state.dra is not None and state.dra.slices:
        dra = dra_view(state.dra, pool.gpu.resource_name, pool.job_tolerations)
    return node_capacities(state.nodes, state.pods, pool, used=used, dra=dra)


def _dra_warnings(nodes: Sequence[NodeCapacity], state: ClusterState) -> tuple[str, ...]:
    """Say that DRA could not be read where it may be what is missing: on nodes with GPUs and no devices."""
    if state.dra_problem is None or not any(_without_devices(node) for node in nodes):
        return ()
    return (f"GPUs offered through DRA are not seen: {state.dra_problem}",)


def _without_devices(node: NodeCapacity) -> bool:
    return node.capacity == 0 and node.shares == 0 and not node.slices


def gap_of(error: ClusterError) -> SignalGap:
    """Tell what kind of gap a failed call leaves."""
    match error:
        case ConnectionMissing():
            kind = GapKind.CONNECTION_MISSING
        case WrongCluster():
            kind = GapKind.WRONG_CLUSTER
        case Forbidden(status=401):
            kind = GapKind.UNAUTHORIZED
        case Forbidden():
            kind = GapKind.FORBIDDEN
        case Unreachable():
            kind = GapKind.UNREACHABLE
        case _:
            kind = GapKind.INVALID
    return SignalGap(kind=kind, message=str(error))


def _missing(pool: GpuPool, key: _ClusterKey, gap: SignalGap, at: datetime) -> PoolSignals:
    return PoolSignals(pool=pool.name, observed_at=at, source=str(key), gap=gap)


async def _cancel(tasks: Iterable[asyncio.Task[list[PoolSignals]]]) -> None:
    """Cancel and wait for what has to be closed, but not for what does not let go."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    if cancelled:
        await asyncio.wait(cancelled, timeout=_CLEAN_UP_SECONDS)
