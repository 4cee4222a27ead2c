"""What follows from each kind of end."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.next_step import next_step
from airflow_gpu_placement.model.outcome import NextAction, NextStep, Outcome, OutcomeKind


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
    )
