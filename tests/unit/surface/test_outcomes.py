"""How a task goes on after each kind of event, with nothing but its memory and an unreachable cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_gpu_placement.exceptions import PlacementTimeout, RemoteJobLost, RequestError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import (
    AttemptPhase,
    Refusal,
    TaskRecord,
)
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Outcome, OutcomeKind
from airflow_gpu_placement.operators.deadlines import backstop, execution_deadline, next_look
from airflow_gpu_placement.operators.identity import logical_task
from airflow_gpu_placement.operators.launching import active_deadline_seconds, watch_arguments
from airflow_gpu_placement.operators.placing import Placing
from airflow_gpu_placement.operators.settling import may_move
from airflow_gpu_placement.operators.steps import Refused
from airflow_gpu_placement.triggers.pause import PauseTrigger
from airflow_gpu_placement.triggers.proof import ProofTrigger
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger
from tests.unit.surface.one_try import Task, launched
from tests.unit.surface.test_memory import attempt

if TYPE_CHECKING:
    from pathlib import Path


CATALOG = "version: 1\npools: [{name: p, kubernetes_conn_id: nowhere}]\n"


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a catalogue whose only pool has a connection that says nothing, and no patience for ends."""
    path = tmp_path / "gpu.yaml"
    path.write_text(CATALOG)
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__CATALOG", str(path))
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", '{"conn_type": "kubernetes"}')
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__FENCE_TIMEOUT_SECONDS", "1")
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"r": {"t": "running"}})


BROKE = {"version": 1, "job_name": "job-1", "kind": "watch_broke", "message": "KeyError: 'x'"}


def test_a_watch_that_broke_is_begun_anew_with_a_growing_pause() -> None:
    """The job may be healthy; at the fourth time it is given up and placed elsewhere."""
    task = Task(launched(loss=LossPolicy(node_grace_seconds=7.0)))
    pauses = []
    for _ in range(3):
        trigger = task.deferred("execute_complete", event=BROKE).trigger
        assert isinstance(trigger, RemoteJobTrigger)
        assert (trigger.job_uid, trigger.policy.node_grace_seconds) == ("u", 7.0)
        pauses.append(trigger.pause_seconds)
    assert pauses == [15.0, 30.0, 60.0]
    assert task.latest.phase is AttemptPhase.CREATED
    with pytest.raises(RemoteJobLost, match=r"broke 4 times, last: KeyError: 'x'") as caught:
        task.operator.execute_complete(task.context, BROKE)
    assert (caught.value.cause, caught.value.retry_elsewhere) == ("WatchBroke", True)
    assert (task.latest.phase, task.latest.cause) == (AttemptPhase.ENDED, "WatchBroke")


def test_breaks_that_are_far_apart_do_not_add_up() -> None:
    """A training may take weeks; a watch that breaks once a week is no reason to give its job up."""
    long_ago = datetime.now(UTC) - timedelta(days=7)
    task = Task(launched(watch_breaks=3, watch_broke_at=long_ago))
    trigger = task.deferred("execute_complete", event=BROKE).trigger
    assert isinstance(trigger, RemoteJobTrigger)
    assert trigger.pause_seconds == 15.0
    assert task.latest.watch_breaks == 1
    assert task.latest.watch_broke_at is not None
    assert task.latest.watch_broke_at > long_ago
    recent = Task(launched(watch_breaks=3, watch_broke_at=datetime.now(UTC) - timedelta(minutes=10)))
    with pytest.raises(RemoteJobLost, match="broke 4 times"):
        recent.operator.execute_complete(recent.context, BROKE)


def test_a_deferral_that_failed_is_taken_for_a_watch_that_broke() -> None:
    """Airflow loses the type and the text of what a trigger raises."""
    task = Task(launched())
    with pytest.raises(TaskDeferred) as caught:
        task.failed_deferral("Trigger failure")
    assert isinstance(caught.value.trigger, RemoteJobTrigger)
    assert task.latest.watch_breaks == 1


def test_a_deferral_that_failed_without_a_remote_job_decides_again() -> None:
    """There is nothing to watch; the only pool has no cluster, so it waits."""
    task = Task(attempt(1, kubernetes_conn_id="nowhere", phase=AttemptPhase.ENDED, grade=EndGrade.CONFIRMED))
    with pytest.raises(TaskDeferred) as caught:
        task.failed_deferral("Trigger failure")
    assert isinstance(caught.value.trigger, PauseTrigger)
    assert task.latest.watch_breaks == 0


