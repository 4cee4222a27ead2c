"""What follows from the end of a remote job: remember it, withdraw what may still run, tell Airflow."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from airflow_gpu_placement.engine.next_step import Prospects, next_step
from airflow_gpu_placement.engine.start import START_TIMEOUT
from airflow_gpu_placement.exceptions import (
    RemoteJobCancelled,
    RemoteJobError,
    RemoteJobLost,
    RemoteJobMisconfigured,
    TrainingFailed,
)
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import MAX_MOVES, AttemptPhase
from airflow_gpu_placement.model.outcome import EndGrade, NextAction, NextStep, Outcome, OutcomeKind
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
    from airflow_gpu_placement.settings import Settings

log = logging.getLogger(__name__)

OUT_OF_TIME = "ExecutionTimeout"
"""Cause of an attempt that Airflow's ``execution_timeout`` ended."""

_MOST_WATCH_BREAKS = 3
_FIRST_PAUSE_SECONDS = 15.0
_LASTED = timedelta(hours=1)
"""A watch that has lasted longer was a good one; in a training of weeks some may break."""


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
    # Whoever cleared this task since may have mended what was wrong elsewhere.
    earlier = tuple(
        one
        for one in memory.read().attempts
        if not one.is_same_launch(known) and one.max_tries == known.max_tries
    )
    tries_left = max(max_tries + 1 - try_number, 0)
    prospects = Prospects(
        pool=known.pool,
        kubernetes_conn_id=known.kubernetes_conn_id,
        spot=known.spot,
        earlier=earlier,
    )
    step = next_step(outcome, tries_left=tries_left, prospects=prospects)
    # A job that has not started may have no pod that could run, and still bring one forth.
    proven = outcome.grade is EndGrade.CONFIRMED and outcome.cause != START_TIMEOUT
    ended = _ended(outcome, known, memory, step, outcome.grade if proven else None)
    if outcome.warning:
        log.warning("%s", outcome.warning)
    if outcome.kind is OutcomeKind.SUCCEEDED:
        log.info("Remote job %s in pool %s succeeded", known.job_name, known.pool)
        if not proven:
            # A container beside the training runs on, and its pod would hold the GPUs for ever.
            log.info("%s", outcome.message)
            await _make_sure(ended, memory, settings.fence_timeout_seconds)
        return
    if not proven:
        silent = outcome.cause in _SILENT
        await _make_sure(ended, memory, LOOK_SECONDS if silent else settings.fence_timeout_seconds)
    log.info("%s in pool %s: %s (%s)", outcome.cause, known.pool, step.action, step.reason)
    closing = _closing(memory.read(), step) if step.action is NextAction.FAIL else ""
    raise _ERRORS.get(outcome.kind, RemoteJobError)(
        f"{outcome.message} [{known.job_name} in pool {known.pool}]{closing}",
        cause=outcome.cause,
        pool=known.pool,
        retry_elsewhere=step.rerun,
        delay_seconds=step.delay_seconds,
    )


def _closing(record: TaskRecord, step: NextStep) -> str:
    """Say why no other try follows, and how every remote job of the task ended."""
    ends = Counter(one.outcome.value for one in record.attempts if one.outcome is not None)
    counted = ", ".join(f"{count} {kind}" for kind, count in ends.items())
    return f"\nNot tried again: {step.reason}. Remote jobs of this task by their end: {counted}"


def may_move(outcome: Outcome, known: AttemptRecord, record: TaskRecord) -> bool:
    """Whether a job is placed again within the same try: it has not started, and has not moved too often."""
    return outcome.cause == START_TIMEOUT and outcome.never_started and _missed(known, record) < MAX_MOVES


def _missed(known: AttemptRecord, record: TaskRecord) -> int:
    """Count the earlier launches of a try that did not start in time; ones that were refused do not count."""
    return sum(
        one.cause == START_TIMEOUT and one.attempt_id == known.attempt_id and not one.is_same_launch(known)
        for one in record.attempts
    )


