"""Read nodes and pods of every cluster once, all clusters at the same time, and tell what each pool has."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.clusters.turns import full_collections_postponed, let_go
from airflow_gpu_placement.exceptions import (
    ClusterError,
    ConnectionMissing,
    Forbidden,
    Unreachable,
    WrongCluster,
)
from airflow_gpu_placement.model.signals import GapKind, PoolSignals, SignalGap, Snapshot
from airflow_gpu_placement.signals.count import signals_of_pools
from airflow_gpu_placement.signals.state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.signals.state import ClusterState

    Observe = Callable[[GpuPool, ClusterState], None]

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
    observe: Observe | None = None,
) -> Snapshot:
    """Return signals for every pool; what cannot be read becomes a gap of its pools and nothing else.

    :param open_cluster: opens a cluster by (connection id, context); each is opened once and closed here.
    :param deadline_seconds: after it, clusters that have not answered are given up, all together.
    :param clock: what stamps the observations.
    :param observe: is shown every pool that was read with all that its cluster answered, which is let go of
        afterwards.
    """
    taken_at = clock()
    by_cluster: dict[_ClusterKey, list[GpuPool]] = defaultdict(list)
    for pool in pools:
        by_cluster[_ClusterKey(pool.cluster.kubernetes_conn_id, pool.cluster.context)].append(pool)
    signals: dict[str, PoolSignals] = {}
    if by_cluster:
        with full_collections_postponed():
            signals = await _all_signals(by_cluster, _Reader(open_cluster, clock, observe), deadline_seconds)
    return Snapshot(taken_at=taken_at, pools={pool.name: signals[pool.name] for pool in pools})


async def _all_signals(
    by_cluster: Mapping[_ClusterKey, list[GpuPool]], reader: _Reader, deadline_seconds: float
) -> dict[str, PoolSignals]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_seconds
    tasks: dict[asyncio.Task[list[PoolSignals]], tuple[_ClusterKey, list[GpuPool]]] = {}
    signals: dict[str, PoolSignals] = {}
    try:
        for key, members in by_cluster.items():
            tasks[asyncio.create_task(reader.signals_of(key, members))] = key, members
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
        signals.update((pool.name, _missing(pool, key, gap, reader.clock())) for pool in members)
    await reader.all_let_go()
    return signals


class _Reader:
    """Reads clusters, counts what they have, and lets go of what was read."""

    def __init__(
        self, open_cluster: OpenCluster, clock: Callable[[], datetime], observe: Observe | None
    ) -> None:
        self.clock = clock
        self._observe = observe
        self._open_cluster = open_cluster
        self._leaving: list[asyncio.Task[None]] = []

    async def signals_of(self, key: _ClusterKey, pools: Sequence[GpuPool]) -> list[PoolSignals]:
        """Return the signals of a cluster's pools; they are gaps when it cannot be read."""
        try:
            async with await self._open_cluster(key.kubernetes_conn_id, key.context) as client:
                state = await read_state(client, self.clock)
            signals = await signals_of_pools(pools, state)
            self._show(pools, signals, state)
            self._leaving += [asyncio.create_task(let_go(part)) for part in (state.nodes, state.pods)]
        except ClusterError as error:
            gap = gap_of(error)
        except Exception as error:  # one cluster must not take the signals of the others away
            logger.warning("signals of %s could not be read", key, exc_info=True)
            gap = SignalGap(kind=GapKind.INVALID, message=f"{key}: {type(error).__name__}: {error}")
        else:
            return signals
        return [_missing(pool, key, gap, self.clock()) for pool in pools]

    def _show(self, pools: Sequence[GpuPool], signals: Sequence[PoolSignals], state: ClusterState) -> None:
        for pool, one in zip(pools, signals, strict=True):
            if self._observe is not None and one.gap is None:
                self._observe(pool, state)

    async def all_let_go(self) -> None:
        """Wait until the objects that were read are gone, which nobody's signals have to wait for."""
        await asyncio.gather(*self._leaving)


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
