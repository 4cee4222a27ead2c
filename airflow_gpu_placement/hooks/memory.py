"""What one logical task remembers between its tries."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord

KEY = "gpu_placement.record"
MAX_ATTEMPTS = 32


class TaskMemory(Protocol):
    """Store of one logical task's record; each write is one atomic step."""

    def read(self) -> TaskRecord:
        """Return what is remembered; an empty record at first."""

    def write(self, record: TaskRecord) -> None:
        """Replace what is remembered."""


class TaskStateMemory:
    """Memory in Airflow's task state store: it survives retries and clears, and is readable in the UI.

    A task superseded by another attempt cannot write any more (its identity is gone on the server), which
    makes the write of an intent right before a create also a fence against a forgotten worker.

    :param store: ``context["task_state_store"]``.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def read(self) -> TaskRecord:
        """Return what is remembered; a value that is not ours counts as nothing remembered.

        :raises GpuPlacementError: somebody has edited it, or a later version of the package wrote it.
        """
        value = self._store.get(KEY)
        if not isinstance(value, dict):
            return TaskRecord()
        try:
            return msgspec.convert(value, TaskRecord)
        except msgspec.ValidationError as error:
            raise GpuPlacementError(
                f"what is remembered of this task's remote jobs cannot be read: {error}. Correct the value "
                f"of {KEY} on the task's Storage tab, or withdraw its remote jobs and delete the value"
            ) from error

    def write(self, record: TaskRecord) -> None:
        """Replace what is remembered, for ever."""
        self._store.set(KEY, as_json(record), retention=NEVER_EXPIRE)


def as_json(value: Any) -> Any:
    """Return a value as the plain JSON types that the store accepts; it refuses tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def remember(record: TaskRecord, attempt: AttemptRecord) -> TaskRecord:
    """Add a launch or replace what is known of it; the oldest are forgotten beyond 32.

    A launch keeps its place, whenever something is learnt of it: which one was the last has a meaning.

    :return: a new record, whose last fence is at least the attempt's.
    """
    attempts = tuple(attempt if known.is_same_launch(attempt) else known for known in record.attempts)
    if attempt not in attempts:
        attempts = (*attempts, attempt)
    return msgspec.structs.replace(
        record,
        attempts=attempts[-MAX_ATTEMPTS:],
        last_fence=max(record.last_fence, attempt.fence),
    )


def recall(record: TaskRecord, attempt_id: str) -> AttemptRecord | None:
    """Find the latest launch of an attempt by its id."""
    launches = [known for known in record.attempts if known.attempt_id == attempt_id]
    return max(launches, key=lambda known: known.move, default=None)
