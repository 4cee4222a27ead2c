"""What follows from each kind of end."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.next_step import Prospects, next_step
from airflow_gpu_placement.model.attempt import AttemptRecord
from airflow_gpu_placement.model.outcome import EndGrade, NextAction, NextStep, Outcome, OutcomeKind


@pytest.mark.parametrize(
    ("kind", "cause", "tries_left", "want"),
    [
        pytest.param(OutcomeKind.SUCCEEDED, "Complete", 0, NextAction.SUCCEED, id="success"),
        pytest.param(OutcomeKind.INFRASTRUCTURE, "NodeLost", 1, NextAction.RETRY_ELSEWHERE, id="a loss"),
        pytest.param(
            OutcomeKind.INFRASTRUCTURE, "NodeLost", 0, NextAction.FAIL, id="a loss without a try left"
        ),
        pytest.param(OutcomeKind.APPLICATION, "Error", 3, NextAction.FAIL, id="a bug burns no try"),
        pytest.param(OutcomeKind.CANCELLED, "JobDeleted", 3, NextAction.FAIL, id="somebody wanted the end"),
        pytest.param(
            OutcomeKind.CONFIGURATION,
            "ImagePullDenied",
            1,
            NextAction.RETRY_ELSEWHERE,
            id="a cluster without access",
        ),
        pytest.param(
            OutcomeKind.CONFIGURATION, "ImageNotFound", 1, NextAction.FAIL, id="an image that does not exist"
        ),
        pytest.param(OutcomeKind.UNKNOWN, "", 1, NextAction.WAIT, id="unknown"),
        pytest.param(OutcomeKind.SUSPECTED, "NodeSilent", 1, NextAction.WAIT, id="suspected"),
        pytest.param(OutcomeKind.RUNNING, "", 1, NextAction.WAIT, id="running"),
    ],
)
def test_the_kind_and_cause_decide(kind: OutcomeKind, cause: str, tries_left: int, want: NextAction) -> None:
    """Only what another place can mend is tried elsewhere, and at once."""
    step = next_step(Outcome(kind=kind, cause=cause), tries_left=tries_left)
    assert (step.action, step.delay_seconds) == (want, 0.0)


def test_the_reason_says_that_no_try_is_left() -> None:
    """A loss that cannot be tried elsewhere is told apart from a bug."""
    outcome = Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause="NodeLost")
    assert next_step(outcome, tries_left=0) == NextStep(
        action=NextAction.FAIL,
        reason=(
            "NodeLost is not the training code's fault, but no try is left to place it elsewhere; "
            "raise the task's retries"
        ),
        withdraw_first=True,
    )


def after(kind: OutcomeKind, cause: str, prospects: Prospects | None = None, **fields: Any) -> NextStep:
    """Decide with two tries left."""
    return next_step(Outcome(kind=kind, cause=cause, **fields), tries_left=2, prospects=prospects)


def attempt(pool: str, cause: str, outcome: OutcomeKind = OutcomeKind.INFRASTRUCTURE) -> AttemptRecord:
    """Build an earlier attempt."""
    return AttemptRecord(
        attempt_id=f"id-{pool}",
        try_number=1,
        fence=1,
        pool=pool,
        kubernetes_conn_id="c",
        namespace="n",
        job_name="j",
        outcome=outcome,
        cause=cause,
    )


def test_the_same_end_in_two_pools_is_the_jobs_own() -> None:
    """What moves with the job is the job's; what clouds do to anybody is not."""
    twice = Prospects(pool="b", earlier=(attempt("a", "NoEvidence"),))
    step = after(OutcomeKind.INFRASTRUCTURE, "NoEvidence", twice)
    assert step.action is NextAction.FAIL
    assert "NoEvidence in b after the same in a" in step.reason
    same_pool = Prospects(pool="a", earlier=(attempt("a", "NoEvidence"),))
    assert after(OutcomeKind.INFRASTRUCTURE, "NoEvidence", same_pool).action is NextAction.RETRY_ELSEWHERE
    reclaimed = Prospects(pool="b", earlier=(attempt("a", "Preempted"),))
    assert after(OutcomeKind.INFRASTRUCTURE, "Preempted", reclaimed).action is NextAction.RETRY_ELSEWHERE


@pytest.mark.parametrize(("again", "seconds"), [(0, 0.0), (1, 30.0), (2, 60.0), (9, 600.0)])
def test_losing_the_same_pool_again_takes_more_and_more_time(again: int, seconds: float) -> None:
    """There is no better pool then; the wait is bounded."""
    earlier = tuple(attempt("a", "Preempted") for _ in range(again))
    step = after(OutcomeKind.INFRASTRUCTURE, "Preempted", Prospects(pool="a", earlier=earlier))
    assert step.delay_seconds == seconds


