"""What follows from the end of an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.attempt import AttemptRecord
from airflow_gpu_placement.model.outcome import EndGrade, NextAction, NextStep, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import Outcome

CONFIGURED_BY_THE_POOL = frozenset(
    {"ImagePullDenied", "ErrImageNeverPull", "SecretMissing", "ConfigMapMissing", "WrongArchitecture"}
)
"""Causes that lie in how one cluster is set up; the same job may find in another what it misses here."""

PERHAPS_ITS_OWN = frozenset(
    {
        "NoEvidence",
        "ContainerStatusUnknown",
        "StartError",
        "DeviceFault",
        "NodePressure",
        "EndedEarly",
        "SidecarFailed",
    }
)
"""Losses that a job can bring about itself: twice the same in different pools, and it is the job."""

_QUEUE_ENDS_HERE = frozenset({"QueueStopped", "QueueDeactivated"})

_FIRST_DELAY_SECONDS = 30.0
_LONGEST_DELAY_SECONDS = 600.0
_CLEARLY_SHORTER = 0.5
_WORTH_A_MOVE_SECONDS = 300.0


class Prospects(msgspec.Struct, frozen=True, kw_only=True):
    """What a next step may reckon with.

    :param pool: where the attempt was.
    :param kubernetes_conn_id: by which connection that pool's cluster is reached; empty: not known.
    :param spot: whether that pool's capacity may be taken away.
    :param earlier: earlier attempts of the logical task, this one not among them.
    :param slack_hours: time to spare until the deadline; ``None``: there is none.
    :param rework_hours: what one more interruption costs, training since the last checkpoint included.
    :param wait_here_seconds: predicted wait in the queue; ``None``: unknown.
    :param wait_elsewhere_seconds: the same in the best other pool.
    :param moves_left: how often the job may still change pools within this try.
    """

    pool: str = ""
    kubernetes_conn_id: str = ""
    spot: bool = False
    earlier: tuple[AttemptRecord, ...] = ()
    slack_hours: float | None = None
    rework_hours: float = 0.0
    wait_here_seconds: float | None = None
    wait_elsewhere_seconds: float | None = None
    moves_left: int = 0


def next_step(outcome: Outcome, *, tries_left: int, prospects: Prospects | None = None) -> NextStep:
    """Decide what to do after an attempt.

    =============== =====================================================================================
    succeeded       succeed
    infrastructure  retry elsewhere while tries are left; fail when the same happened in another pool and
                    the job may have brought it about
    configuration   retry elsewhere at once when the pool's cluster lacks something that another may have,
                    and fail when a second cluster lacks it too; fail when the job itself is set up wrongly:
                    no tour of all pools with a bad image name
    application     fail: the same would happen elsewhere, and no try is burnt on it
    queue           wait in the queue; place it elsewhere when the queue is stopped or clearly slower
    cancelled       fail: somebody wanted the end
    unknown         fail when nothing more will be seen: nothing is run twice without evidence
    anything else   wait: the end is not known yet
    =============== =====================================================================================

    :param tries_left: tries that Airflow still allows after this one.
    :param prospects: what else is known; ``None``: nothing.
    """
    seen = prospects or Prospects()
    kind = outcome.kind
    if kind is OutcomeKind.SUCCEEDED:
        return NextStep(action=NextAction.SUCCEED, reason="the remote job succeeded")
    if kind is OutcomeKind.INFRASTRUCTURE:
        return _after_loss(outcome, tries_left, seen)
    if kind is OutcomeKind.CONFIGURATION:
        return _after_misconfiguration(outcome, tries_left, seen)
    if kind is OutcomeKind.APPLICATION:
        return NextStep(
            action=NextAction.FAIL,
            reason=f"{outcome.cause}: it would fail elsewhere too",
            avoid_nodes=outcome.nodes,
        )
    if kind is OutcomeKind.QUEUE:
        return _in_the_queue(outcome, seen)
    if kind is OutcomeKind.CANCELLED:
        return NextStep(action=NextAction.FAIL, reason="somebody deleted the remote job")
    if outcome.over:
        return NextStep(
            action=NextAction.FAIL,
            reason=f"{outcome.cause}: nothing proves a loss; clear the task to run it again",
        )
    return NextStep(action=NextAction.WAIT, reason=f"{kind.value}: the end is not known yet")


def _after_loss(outcome: Outcome, tries_left: int, seen: Prospects) -> NextStep:
    repeated = _same_elsewhere(outcome, seen)
    if repeated:
        return NextStep(
            action=NextAction.FAIL,
            reason=(
                f"{outcome.cause} in {seen.pool} after the same in {', '.join(repeated)}: "
                "it moves with the job, so the job is taken to be its cause"
            ),
        )
    return _elsewhere(
        f"{outcome.cause} is not the training code's fault",
        tries_left,
        NextStep(
            action=NextAction.RETRY_ELSEWHERE,
            reason="",
            delay_seconds=_delay_seconds(seen),
            withdraw_first=outcome.grade is not EndGrade.CONFIRMED,
            avoid_nodes=outcome.nodes,
            exclude_pool=outcome.cause in _QUEUE_ENDS_HERE,
            leave_spot=leaves_spot(
                tries_left=tries_left,
                spot=seen.spot,
                slack_hours=seen.slack_hours,
                rework_hours=seen.rework_hours,
            ),
        ),
    )


def _after_misconfiguration(outcome: Outcome, tries_left: int, seen: Prospects) -> NextStep:
    if outcome.cause not in CONFIGURED_BY_THE_POOL:
        return NextStep(
            action=NextAction.FAIL, reason=f"{outcome.cause}: the job is set up wrongly", withdraw_first=True
        )
    elsewhere = {
        one.pool
        for one in seen.earlier
        if (one.outcome, one.cause) == (outcome.kind, outcome.cause)
        and one.kubernetes_conn_id != seen.kubernetes_conn_id
    }
    if elsewhere and outcome.architecture is None:
        pools = ", ".join(sorted(elsewhere))
        return NextStep(
            action=NextAction.FAIL,
            reason=f"{outcome.cause} in {seen.pool} after the same in {pools}: it is missing everywhere",
            withdraw_first=True,
            exclude_pool=True,
        )
    return _elsewhere(
        f"{outcome.cause} may not occur in another pool",
        tries_left,
        NextStep(
            action=NextAction.RETRY_ELSEWHERE,
            reason="",
            withdraw_first=outcome.grade is not EndGrade.CONFIRMED,
            exclude_pool=outcome.architecture is None,
            exclude_architecture=outcome.architecture,
        ),
    )


def _in_the_queue(outcome: Outcome, seen: Prospects) -> NextStep:
    """Wait, or leave: the queue brings the job back to life, so it is deleted before it is placed again."""
    here, there = seen.wait_here_seconds, seen.wait_elsewhere_seconds
    if outcome.cause in _QUEUE_ENDS_HERE:
        return NextStep(
            action=NextAction.RETRY_ELSEWHERE,
            reason=f"{outcome.cause}: this queue admits nothing now",
            withdraw_first=True,
            exclude_pool=True,
        )
    if seen.moves_left > 0 and here is not None and there is not None:
        shorter = there <= here * _CLEARLY_SHORTER and here - there >= _WORTH_A_MOVE_SECONDS
        if shorter:
            return NextStep(
                action=NextAction.RETRY_ELSEWHERE,
                reason=f"{outcome.cause}: {here:.0f} s to wait here, {there:.0f} s elsewhere",
                withdraw_first=True,
            )
    return NextStep(
        action=NextAction.WAIT,
        reason=f"{outcome.cause}: it waits in the queue again",
        withdraw_first=True,
    )


def leaves_spot(*, tries_left: int, spot: bool, slack_hours: float | None, rework_hours: float) -> bool:
    """Whether the next try should be on capacity that nobody takes away.

    The last try is never a gamble, and neither is one whose interruption would miss the deadline.

    :param tries_left: tries after the one that was just lost.
    :param spot: whether it was lost on spot capacity.
    """
    if not spot:
        return False
    return tries_left <= 1 or (slack_hours is not None and slack_hours <= rework_hours)


def _same_elsewhere(outcome: Outcome, seen: Prospects) -> tuple[str, ...]:
    """Return the other pools in which earlier attempts ended alike, where the job may be the cause."""
    if outcome.cause not in PERHAPS_ITS_OWN:
        return ()
    alike = {
        one.pool
        for one in seen.earlier
        if (one.outcome, one.cause) == (outcome.kind, outcome.cause) and one.pool != seen.pool
    }
    return tuple(sorted(alike))


def _delay_seconds(seen: Prospects) -> float:
    """Return 0, or ever more when the same pool is lost again: there is no better one, so give it time."""
    again = sum(one.pool == seen.pool and one.outcome is OutcomeKind.INFRASTRUCTURE for one in seen.earlier)
    if not seen.pool or not again:
        return 0.0
    return float(min(_FIRST_DELAY_SECONDS * 2.0 ** (again - 1), _LONGEST_DELAY_SECONDS))


def _elsewhere(why: str, tries_left: int, step: NextStep) -> NextStep:
    if tries_left <= 0:
        return NextStep(
            action=NextAction.FAIL,
            reason=f"{why}, but no try is left to place it elsewhere; raise the task's retries",
            withdraw_first=step.withdraw_first,
            avoid_nodes=step.avoid_nodes,
        )
    spot = "; spot capacity only if nothing else fits" if step.leave_spot else ""
    return msgspec.structs.replace(
        step, reason=f"{why}: {tries_left} tr{'y' if tries_left == 1 else 'ies'} left{spot}"
    )
