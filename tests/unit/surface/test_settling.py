"""How the end of an attempt is remembered, and which error it becomes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_gpu_placement.exceptions import (
    RemoteJobError,
    RemoteJobLost,
    RemoteJobMisconfigured,
    TrainingFailed,
)
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind
from airflow_gpu_placement.operators.settling import settle
from airflow_gpu_placement.settings import Settings

SETTINGS = Settings(catalog=Path("gpu_placement.yaml"))


class Memory:
    """Keeps a record in the process."""

    def __init__(self, *attempts: AttemptRecord) -> None:
        self.record = TaskRecord(attempts=attempts)

    def read(self) -> TaskRecord:
        """Return what is remembered."""
        return self.record

    def write(self, record: TaskRecord) -> None:
        """Replace what is remembered."""
        self.record = record


def attempt(number: int, pool: str, **fields: Any) -> AttemptRecord:
    """Make a record of an attempt."""
    return AttemptRecord(
        attempt_id=f"id-{number}",
        try_number=number,
        fence=number,
        pool=pool,
        kubernetes_conn_id="c",
        namespace="n",
        job_name=f"job-{number}",
        **fields,
    )


def settled(memory: Memory, known: AttemptRecord, **outcome: Any) -> RemoteJobError:
    """Settle an end that its node confirmed, with three retries; return the error."""
    memory.write(remember(memory.read(), known))
    end = Outcome(grade=EndGrade.CONFIRMED, **outcome)
    with pytest.raises(RemoteJobError) as caught:
        asyncio.run(settle(end, known, memory, settings=SETTINGS, try_number=known.try_number, max_tries=3))
    return caught.value


def test_a_loss_remembers_its_nodes_and_is_tried_elsewhere_at_once() -> None:
    """The node is not used again."""
    memory = Memory()
    error = settled(memory, attempt(1, "a"), kind=OutcomeKind.INFRASTRUCTURE, cause="NodeLost", nodes=("n1",))
    assert isinstance(error, RemoteJobLost)
    assert (error.retry_elsewhere, error.delay_seconds) == (True, 0.0)
    assert memory.record.attempts[0].lost_nodes == ("n1",)


def test_the_same_loss_of_the_same_pool_is_given_time() -> None:
    """What was learnt from earlier tries counts."""
    memory = Memory(attempt(1, "a", outcome=OutcomeKind.INFRASTRUCTURE, cause="Preempted"))
    error = settled(memory, attempt(2, "a"), kind=OutcomeKind.INFRASTRUCTURE, cause="Preempted")
    assert (error.retry_elsewhere, error.delay_seconds) == (True, 30.0)


def test_a_loss_that_moves_with_the_job_ends_it() -> None:
    """Two pools, one end."""
    memory = Memory(attempt(1, "a", outcome=OutcomeKind.INFRASTRUCTURE, cause="NoEvidence"))
    error = settled(memory, attempt(2, "b"), kind=OutcomeKind.INFRASTRUCTURE, cause="NoEvidence")
    assert not error.retry_elsewhere


def test_a_wrong_processor_is_remembered() -> None:
    """Other processors stay possible."""
    memory = Memory()
    error = settled(
        memory,
        attempt(1, "a"),
        kind=OutcomeKind.CONFIGURATION,
        cause="WrongArchitecture",
        architecture="arm64",
    )
    assert isinstance(error, RemoteJobMisconfigured)
    assert error.retry_elsewhere
    assert memory.record.attempts[0].exclude_architecture == "arm64"
    assert not memory.record.attempts[0].exclude_pool


def test_a_failure_with_a_hint_avoids_the_node_when_the_task_is_cleared() -> None:
    """No try is burnt, and the next run of the task does not meet the same node."""
    memory = Memory()
    error = settled(memory, attempt(1, "a"), kind=OutcomeKind.APPLICATION, cause="Error", nodes=("n1",))
    assert isinstance(error, TrainingFailed)
    assert not error.retry_elsewhere
    assert memory.record.attempts[0].lost_nodes == ("n1",)


def test_an_end_that_nobody_saw_is_not_tried_again() -> None:
    """The job is gone and nothing proves a loss."""
    error = settled(Memory(), attempt(1, "a"), kind=OutcomeKind.UNKNOWN, cause="JobGone", over=True)
    assert (type(error), error.retry_elsewhere) == (RemoteJobError, False)
