"""How the end of an attempt is remembered, and which error it becomes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.exceptions import (
    RemoteJobError,
    RemoteJobLost,
    RemoteJobMisconfigured,
    TrainingFailed,
)
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind
from airflow_gpu_placement.operators.settling import leave, run_out_of_time, settle
from airflow_gpu_placement.settings import Settings

CASES = Path(__file__).resolve().parents[2] / "cases" / "data"
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
    usual: dict[str, Any] = {"kubernetes_conn_id": "c", "namespace": "n", "job_name": f"job-{number}"}
    return AttemptRecord(
        attempt_id=f"id-{number}", try_number=number, fence=number, pool=pool, **(usual | fields)
    )


def settled(memory: Memory, known: AttemptRecord, *, max_tries: int = 3, **outcome: Any) -> RemoteJobError:
    """Settle an end that its node confirmed; return the error."""
    memory.write(remember(memory.read(), known))
    end = Outcome(grade=EndGrade.CONFIRMED, **outcome)
    with pytest.raises(RemoteJobError) as caught:
        asyncio.run(
            settle(
                end,
                known,
                memory,
                settings=SETTINGS,
                try_number=known.try_number,
                max_tries=max_tries,
            )
        )
    return caught.value


def test_a_loss_remembers_its_nodes_and_is_tried_elsewhere_at_once() -> None:
    """The node is not used again."""
    memory = Memory()
    error = settled(memory, attempt(1, "a"), kind=OutcomeKind.INFRASTRUCTURE, cause="NodeLost", nodes=("n1",))
    assert isinstance(error, RemoteJobLost)
    assert (error.retry_elsewhere, error.delay_seconds) == (True, 0.0)
    assert memory.record.attempts[0].lost_nodes == ("n1",)


def test_the_last_try_is_not_on_capacity_that_may_be_taken_away() -> None:
    """Unless nothing else fits; a clear forgets it."""
    for spot, max_tries, want in ((True, 1, True), (True, 5, False), (False, 1, False)):
        memory = Memory()
        settled(
            memory,
            attempt(1, "a", spot=spot),
            max_tries=max_tries,
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="Preempted",
        )
        assert history_of(memory.record).leave_spot is want
        assert not history_of(memory.record, max_tries=1).leave_spot


def test_the_same_loss_of_the_same_pool_is_given_time() -> None:
    """What was learnt from earlier tries counts."""
    memory = Memory(attempt(1, "a", outcome=OutcomeKind.INFRASTRUCTURE, cause="Preempted"))
    error = settled(memory, attempt(2, "a"), kind=OutcomeKind.INFRASTRUCTURE, cause="Preempted")
    assert (error.retry_elsewhere, error.delay_seconds) == (True, 30.0)


@pytest.mark.parametrize("cause", ["NoEvidence", "SidecarFailed"])
def test_a_loss_that_moves_with_the_job_ends_it(cause: str) -> None:
    """Two pools, one end."""
    memory = Memory(attempt(1, "a", outcome=OutcomeKind.INFRASTRUCTURE, cause=cause))
    error = settled(memory, attempt(2, "b"), kind=OutcomeKind.INFRASTRUCTURE, cause=cause)
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


def test_the_closing_message_counts_the_ends() -> None:
    """Whoever reads the failure sees how much of it was the training code's and what ``retries`` would do."""
    case = json.loads((CASES / "REC-02.json").read_text(encoding="utf-8"))
    ends: dict[str, dict[str, Any]] = {
        "infra_loss": {"kind": OutcomeKind.INFRASTRUCTURE, "cause": "NodeLost"},
        "app_failure": {"kind": OutcomeKind.APPLICATION, "cause": "Error"},
    }
    for one, mentions in zip(case["input"]["cases"], case["expect"]["message_mentions"], strict=True):
        memory = Memory()
        errors = [
            settled(memory, attempt(number, what["pool"]), max_tries=one["retries"], **ends[what["class"]])
            for number, what in enumerate(one["tries"], start=1)
        ]
        assert [error.retry_elsewhere for error in errors] == [True] * (len(errors) - 1) + [False]
        assert [word for word in mentions if word not in str(errors[-1])] == []
    assert "1 infrastructure" not in str(errors[-1])


