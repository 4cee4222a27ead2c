"""What the author's own check whether the work is done changes about an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.disruptions import stopped_early
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import Observation, Outcome

_OPEN_ENDS = frozenset(
    {OutcomeKind.INFRASTRUCTURE, OutcomeKind.UNKNOWN, OutcomeKind.QUEUE, OutcomeKind.CANCELLED}
)


def checked(outcome: Outcome, observation: Observation) -> Outcome:
    """Let the author's check decide what the cluster cannot: a lost end, and an exit 0 that was no end.

    A program that answers SIGTERM with exit 0 looks complete to Kubernetes. A failure that the job itself
    caused stays one, whatever the check says.
    """
    says_done = _answer(observation)
    if outcome.kind is OutcomeKind.SUCCEEDED:
        return (
            _doubted(outcome, observation) if says_done is False else _warned(outcome, observation, says_done)
        )
    if says_done and outcome.final and outcome.kind in _OPEN_ENDS:
        return msgspec.structs.replace(
            outcome,
            kind=OutcomeKind.SUCCEEDED,
            cause="CheckedComplete",
            message=f"the job's own check says that the work is done; {outcome.message}",
            warning=f"the end of the job was not seen to be a success: {outcome.message}",
            ambiguous=False,
            over=False,
        )
    return outcome


def _answer(observation: Observation) -> bool | None:
    check = observation.completion
    return None if check is None or not check.available else check.says_done


def _taken_away(observation: Observation) -> Pod | None:
    return next((pod for pod in observation.pods if stopped_early(pod)), None)


def _doubted(outcome: Outcome, observation: Observation) -> Outcome:
    pod = _taken_away(observation)
    if pod is not None:
        return msgspec.structs.replace(
            outcome,
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="EndedEarly",
            message=(
                f"pod {pod.metadata.name} was taken away and ended with 0; "
                "its own check says that the work is not done"
            ),
            result=None,
        )
    return msgspec.structs.replace(
        outcome,
        kind=OutcomeKind.APPLICATION,
        cause="NotDone",
        message="the program ended with 0, but its own check says that the work is not done",
        result=None,
    )


def _warned(outcome: Outcome, observation: Observation, says_done: bool | None) -> Outcome:
    """Say aloud that a pod was being taken away when it ended with 0, unless the check has cleared it."""
    pod = _taken_away(observation)
    if pod is None or says_done:
        return outcome
    warning = (
        f"pod {pod.metadata.name} ended with 0 while the cluster took it away ({stopped_early(pod)}); "
        "the work may not be complete"
    )
    return msgspec.structs.replace(
        outcome, ambiguous=True, warning="; ".join(filter(None, (outcome.warning, warning)))
    )