@pytest.mark.parametrize(
    "come_back",
    [
        pytest.param(
            lambda task: task.operator.execute_complete(task.context, {"kind": "deadline"}), id="told"
        ),
        pytest.param(lambda task: task.failed_deferral("Trigger timeout"), id="by the back-stop"),
        pytest.param(lambda task: task.operator.place_again(task.context), id="while it waits for a pool"),
    ],
)
def test_the_execution_timeout_ends_the_try_as_airflow_does(come_back: Any) -> None:
    """The end is remembered as nobody's fault, and what may run is withdrawn as far as that can be."""
    task = Task(launched(), began_seconds_ago=61, execution_timeout=timedelta(seconds=60))
    with pytest.raises(AirflowTaskTimeout, match=r"execution_timeout=0:01:00 is over; job-1 in pool p"):
        come_back(task)
    latest = task.latest
    assert (latest.phase, latest.cause, latest.outcome) == (
        AttemptPhase.ENDED,
        "ExecutionTimeout",
        OutcomeKind.CANCELLED,
    )
    assert latest.grade is EndGrade.UNKNOWN


def test_a_deadline_is_one_moment_over_all_deferrals() -> None:
    """It counts from the start of the try; the back-stop is later, and so is the cluster's own limit."""
    task = Task(launched(), began_seconds_ago=40, execution_timeout=timedelta(seconds=100))
    deadline = execution_deadline(task.operator, task.context["ti"])
    assert deadline is not None
    deferral = task.deferred("execute_complete", event=BROKE)
    assert deferral.trigger.serialize()[1]["deadline"] == deadline.isoformat()
    assert deferral.timeout is not None
    assert 170 <= cast("timedelta", deferral.timeout).total_seconds() <= 180
    assert 350 <= (active_deadline_seconds(deadline) or 0) <= 360
    assert (backstop(None), active_deadline_seconds(None)) == (None, None)
    assert execution_deadline(Task().operator, task.context["ti"]) is None


def test_a_task_looks_again_after_a_pause_that_differs_a_little() -> None:
    """Many tasks that wait for one pool do not ask at the same moment; a deadline comes first."""
    now = datetime.now(UTC)
    seconds = [(next_look(100.0, None) - now).total_seconds() for _ in range(50)]
    assert 100.0 <= min(seconds) < max(seconds) <= 121.0
    soon = now + timedelta(seconds=3)
    assert next_look(100.0, None, soon, now + timedelta(seconds=9)) == soon


def test_a_start_is_missed_at_most_three_times_in_a_try() -> None:
    """Pools that refused the job do not count; a loss of what has run is not moved without a new try."""
    late = Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause="StartTimeout", never_started=True)
    at = datetime(2026, 1, 5, tzinfo=UTC)
    record = TaskRecord(attempts=(attempt(9, cause="StartTimeout"),))
    may = []
    for move in range(0, 10, 2):
        may.append(may_move(late, launched(move=move), record))
        refused = launched(move=move + 1, cause="QuotaExceeded", refusal=Refusal(at=at))
        record = remember(remember(record, launched(move=move, cause="StartTimeout")), refused)
    assert may == [True, True, True, False, False]
    lost = Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause="NodeLost")
    assert not may_move(lost, launched(), TaskRecord())


def test_with_wait_nothing_is_launched_before_the_end_is_confirmed() -> None:
    """A deleted Node is not the word of a node; the proof that arrives is remembered."""
    earlier = attempt(
        9,
        kubernetes_conn_id="nowhere",
        phase=AttemptPhase.ENDED,
        grade=EndGrade.ASSERTED,
        job_uid="u",
        lost_nodes=("n",),
        lost_boots={"n": "b"},
    )
    task = Task(earlier, on_unreachable="wait")
    deferral = task.deferred("place_again")
    trigger = deferral.trigger
    assert isinstance(trigger, ProofTrigger)
    assert (trigger.job_name, trigger.boot_ids, deferral.method_name) == ("job-9", {"n": "b"}, "place_proven")
    assert trigger.labels == {
        "airflow-gpu-placement/attempt-id": "id-9",
        "airflow-gpu-placement/logical-task": logical_task(task.context["ti"]).hash,
    }
    again = ProofTrigger(**trigger.serialize()[1])
    assert again.serialize() == trigger.serialize()
    proof = {"version": 1, "kind": "proof", "job_name": "job-9", "grade": "confirmed"}
    assert isinstance(task.deferred("place_proven", event=proof).trigger, PauseTrigger)
    assert task.latest.grade is EndGrade.CONFIRMED


