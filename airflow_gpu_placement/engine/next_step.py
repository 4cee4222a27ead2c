"""What follows from the end of an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.outcome import NextAction, NextStep, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import Outcome

CONFIGURED_BY_THE_POOL = frozenset(
    {"ImagePullDenied", "ErrImageNeverPull", "SecretMissing", "ConfigMapMissing", "WrongArchitecture"}
)
"""Causes that lie in how one cluster is set up; the same job may find in another what it misses here."""


def next_step(outcome: Outcome, *, tries_left: int) -> NextStep:
    """Decide what to do after an attempt.

    =============== =====================================================================================
    succeeded       succeed
    infrastructure  retry elsewhere at once while tries are left
    configuration   retry elsewhere at once when the pool's cluster lacks something that another may have;
                    fail when the job itself is set up wrongly: no tour of all pools with a bad image name
    application     fail: the same would happen elsewhere, and no try is burnt on it
    cancelled       fail: somebody wanted the end
    anything else   wait: the end is not known yet
    =============== =====================================================================================

    :param tries_left: tries that Airflow still allows after this one.
    """
    kind = outcome.kind
    if kind is OutcomeKind.SUCCEEDED:
        return NextStep(action=NextAction.SUCCEED, reason="the remote job succeeded")
    if kind is OutcomeKind.INFRASTRUCTURE:
        return _elsewhere(f"{outcome.cause} is not the training code's fault", tries_left)
    if kind is OutcomeKind.CONFIGURATION:
        if outcome.cause in CONFIGURED_BY_THE_POOL:
            return _elsewhere(f"{outcome.cause} may not occur in another pool", tries_left)
        return NextStep(action=NextAction.FAIL, reason=f"{outcome.cause}: the job is set up wrongly")
    if kind is OutcomeKind.APPLICATION:
        return NextStep(action=NextAction.FAIL, reason=f"{outcome.cause}: it would fail elsewhere too")
    if kind is OutcomeKind.CANCELLED:
        return NextStep(action=NextAction.FAIL, reason="somebody deleted the remote job")
    return NextStep(action=NextAction.WAIT, reason=f"{kind.value}: the end is not known yet")


def _elsewhere(why: str, tries_left: int) -> NextStep:
    if tries_left <= 0:
        return NextStep(
            action=NextAction.FAIL,
            reason=f"{why}, but no try is left to place it elsewhere; raise the task's retries",
        )
    return NextStep(
        action=NextAction.RETRY_ELSEWHERE,
        reason=f"{why}: {tries_left} tr{'y' if tries_left == 1 else 'ies'} left",
    )
