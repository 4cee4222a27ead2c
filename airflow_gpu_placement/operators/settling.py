"""What follows from the end of a remote job: remember it, withdraw what may still run, tell Airflow."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.next_step import Prospects, next_step
from airflow_gpu_placement.exceptions import (
    RemoteJobCancelled,
    RemoteJobError,
    RemoteJobLost,
    RemoteJobMisconfigured,
    TrainingFailed,
)
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase
from airflow_gpu_placement.model.outcome import EndGrade, NextAction, OutcomeKind
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt

if TYPE_CHECKING:
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.outcome import Outcome
    from airflow_gpu_placement.settings import Settings

log = logging.getLogger(__name__)

_ERRORS: dict[OutcomeKind, type[RemoteJobError]] = {
    OutcomeKind.INFRASTRUCTURE: RemoteJobLost,
    OutcomeKind.APPLICATION: TrainingFailed,
    OutcomeKind.CONFIGURATION: RemoteJobMisconfigured,
    OutcomeKind.CANCELLED: RemoteJobCancelled,
}

_SILENT = frozenset({"NodeLost", "NodeGone", "ClusterSilent", "ClusterUnreachable"})
"""Causes after which no proof of the end can be had now; the silence itself was waited for already."""


async def settle(
    outcome: Outcome,
    known: AttemptRecord,
    memory: TaskMemory,
    *,
    settings: Settings,
    try_number: int,
    max_tries: int,
) -> None:
    """Write down how an attempt ended, make sure that it has ended, and raise unless it succeeded.

    What was learnt is written before anything slow is tried, so that a crash in between loses nothing.

    :raises RemoteJobError: of the type that the retry policy understands.
    """
    earlier = tuple(one for one in memory.read().attempts if one.attempt_id != known.attempt_id)
    tries_left = max(max_tries + 1 - try_number, 0)
    step = next_step(outcome, tries_left=tries_left, prospects=Prospects(pool=known.pool, earlier=earlier))
    ended = msgspec.structs.replace(
        known,
        phase=AttemptPhase.ENDED,
        outcome=outcome.kind,
        cause=outcome.cause,
        lost_nodes=step.avoid_nodes,
        exclude_pool=step.exclude_pool,
        exclude_architecture=step.exclude_architecture,
        grade=outcome.grade,
        ended_at=datetime.now(UTC),
    )
    memory.write(remember(memory.read(), ended))
    if outcome.warning:
        log.warning("%s", outcome.warning)
    if outcome.kind is OutcomeKind.SUCCEEDED:
        log.info("Remote job %s in pool %s succeeded", known.job_name, known.pool)
        return
    if outcome.grade is not EndGrade.CONFIRMED:
        wait = LOOK_SECONDS if outcome.cause in _SILENT else settings.fence_timeout_seconds
        grade = await withdraw_attempt(known, pool=None, open_cluster=open_on_worker, timeout_seconds=wait)
        ended = msgspec.structs.replace(ended, grade=grade)
        memory.write(remember(memory.read(), ended))
        if grade is EndGrade.UNKNOWN:
            log.warning(
                "The end of %s is not proven; whatever it still writes stays in its own checkpoint folder",
                known.job_name,
            )
    log.info("%s in pool %s: %s (%s)", outcome.cause, known.pool, step.action, step.reason)
    raise _ERRORS.get(outcome.kind, RemoteJobError)(
        f"{outcome.message} [{known.job_name} in pool {known.pool}]",
        cause=outcome.cause,
        pool=known.pool,
        retry_elsewhere=step.action is NextAction.RETRY_ELSEWHERE,
        delay_seconds=step.delay_seconds,
    )


def result_of(outcome: Outcome) -> Any:
    """Return the termination message as JSON when it is JSON, else as text; ``None`` when there is none."""
    if not outcome.result:
        return None
    try:
        return json.loads(outcome.result)
    except ValueError:
        return outcome.result
