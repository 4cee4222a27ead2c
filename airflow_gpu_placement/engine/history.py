"""What earlier attempts of a logical task teach the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.start import START_TIMEOUT
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import PoolSignals, Snapshot

_AGAINST_THE_POOL = frozenset({OutcomeKind.INFRASTRUCTURE, OutcomeKind.CONFIGURATION})


def history_of(record: TaskRecord, clear_number: int = 0) -> History:
    """Sum up the attempts: which nodes were lost, how often each pool did not work out, what is ruled out.

    A failure by configuration counts against its pool too, because what is missing there (a secret, access to
    an image) may be present elsewhere. What rules a pool out counts until the task is cleared: whoever clears
    it may have mended that.

    :param clear_number: how often the DAG run has been cleared by now.
    """
    boots: dict[str, dict[str, str | None]] = {}
    losses: dict[str, int] = {}
    start_timeouts: dict[str, datetime] = {}
    for attempt in record.attempts:
        for node in () if _came_back(attempt) else attempt.lost_nodes:
            # Of a node that was lost more than once the last boot counts.
            boots.setdefault(attempt.pool, {})[node] = attempt.lost_boots.get(node)
        if attempt.outcome in _AGAINST_THE_POOL:
            losses[attempt.pool] = losses.get(attempt.pool, 0) + 1
        if attempt.cause == START_TIMEOUT and attempt.ended_at is not None:
            start_timeouts[attempt.pool] = attempt.ended_at
    since_clear = [one for one in record.attempts if one.clear_number >= clear_number]
    known = {
        pool: {node: boot for node, boot in sorted(nodes.items()) if boot is not None}
        for pool, nodes in sorted(boots.items())
    }
    return History(
        lost_nodes={pool: tuple(sorted(nodes)) for pool, nodes in sorted(boots.items())},
        lost_boots={pool: nodes for pool, nodes in known.items() if nodes},
        losses=dict(sorted(losses.items())),
        leave_spot=any(one.leave_spot for one in since_clear),
        start_timeouts=dict(sorted(start_timeouts.items())),
        excluded_pools={one.pool: one.cause or "" for one in since_clear if one.exclude_pool},
        excluded_architectures={
            one.exclude_architecture: f"{one.cause} in pool {one.pool}"
            for one in since_clear
            if one.exclude_architecture is not None
        },
        since=min((one.started_at for one in record.attempts if one.started_at is not None), default=None),
    )


def _came_back(attempt: AttemptRecord) -> bool:
    """Whether only silence was held against the nodes, and they have since told the end themselves."""
    return attempt.cause == "NodeLost" and attempt.grade is EndGrade.CONFIRMED


def excluded_nodes(
    pools: Sequence[GpuPool], history: History, snapshot: Snapshot
) -> dict[str, frozenset[str]]:
    """Return the lost nodes by pool name: a node lost in one pool is lost for every pool of its cluster.

    One that was booted anew since counts again: nothing from before runs there.
    """
    if not history.lost_nodes:
        return dict.fromkeys((pool.name for pool in pools), frozenset())
    clusters = {pool.name: (pool.cluster.kubernetes_conn_id, pool.cluster.context) for pool in pools}
    lost: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
    for pool_name, nodes in history.lost_nodes.items():
        if pool_name in clusters:
            boots = history.lost_boots.get(pool_name, {})
            lost.setdefault(clusters[pool_name], []).extend((node, boots.get(node, "")) for node in nodes)
    return {
        name: _not_booted_anew(lost[cluster], snapshot.pools.get(name)) if cluster in lost else frozenset()
        for name, cluster in clusters.items()
    }


def _not_booted_anew(lost: Sequence[tuple[str, str]], signals: PoolSignals | None) -> frozenset[str]:
    now = {node.name: node.boot for node in signals.nodes} if signals is not None else {}
    return frozenset(
        node for node, boot in lost if not boot or not now.get(node) or boot.startswith(now[node])
    )
