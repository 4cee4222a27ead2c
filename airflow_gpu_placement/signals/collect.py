"""Read nodes and pods of every cluster once, all clusters at the same time, and tell what each pool has."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity import capacity_warnings, node_capacities, used_devices
from airflow_gpu_placement.exceptions import (
    ClusterError,
    ConnectionMissing,
    Forbidden,
    Unreachable,
    WrongCluster,
)
from airflow_gpu_placement.model.kube import Node, Pod
from airflow_gpu_placement.model.signals import GapKind, PoolSignals, SignalGap, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.pool import GpuPool

logger = logging.getLogger(__name__)

_LIVE_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_CLEAN_UP_SECONDS = 1.0


class _ClusterKey(msgspec.Struct, frozen=True):
    kubernetes_conn_id: str
    context: str | None

    def __str__(self) -> str:
        context = f", context {self.context!r}" if self.context else ""
        return f"connection {self.kubernetes_conn_id!r}{context}"


class _ClusterState(msgspec.Struct, frozen=True):
    """What one cluster answered, for all of its pools."""

    server: str
    uid: str
    observed_at: datetime
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]


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
        by_cluster[_ClusterKey(pool.kubernetes_conn_id, pool.context)].append(pool)
    tasks = {
        asyncio.create_task(_signals_of(key, members, open_cluster, clock)): (key, members)
        for key, members in by_cluster.items()
    }
    signals: dict[str, PoolSignals] = {}
    if tasks:
        try:
            done, pending = await asyncio.wait(tasks, timeout=deadline_seconds)
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
    key: _ClusterKey, pools: Sequence[GpuPool], open_cluster: OpenCluster, clock: Callable[[], datetime]
) -> list[PoolSignals]:
    try:
        state = await _read(key, open_cluster, clock)
        return await asyncio.to_thread(_of_pools, pools, state)
    except ClusterError as error:
        gap = gap_of(error)
    except Exception as error:  # one cluster must not take the signals of the others away
        logger.warning("signals of %s could not be read", key, exc_info=True)
        gap = SignalGap(kind=GapKind.INVALID, message=f"{key}: {type(error).__name__}: {error}")
    return [_missing(pool, key, gap, clock()) for pool in pools]


async def _read(key: _ClusterKey, open_cluster: OpenCluster, clock: Callable[[], datetime]) -> _ClusterState:
    async with await open_cluster(key.kubernetes_conn_id, key.context) as client:
        # The uid first and alone: bad credentials fail here, at the price of one call.
        uid = await client.uid()
        observed_at = clock()
        nodes, pods = await _nodes_and_pods(client)
        return _ClusterState(client.server, uid, observed_at, nodes, pods)


async def _nodes_and_pods(client: ClusterClient) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    try:
        async with asyncio.TaskGroup() as tasks:
            nodes = tasks.create_task(client.list_all("/api/v1/nodes", Node))
            pods = tasks.create_task(client.list_all("/api/v1/pods", Pod, _LIVE_PODS))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # the first is what went wrong; the other was cancelled for it
    return nodes.result()[0], pods.result()[0]


def _of_pools(pools: Sequence[GpuPool], state: _ClusterState) -> list[PoolSignals]:
    resources = {pool.gpu.resource_name for pool in pools}
    used = {name: used_devices(state.pods, name) for name in resources}
    return [_of_pool(pool, state, used[pool.gpu.resource_name]) for pool in pools]


def _of_pool(pool: GpuPool, state: _ClusterState, used: Mapping[str, int]) -> PoolSignals:
    source = f"nodes and pods of {state.server}"
    gap = None
    if pool.cluster_uid is not None and pool.cluster_uid != state.uid:
        gap = gap_of(
            WrongCluster(
                f"pool {pool.name!r} belongs to cluster {pool.cluster_uid}, but connection "
                f"{pool.kubernetes_conn_id!r} leads to {state.server}, which is cluster {state.uid}; correct "
                f"the connection or the pool's cluster_uid"
            )
        )
    nodes = node_capacities(state.nodes, state.pods, pool, used=used) if gap is None else ()
    return PoolSignals(
        pool=pool.name,
        observed_at=state.observed_at,
        source=source,
        cluster_uid=state.uid,
        nodes=nodes,
        gap=gap,
        warnings=capacity_warnings(nodes),
    )


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