def test_an_end_that_nobody_saw_is_not_tried_again() -> None:
    """The job is gone and nothing proves a loss."""
    error = settled(Memory(), attempt(1, "a"), kind=OutcomeKind.UNKNOWN, cause="JobGone", over=True)
    assert (type(error), error.retry_elsewhere) == (RemoteJobError, False)


@pytest.mark.parametrize(
    ("cause", "grade"),
    [
        # The last pod may have no node, so that nothing of it runs; the job may bring forth another.
        pytest.param("StartTimeout", EndGrade.CONFIRMED, id="a job that has not started"),
        pytest.param("NodeLost", EndGrade.UNKNOWN, id="a silent node"),
        pytest.param("NodeGone", EndGrade.ASSERTED, id="a deleted node"),
    ],
)
def test_what_is_still_to_be_withdrawn_is_not_remembered_as_ended_for_sure(
    monkeypatch: pytest.MonkeyPatch, cause: str, grade: EndGrade
) -> None:
    """A worker that dies before the withdrawal leaves it to the next try, which asks the memory alone."""

    async def killed(*_: Any, **__: Any) -> EndGrade:
        raise KeyboardInterrupt

    monkeypatch.setattr("airflow_gpu_placement.operators.settling.withdraw_attempt", killed)
    known = attempt(1, "a", move=3)
    memory = Memory(known)
    outcome = Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause=cause, grade=grade, never_started=True)
    for step in (
        lambda: leave(outcome, known, memory, SETTINGS),
        lambda: settle(outcome, known, memory, settings=SETTINGS, try_number=1, max_tries=3),
        lambda: run_out_of_time(known, memory, SETTINGS),
    ):
        memory.record = TaskRecord(attempts=(known,))
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(step())
        (left,) = memory.record.attempts
        assert (left.phase, left.grade) == (AttemptPhase.ENDED, None)


def test_what_was_missing_before_a_clear_does_not_count() -> None:
    """Else the clear would fail in the first pool, before the pool that was mended is tried."""
    denied = attempt(
        1, "a", outcome=OutcomeKind.CONFIGURATION, cause="ImagePullDenied", kubernetes_conn_id="x"
    )
    for cleared, elsewhere in ((0, False), (1, True)):
        error = settled(
            Memory(denied),
            attempt(2, "b", max_tries=cleared, clear_number=1),
            kind=OutcomeKind.CONFIGURATION,
            cause="ImagePullDenied",
        )
        assert error.retry_elsewhere is elsewhere


@pytest.mark.parametrize("grade", [EndGrade.UNKNOWN, EndGrade.CONFIRMED])
def test_what_runs_on_after_a_success_is_withdrawn(monkeypatch: pytest.MonkeyPatch, grade: EndGrade) -> None:
    """A job that is over is kept to be looked at; the success is a success in any case."""
    withdrawn = []

    async def withdraw(known: AttemptRecord, **_: Any) -> EndGrade:
        withdrawn.append((known.job_name, known.outcome))
        return EndGrade.UNKNOWN

    monkeypatch.setattr("airflow_gpu_placement.operators.settling.withdraw_attempt", withdraw)
    known = attempt(1, "a")
    memory = Memory(known)
    outcome = Outcome(kind=OutcomeKind.SUCCEEDED, cause="Complete", grade=grade)
    asyncio.run(settle(outcome, known, memory, settings=SETTINGS, try_number=1, max_tries=3))
    expected = [("job-1", OutcomeKind.SUCCEEDED)] if grade is EndGrade.UNKNOWN else []
    assert withdrawn == expected
    assert (memory.record.attempts[0].outcome, memory.record.attempts[0].grade) == (
        OutcomeKind.SUCCEEDED,
        grade,
    )
