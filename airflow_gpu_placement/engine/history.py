"""What earlier attempts of a logical task teach the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.start import START_TIMEOUT
from airflow_gpu_placement.model.decision import ClusterSeen, History
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import PoolSignals, Snapshot

_Way = tuple[str, str | None]
"""Connection and context by which a cluster is reached."""

_AGAINST_THE_POOL = frozenset({OutcomeKind.INFRASTRUCTURE, OutcomeKind.CONFIGURATION})


def history_of(record: TaskRecord, max_tries: int = 0) -> History:
    """Sum up the attempts: which nodes were lost, how often each pool did not work out, what is ruled out.

    A failure by configuration counts against its pool too, because what is missing there (a secret, access to
    an image) may be present elsewhere. What rules a pool out counts until the task is cleared: whoever clears
    it may have mended that.

    :param max_tries: Airflow's number of the task's last try but one; a launch with another one was before a
        clear of this task. The count of the run's clears rises with every task's.
    """
    boots: dict[str, dict[str, str | None]] = {}
    losses: dict[str, int] = {}
    start_timeouts: dict[str, datetime] = {}
    lost_in: dict[str, list[ClusterSeen]] = {}
    for attempt in record.attempts:
        for node in () if _came_back(attempt) else attempt.lost_nodes:
            # Of a node that was lost more than once the last boot counts.
            boots.setdefault(attempt.pool, {})[node] = attempt.lost_boots.get(node)
            lost_in.setdefault(attempt.pool, []).append(_cluster_of(attempt))
        if attempt.outcome in _AGAINST_THE_POOL:
            losses[attempt.pool] = losses.get(attempt.pool, 0) + 1
        if attempt.cause == START_TIMEOUT and attempt.ended_at is not None:
            start_timeouts[attempt.pool] = attempt.ended_at
    since_clear = [one for one in record.attempts if one.max_tries == max_tries]
    # Of each pool the latest launch tells: after one that was taken, earlier refusals have passed.
    latest = {one.pool: one.refusal for one in since_clear}
    known = {
        pool: {node: boot for node, boot in sorted(nodes.items()) if boot is not None}
        for pool, nodes in sorted(boots.items())
    }
    return History(
        lost_nodes={pool: tuple(sorted(nodes)) for pool, nodes in sorted(boots.items())},
        lost_boots={pool: nodes for pool, nodes in known.items() if nodes},
        lost_in={pool: tuple(dict.fromkeys(where)) for pool, where in sorted(lost_in.items())},
        losses=dict(sorted(losses.items())),
        leave_spot=any(one.leave_spot for one in since_clear),
        start_timeouts=dict(sorted(start_timeouts.items())),
        refusals={pool: refusal for pool, refusal in sorted(latest.items()) if refusal is not None},
        excluded_pools={one.pool: one.cause or "" for one in since_clear if one.exclude_pool},
        excluded_architectures={
            one.exclude_architecture: f"{one.cause} in pool {one.pool}"
            for one in since_clear
            if one.exclude_architecture is not None
        },
        since=None if record.counting is None else record.counting.since,
    )


def _cluster_of(attempt: AttemptRecord) -> ClusterSeen:
    return ClusterSeen(
        kubernetes_conn_id=attempt.kubernetes_conn_id,
        context=attempt.context,
        cluster_uid=attempt.cluster_uid,
    )


def _came_back(attempt: AttemptRecord) -> bool:
    """Whether only silence was held against the nodes, and they have since told the end themselves."""
    return attempt.cause == "NodeLost" and attempt.grade is EndGrade.CONFIRMED


def excluded_nodes(
    pools: Sequence[GpuPool], history: History, snapshot: Snapshot
) -> dict[str, frozenset[str]]:
    """Return the lost nodes by pool name: a node lost in one pool is lost for every pool of its cluster.

    A cluster is its uid, and where that is not known on both sides its connection. A node that was booted
    anew since counts again: nothing from before runs there.
    """
    if not history.lost_nodes:
        return dict.fromkeys((pool.name for pool in pools), frozenset())
    clusters = _clusters_of(pools, snapshot)
    uids = {_way(one): one.cluster_uid for one in clusters.values() if one.cluster_uid is not None}
    lost = _LostNodes()
    for pool_name, nodes in history.lost_nodes.items():
        boots = history.lost_boots.get(pool_name, {})
        today = (clusters[pool_name],) if pool_name in clusters else ()
        for where in history.lost_in.get(pool_name, today):
            found = [(node, boots.get(node, "")) for node in nodes]
            lost.add(_way(where), where.cluster_uid or uids.get(_way(where)), found)
    return {
        name: _not_booted_anew(lost.of(_way(cluster), cluster.cluster_uid), snapshot.pools.get(name))
        for name, cluster in clusters.items()
    }


class _LostNodes:
    """Lost nodes with their boots by cluster: its uid, or the way there where either side has no uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, list[tuple[str, str]]] = {}
        self._by_way: dict[_Way, list[tuple[str, str]]] = {}
        self._without_uid: dict[_Way, list[tuple[str, str]]] = {}

    def add(self, way: _Way, uid: str | None, found: Sequence[tuple[str, str]]) -> None:
        """Keep nodes that were lost in a cluster."""
        self._by_way.setdefault(way, []).extend(found)
        if uid is None:
            self._without_uid.setdefault(way, []).extend(found)
        else:
            self._by_uid.setdefault(uid, []).extend(found)

    def of(self, way: _Way, uid: str | None) -> Sequence[tuple[str, str]]:
        """Return the nodes that were, or may have been, lost in a cluster."""
        if uid is None:
            return self._by_way.get(way, ())
        return (*self._by_uid.get(uid, ()), *self._without_uid.get(way, ()))


def _clusters_of(pools: Sequence[GpuPool], snapshot: Snapshot) -> dict[str, ClusterSeen]:
    """Return the clusters that pools are in, by pool name; the uid is that which answered."""
    found = {}
    for pool in pools:
        signals, cluster = snapshot.pools.get(pool.name), pool.cluster
        found[pool.name] = ClusterSeen(
            kubernetes_conn_id=cluster.kubernetes_conn_id,
            context=cluster.context,
            cluster_uid=(signals.cluster_uid if signals is not None else None) or cluster.uid,
        )
    return found


def _way(cluster: ClusterSeen) -> _Way:
    return cluster.kubernetes_conn_id, cluster.context


def _not_booted_anew(lost: Sequence[tuple[str, str]], signals: PoolSignals | None) -> frozenset[str]:
    if not lost:
        return frozenset()
    now = {node.name: node.boot for node in signals.nodes} if signals is not None else {}
    return frozenset(
        node for node, boot in lost if not boot or not now.get(node) or boot.startswith(now[node])
    )