def test_a_proof_is_not_waited_for_longer_than_for_a_pool() -> None:
    """The message names the job and the way out."""
    earlier = attempt(9, phase=AttemptPhase.ENDED, grade=EndGrade.UNKNOWN, kubernetes_conn_id="nowhere")
    task = Task(earlier, began_seconds_ago=5, on_unreachable="wait", placement_timeout=timedelta(seconds=4))
    with pytest.raises(PlacementTimeout, match=r"the end of job-9 in pool p .* on_unreachable='replace'"):
        task.operator.place_again(task.context)


def test_what_the_proof_trigger_cannot_reach_it_asks_again_until_its_time_is_over() -> None:
    """It never raises."""
    known = attempt(9, kubernetes_conn_id="nowhere")
    trigger = ProofTrigger.of(known, labels={}, until=datetime.now(UTC) + timedelta(seconds=1))
    event = asyncio.run(trigger.news(open_on_worker))
    assert event == {"version": 1, "job_name": "job-9", "kind": "deadline"}


def test_a_wrong_word_for_on_unreachable_is_told() -> None:
    """Before anything is read or created."""
    with pytest.raises(RequestError, match="on_unreachable: 'ignore' is neither replace nor wait"):
        Task(on_unreachable="ignore").operator.place_again(Task(on_unreachable="ignore").context)


def test_what_a_watcher_needs_survives_the_triggers_storage() -> None:
    """Every argument is JSON, and a trigger that is made again is the same."""
    known = launched(loss=LossPolicy(start_timeout_seconds=9.0, unschedulable_timeout_seconds=None))
    trigger = RemoteJobTrigger(**watch_arguments(known, datetime.now(UTC), 15.0))
    stored = msgspec.json.decode(msgspec.json.encode(trigger.serialize()[1]))
    again = RemoteJobTrigger(**stored)
    assert again.serialize() == trigger.serialize()
    assert again.policy == known.loss
    assert again.pause_seconds == 15.0


def test_a_triggerer_that_is_older_than_the_workers_still_watches() -> None:
    """Airflow would fail a trigger that cannot be made four times within seconds, and the job be given up."""
    later: dict[str, Any] = {"from_a_later_version": {"x": 1}}
    known = launched()
    watching = RemoteJobTrigger(**watch_arguments(known, None), **later)
    assert watching.serialize() == RemoteJobTrigger(**watch_arguments(known, None)).serialize()
    for waiting in (
        ProofTrigger.of(known, labels={}, until=datetime.now(UTC)),
        PauseTrigger(until=datetime.now(UTC).isoformat()),
    ):
        arguments = waiting.serialize()[1]
        assert type(waiting)(**arguments, **later).serialize()[1] == arguments


def test_a_launch_is_kept_apart_from_the_moves_before_it() -> None:
    """All of them are of one attempt."""
    task = Task(launched())
    task.memory.write(remember(task.memory.read(), launched(move=1, pool="q")))
    trigger = task.deferred("execute_complete", event=BROKE).trigger
    assert isinstance(trigger, RemoteJobTrigger)
    assert [one.watch_breaks for one in task.memory.read().attempts] == [0, 1]


def test_after_four_refusals_in_a_row_a_task_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a worker slot, and no longer than it may; no try is burnt on it."""
    tried: list[Placing] = []

    async def refuse(placing: Placing) -> Refused:
        tried.append(placing)
        return Refused(attempt(9), "pool p did not take the job: exceeded quota")

    monkeypatch.setattr(Placing, "attempt", refuse)
    assert isinstance(Task().deferred("place_again").trigger, PauseTrigger)
    assert len(tried) == 4
    late = Task(began_seconds_ago=5, placement_timeout=timedelta(seconds=4))
    with pytest.raises(PlacementTimeout, match="within 0:00:04; the last: pool p did not take the job"):
        late.operator.place_again(late.context)
