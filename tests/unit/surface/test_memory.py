"""What is remembered between the tries of one logical task."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.hooks.memory import KEY, MAX_ATTEMPTS, TaskStateMemory, recall, remember
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, Counting, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind
from airflow_gpu_placement.operators.resuming import begin

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


class JsonStore:
    """Keeps values as Airflow's task state store does: as JSON text; ``None`` is refused there."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return what was set."""
        return json.loads(self.values[key]) if key in self.values else default

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        """Keep a value."""
        if value is None or retention is None:
            raise ValueError("None is refused, and memory must not expire")
        if "tuple" in {type(item).__name__ for item in _values(value)}:
            raise ValueError("only JSON types are accepted")
        self.values[key] = json.dumps(value)

    def delete(self, key: str) -> None:
        """Forget a value."""
        self.values.pop(key, None)


def _values(value: Any) -> list[Any]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [value, *(found for child in children for found in _values(child))]


def attempt(number: int, **fields: Any) -> AttemptRecord:
    """Make a record of the attempt with this number."""
    defaults: dict[str, Any] = {
        "attempt_id": f"id-{number}",
        "try_number": number,
        "fence": number,
        "pool": "p",
        "kubernetes_conn_id": "c",
        "namespace": "n",
        "job_name": f"job-{number}",
    }
    return AttemptRecord(**(defaults | fields))


def test_a_record_survives_the_store() -> None:
    """What is read back equals what was written, dates and enums included."""
    memory = TaskStateMemory(JsonStore())
    record = remember(
        memory.read(),
        attempt(
            1,
            phase=AttemptPhase.ENDED,
            outcome=OutcomeKind.INFRASTRUCTURE,
            grade=EndGrade.UNKNOWN,
            lost_nodes=("n1",),
        ),
    )
    begun = Counting(since=datetime(2026, 1, 5, tzinfo=UTC), attempt_id="id-1", try_number=1, max_tries=0)
    record = msgspec.structs.replace(record, counting=begun)

    memory.write(record)

    assert memory.read() == record


def test_an_attempt_is_replaced_and_the_fence_only_grows() -> None:
    """A second write of the same attempt replaces the first; the largest fence is kept."""
    record = remember(remember(TaskRecord(), attempt(1, fence=7)), attempt(1, fence=3, job_uid="u"))

    assert [known.job_uid for known in record.attempts] == ["u"]
    assert record.last_fence == 7
    assert recall(record, "id-1") == record.attempts[0]
    assert recall(record, "id-2") is None


def test_an_attempt_that_is_moved_has_a_record_of_each_launch() -> None:
    """The latest is the one that counts."""
    record = remember(remember(TaskRecord(), attempt(1, fence=1)), attempt(1, fence=2, move=1))

    assert [(known.move, known.fence) for known in record.attempts] == [(0, 1), (1, 2)]
    latest = recall(record, "id-1")
    assert latest is not None
    assert latest.move == 1
    ended = remember(record, msgspec.structs.replace(record.attempts[0], phase=AttemptPhase.ENDED))
    assert recall(ended, "id-1") == latest


def test_what_is_learnt_of_an_earlier_launch_does_not_make_it_the_last() -> None:
    """Whether a task that is cleared starts anew depends on how its last launch ended."""
    lost = attempt(1, outcome=OutcomeKind.INFRASTRUCTURE, grade=EndGrade.UNKNOWN)
    record = remember(remember(TaskRecord(), lost), attempt(2, outcome=OutcomeKind.SUCCEEDED))

    record = remember(record, msgspec.structs.replace(lost, grade=EndGrade.CONFIRMED))

    assert [known.grade for known in record.attempts] == [EndGrade.CONFIRMED, None]
    assert begin(record, "id-3", "auto", NOW).generation == 2


def test_a_memory_that_was_spoilt_is_told_with_the_way_out() -> None:
    """People may edit it on the task's page; taking it for empty would forget jobs that run."""
    store = JsonStore()
    store.set(KEY, {"attempts": [{"fence": "seven"}]}, retention=1)
    with pytest.raises(
        GpuPlacementError, match=rf"attempts\[0\].*\. Correct the value of {KEY} on the task's"
    ):
        TaskStateMemory(store).read()
    store.set(KEY, "gibberish", retention=1)
    assert TaskStateMemory(store).read() == TaskRecord()


def test_memory_is_bounded() -> None:
    """The oldest attempts are forgotten, the fence is not."""
    record = TaskRecord()
    for number in range(1, 100):
        record = remember(record, attempt(number))

    assert len(record.attempts) == MAX_ATTEMPTS
    assert record.attempts[-1].attempt_id == "id-99"
    assert record.last_fence == 99


def test_a_retry_keeps_the_checkpoints_and_a_clear_after_success_does_not() -> None:
    """The generation, part of the checkpoint root, changes only where training starts from nothing."""
    failed = remember(TaskRecord(), attempt(1, outcome=OutcomeKind.APPLICATION))
    succeeded = remember(TaskRecord(), attempt(1, outcome=OutcomeKind.SUCCEEDED))

    assert begin(failed, "id-2", "auto", NOW).generation == 1
    assert begin(succeeded, "id-2", "auto", NOW).generation == 2
    assert begin(succeeded, "id-2", "always", NOW).generation == 1
    assert begin(failed, "id-2", "never", NOW).generation == 2
    assert begin(failed, "id-1", "never", NOW).generation == 1
    moved = remember(succeeded, attempt(2))
    assert begin(moved, "id-2", "auto", NOW).generation == 1


def test_without_memory_training_starts_from_nothing() -> None:
    """Whatever a run of that name has left in the storage, and though the worker may not see it."""
    assert begin(TaskRecord(), "id-1", "never", NOW).generation == NOW.timestamp()
    assert begin(TaskRecord(), "id-1", "auto", NOW).generation == NOW.timestamp()
    assert begin(TaskRecord(), "id-1", "always", NOW).generation == 1
