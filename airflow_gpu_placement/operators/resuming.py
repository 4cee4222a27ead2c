"""What attempts of one task hand on: the generation of checkpoints, where the newest is, what they ran on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.hooks.checkpoints import CheckpointScan
    from airflow_gpu_placement.model.attempt import TaskRecord
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool


def begin(record: TaskRecord, attempt_id: str, resume: str) -> TaskRecord:
    """Choose the generation of checkpoints that an attempt belongs to.

    A retry keeps it, and so does the clear of a task that failed; the clear of one that succeeded starts
    anew. An attempt that has launched already stays with what it chose then.
    """
    earlier = record.attempts
    if not earlier or resume == "always" or any(known.attempt_id == attempt_id for known in earlier):
        return record
    if resume == "never" or earlier[-1].outcome is OutcomeKind.SUCCEEDED:
        return msgspec.structs.replace(record, generation=record.generation + 1)
    return record


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