@pytest.mark.parametrize(
    ("tries_left", "spot", "slack_hours", "want"),
    [
        pytest.param(3, True, None, False, id="there are tries to lose"),
        pytest.param(1, True, None, True, id="the last try is no gamble"),
        pytest.param(3, True, 1.0, True, id="one more interruption would miss the deadline"),
        pytest.param(3, True, 9.0, False, id="there is time for one"),
        pytest.param(1, False, 0.0, False, id="it was not on spot"),
    ],
)
def test_spot_is_left_before_it_is_too_late(
    tries_left: int, spot: bool, slack_hours: float | None, want: bool
) -> None:
    """Tries and time decide."""
    prospects = Prospects(pool="a", spot=spot, slack_hours=slack_hours, rework_hours=2.0)
    lost = Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause="NodeShutdown")
    assert next_step(lost, tries_left=tries_left, prospects=prospects).leave_spot is want


@pytest.mark.parametrize(
    ("here", "there", "moves_left", "action"),
    [
        pytest.param(3600.0, 600.0, 2, NextAction.RETRY_ELSEWHERE, id="clearly shorter elsewhere"),
        pytest.param(3600.0, 3000.0, 2, NextAction.WAIT, id="not clearly"),
        pytest.param(400.0, 150.0, 2, NextAction.WAIT, id="not worth a move"),
        pytest.param(3600.0, 600.0, 0, NextAction.WAIT, id="it has moved often enough"),
        pytest.param(None, 600.0, 2, NextAction.WAIT, id="unknown is not long"),
    ],
)
def test_a_queue_is_left_only_for_a_clearly_shorter_one(
    here: float | None, there: float | None, moves_left: int, action: NextAction
) -> None:
    """And the job is deleted before it is placed elsewhere, since the queue brings it back."""
    prospects = Prospects(wait_here_seconds=here, wait_elsewhere_seconds=there, moves_left=moves_left)
    step = after(OutcomeKind.QUEUE, "QueuePreempted", prospects)
    assert (step.action, step.withdraw_first) == (action, True)


def test_a_queue_that_is_stopped_is_left_at_once() -> None:
    """It admits nothing, so this pool is out."""
    step = after(OutcomeKind.QUEUE, "QueueStopped")
    assert (step.action, step.exclude_pool) == (NextAction.RETRY_ELSEWHERE, True)


def test_what_a_configuration_rules_out() -> None:
    """A processor, else the pool."""
    step = after(OutcomeKind.CONFIGURATION, "WrongArchitecture", architecture="arm64")
    assert (step.exclude_architecture, step.exclude_pool) == ("arm64", False)
    step = after(OutcomeKind.CONFIGURATION, "ImagePullDenied")
    assert (step.exclude_architecture, step.exclude_pool) == (None, True)


def test_what_a_second_cluster_lacks_too_is_missing_everywhere() -> None:
    """Another pool of the same cluster says nothing new."""
    before = (attempt("a", "SecretMissing", OutcomeKind.CONFIGURATION),)
    same = Prospects(pool="b", kubernetes_conn_id="c", earlier=before)
    other = Prospects(pool="b", kubernetes_conn_id="d", earlier=before)
    assert after(OutcomeKind.CONFIGURATION, "SecretMissing", same).action is NextAction.RETRY_ELSEWHERE
    step = after(OutcomeKind.CONFIGURATION, "SecretMissing", other)
    assert (step.action, step.withdraw_first) == (NextAction.FAIL, True)
    assert "after the same in a" in step.reason
    step = after(OutcomeKind.CONFIGURATION, "ImagePullDenied", other)
    assert step.action is NextAction.RETRY_ELSEWHERE


@pytest.mark.parametrize(
    ("grade", "want"), [(EndGrade.CONFIRMED, False), (EndGrade.ASSERTED, True), (EndGrade.UNKNOWN, True)]
)
def test_what_may_still_run_is_withdrawn_first(grade: EndGrade, want: bool) -> None:
    """Only an end that the node itself reported needs no deletion."""
    step = after(OutcomeKind.INFRASTRUCTURE, "NodeLost", grade=grade, nodes=("n1",))
    assert (step.withdraw_first, step.avoid_nodes) == (want, ("n1",))


def test_an_unknown_end_is_not_run_again() -> None:
    """Nothing is done twice without evidence of a loss."""
    step = after(OutcomeKind.UNKNOWN, "JobGone", over=True)
    assert (step.action, step.rerun) == (NextAction.FAIL, False)
