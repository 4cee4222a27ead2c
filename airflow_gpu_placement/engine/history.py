"""What earlier attempts of a logical task teach the next decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.attempt import TaskRecord

_AGAINST_THE_POOL = frozenset({OutcomeKind.INFRASTRUCTURE, OutcomeKind.CONFIGURATION})


def history_of(record: TaskRecord) -> History:
    """Sum up the attempts: which nodes were lost, and how often each pool did not work out.

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
    )