async def leave(outcome: Outcome, known: AttemptRecord, memory: TaskMemory, settings: Settings) -> None:
    """Withdraw a job that has not started in time, so that it can be placed again in the same try."""
    ended = _ended(outcome, known, memory)
    await _make_sure(ended, memory, settings.fence_timeout_seconds)
    log.warning(
        "%s: %s [%s in pool %s]; it is placed again in this try (move %d of %d)",
        outcome.cause,
        outcome.message,
        known.job_name,
        known.pool,
        _missed(known, memory.read()) + 1,
        MAX_MOVES,
    )


async def run_out_of_time(known: AttemptRecord, memory: TaskMemory, settings: Settings) -> EndGrade:
    """Withdraw the remote job of a task whose ``execution_timeout`` is over."""
    outcome = Outcome(kind=OutcomeKind.CANCELLED, cause=OUT_OF_TIME)
    ended = _ended(outcome, known, memory)
    return await _make_sure(ended, memory, settings.fence_timeout_seconds)


def note_proof(memory: TaskMemory, event: Mapping[str, Any]) -> None:
    """Write down that the end of a launch is confirmed, if an event says so."""
    if event.get("kind") != "proof":
        return
    record = memory.read()
    for known in record.attempts:
        if known.job_name == event["job_name"]:
            proven = msgspec.structs.replace(known, grade=EndGrade(event["grade"]))
            memory.write(remember(record, proven))


class WatchAgain(NamedTuple):
    """How a broken watch goes on.

    :param outcome: what the job is taken for, now that it broke too often; ``None``: it is watched again.
    """

    record: AttemptRecord
    pause_seconds: float
    outcome: Outcome | None = None


def watch_again(known: AttemptRecord, memory: TaskMemory, why: str) -> WatchAgain:
    """Count a watch that broke; the job itself may be healthy, so it is not given up for that at once.

    :param why: what went wrong.
    """
    now, before = datetime.now(UTC), known.watch_broke_at
    breaks = 1 if before is not None and now - before > _LASTED else known.watch_breaks + 1
    if breaks > _MOST_WATCH_BREAKS:
        message = f"the watch of the remote job broke {breaks} times, last: {why}"
        outcome = Outcome(
            kind=OutcomeKind.INFRASTRUCTURE, cause="WatchBroke", message=message, grade=EndGrade.UNKNOWN
        )
        return WatchAgain(known, 0.0, outcome)
    known = msgspec.structs.replace(known, watch_breaks=breaks, watch_broke_at=now)
    memory.write(remember(memory.read(), known))
    pause = _FIRST_PAUSE_SECONDS * 2.0 ** (breaks - 1)
    log.warning(
        "The watch of %s broke (%s); it is watched again in %g s (%d of %d)",
        known.job_name,
        why,
        pause,
        breaks,
        _MOST_WATCH_BREAKS,
    )
    return WatchAgain(known, pause)


def _ended(
    outcome: Outcome,
    known: AttemptRecord,
    memory: TaskMemory,
    step: NextStep | None = None,
    grade: EndGrade | None = None,
) -> AttemptRecord:
    """Write down that a launch has ended, and what follows from it for the next ones.

    :param grade: ``None``: it is still to be withdrawn, by the next try if this one dies before.
    """
    nodes = () if step is None else step.avoid_nodes
    ended = msgspec.structs.replace(
        known,
        phase=AttemptPhase.ENDED,
        outcome=outcome.kind,
        cause=outcome.cause,
        lost_nodes=nodes,
        lost_boots={node: boot for node, boot in outcome.boot_ids.items() if node in nodes},
        exclude_pool=step is not None and step.exclude_pool,
        leave_spot=step is not None and step.leave_spot,
        exclude_architecture=None if step is None else step.exclude_architecture,
        grade=grade,
        ended_at=datetime.now(UTC),
    )
    memory.write(remember(memory.read(), ended))
    return ended


async def _make_sure(ended: AttemptRecord, memory: TaskMemory, timeout_seconds: float) -> EndGrade:
    """Withdraw a remote job and write down how well its end is proven."""
    grade = await withdraw_attempt(ended, open_cluster=open_on_worker, timeout_seconds=timeout_seconds)
    memory.write(remember(memory.read(), msgspec.structs.replace(ended, grade=grade)))
    if grade is EndGrade.UNKNOWN:
        log.warning(
            "The end of %s is not proven; whatever it still writes stays in its own checkpoint folder",
            ended.job_name,
        )
    return grade
