"""What earlier attempts of a logical task teach the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.attempt import TaskRecord
    from airflow_gpu_placement.model.pool import GpuPool

_AGAINST_THE_POOL = frozenset({OutcomeKind.INFRASTRUCTURE, OutcomeKind.CONFIGURATION})


def history_of(record: TaskRecord) -> History:
    """Sum up the attempts: which nodes were lost, how often each pool did not work out, what is ruled out.

    A failure by configuration counts against its pool too, because what is missing there (a secret, access to
    an
    image) may be present elsewhere.
    """
    lost_nodes: dict[str, set[str]] = {}
    losses: dict[str, int] = {}
    for attempt in record.attempts:
        if attempt.lost_nodes:
            lost_nodes.setdefault(attempt.pool, set()).update(attempt.lost_nodes)
        if attempt.outcome in _AGAINST_THE_POOL:
            losses[attempt.pool] = losses.get(attempt.pool, 0) + 1
    return History(
        lost_nodes={pool: tuple(sorted(names)) for pool, names in sorted(lost_nodes.items())},
        losses=dict(sorted(losses.items())),
        excluded_pools={one.pool: one.cause or "" for one in record.attempts if one.exclude_pool},
        excluded_architectures={
            one.exclude_architecture: f"{one.cause} in pool {one.pool}"
            for one in record.attempts
            if one.exclude_architecture is not None
        },
        since=min((one.started_at for one in record.attempts if one.started_at is not None), default=None),
    )


def excluded_nodes(pools: Sequence[GpuPool], history: History) -> dict[str, frozenset[str]]:
    """Return the lost nodes by pool name: a node lost in one pool is lost for every pool of its cluster."""
    if not history.lost_nodes:
        return dict.fromkeys((pool.name for pool in pools), frozenset())
    clusters = {pool.name: (pool.cluster.kubernetes_conn_id, pool.cluster.context) for pool in pools}
    lost: dict[tuple[str, str | None], set[str]] = {}
    for pool_name, nodes in history.lost_nodes.items():
        if pool_name in clusters:
            lost.setdefault(clusters[pool_name], set()).update(nodes)
    return {name: frozenset(lost.get(cluster, ())) for name, cluster in clusters.items()}
