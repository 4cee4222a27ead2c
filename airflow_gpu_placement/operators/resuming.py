"""What attempts of one task hand on: checkpoints and where the newest is, what they ran on, since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.attempt import Counting
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_gpu_placement.hooks.checkpoints import CheckpointScan
    from airflow_gpu_placement.model.attempt import Attempt, TaskRecord
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool


def begin(record: TaskRecord, attempt_id: str, resume: str, now: datetime) -> TaskRecord:
    """Choose the generation of checkpoints that an attempt belongs to.

    A retry keeps it, and so does the clear of a task that failed; the clear of one that succeeded starts
    anew. An attempt that has launched already stays with what it chose then. Where nothing is remembered,
    checkpoints of before may be there all the same: of a run of this name that was deleted. They are nothing
    to resume from, and where the worker cannot see the storage, nobody knows their generations; so the first
    one is the time, which is larger than any.
    """
    earlier = record.attempts
    if resume == "always" or any(known.attempt_id == attempt_id for known in earlier):
        return record
    if not earlier:
        return msgspec.structs.replace(record, generation=int(now.timestamp()))
    if resume == "never" or earlier[-1].outcome is OutcomeKind.SUCCEEDED:
        return msgspec.structs.replace(record, generation=record.generation + 1)
    return record


def still_counting(record: TaskRecord, attempt: Attempt, *, max_tries: int, clear_number: int) -> TaskRecord:
    """Forget since when a task is being placed where it was cleared: its time counts anew then.

    A retry is no clear, and neither is the clear of another task of the run. A deleted task instance, whose
    tries count from 1 again, counts as cleared.

    :param max_tries: Airflow's number of the task's last try but one, which only a clear of this task raises.
    :param clear_number: how often the DAG run has been cleared, by which older records tell a clear.
    """
    counting = record.counting
    if counting is None:
        counting = _counting_of_older(record, attempt, max_tries, clear_number)
    elif counting.attempt_id != attempt.attempt_id:
        is_retry = counting.max_tries == max_tries and counting.try_number < attempt.try_number
        counting = counting if is_retry else None
    return msgspec.structs.replace(record, counting=counting)


def _counting_of_older(
    record: TaskRecord, attempt: Attempt, max_tries: int, clear_number: int
) -> Counting | None:
    """Take the first launch since the last clear for the first decision: earlier versions kept no other."""
    launched = [
        one.started_at
        for one in record.attempts
        if one.started_at is not None
        and one.clear_number == clear_number
        and one.try_number <= attempt.try_number
    ]
    return None if not launched else _counting(attempt, max_tries, min(launched))


def counted(record: TaskRecord, attempt: Attempt, max_tries: int, since: datetime) -> TaskRecord:
    """Remember since when a task is being placed, and that this attempt still goes by it."""
    return msgspec.structs.replace(record, counting=_counting(attempt, max_tries, since))


def _counting(attempt: Attempt, max_tries: int, since: datetime) -> Counting:
    return Counting(
        since=since, attempt_id=attempt.attempt_id, try_number=attempt.try_number, max_tries=max_tries
    )


def checkpoint_region(record: TaskRecord, found: CheckpointScan | None) -> str | None:
    """Return the region of the pool in which the newest checkpoint was written.

    :return: ``None``: there is no checkpoint, or nobody remembers who wrote it or where.
    """
    if found is None or found.fence is None:
        return None
    writers = (known.region for known in record.attempts if known.fence == found.fence)
    return next(writers, None)


def gpu_model_of(decision: Decision, pool: GpuPool) -> str | None:
    """Return the GPU model that a job gets in the chosen pool, for which its runtime will count.

    :return: ``None``: not known, or nodes with several models would do.
    """
    if pool.gpu.model is not None:
        return pool.gpu.model
    avoided = decision.verdicts[0].avoid_nodes  # fitting pools come first, the chosen one before all
    nodes = decision.snapshot.pools[pool.name].nodes
    models = {node.gpu.model for node in nodes if node.gpu is not None and node.name not in avoided}
    return models.pop() if len(models) == 1 else None
