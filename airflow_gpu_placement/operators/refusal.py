"""What follows when a cluster does not take a job that was meant for it."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.clusters.errors import may_pass
from airflow_gpu_placement.exceptions import (
    ClusterError,
    GpuPlacementError,
    RemoteJobMisconfigured,
    RequestError,
)
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase, Refusal
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind
from airflow_gpu_placement.model.storable import storable_text
from airflow_gpu_placement.operators.steps import Refused
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt

if TYPE_CHECKING:
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord

log = logging.getLogger(__name__)

_MALFORMED = frozenset({400, 413, 422})
_PASSES = frozenset({401, 408, 429})
_QUOTA = re.compile(r"exceeded quota|quota.* exceeded|status unknown for quota", re.I)
_DENIED = re.compile(r"\bdenied (the )?request\b", re.I)
"""What admission webhooks and admission policies say, with whatever status their authors chose."""

_REASON_LENGTH = 500
_PAUSE_SECONDS = 1.0


async def refused(
    error: ClusterError,
    known: AttemptRecord,
    record: TaskRecord,
    memory: TaskMemory,
    *,
    timeout_seconds: float | None,
) -> GpuPlacementError | Refused:
    """Remember that a create did not work, and withdraw what it may have left.

    What may pass leaves the pool out for a while, and the job is placed again in the same try: silence,
    credentials that have just expired, an exhausted quota, a webhook that is down. What this cluster does not
    allow (a namespace that does not exist, a missing right, an admission policy) rules its pool out for this
    task. A job that no API server would take fails the task.

    :param record: everything that is remembered of the task.
    :param timeout_seconds: how long to wait until it is certain that a create without an answer left nothing;
        ``None``: it was not called yet, so it is certain.
    :return: what may pass, or the error to raise, which tells the retry policy whether another pool may help.
    """
    passes = _may_pass(error)
    malformed = not passes and error.status in _MALFORMED and not _DENIED.search(str(error))
    set_up = not passes and not malformed
    now = datetime.now(UTC)
    ended = msgspec.structs.replace(
        known,
        phase=AttemptPhase.ENDED,
        outcome=OutcomeKind.INFRASTRUCTURE if passes else OutcomeKind.CONFIGURATION,
        cause=_cause(error),
        exclude_pool=set_up,
        refusal=_refusal(error, known, record, now) if passes else None,
        ended_at=now,
    )
    record = remember(record, ended)
    memory.write(record)
    grade = EndGrade.CONFIRMED if timeout_seconds is None else await _withdrawn(known, timeout_seconds)
    ended = msgspec.structs.replace(ended, grade=grade)
    memory.write(_without_earlier(remember(record, ended), ended))
    text = f"pool {known.pool} did not take the job: {error}"
    if passes:
        log.warning("%s: %s", ended.cause, text)
        return Refused(ended, text)
    if malformed:
        return RequestError(f"pool {known.pool}: the API server refuses the job: {error}")
    return RemoteJobMisconfigured(text, cause=ended.cause or "", pool=known.pool, retry_elsewhere=True)


async def _withdrawn(known: AttemptRecord, timeout_seconds: float) -> EndGrade:
    """Withdraw what a create call may have left; a cluster that is silent now may answer in a moment."""
    loop = asyncio.get_running_loop()
    wait = max(timeout_seconds, LOOK_SECONDS)
    until = loop.time() + wait
    while True:
        grade = await withdraw_attempt(known, open_cluster=open_on_worker, timeout_seconds=wait)
        wait = until - loop.time() - _PAUSE_SECONDS
        if grade is not EndGrade.UNKNOWN or wait <= 0:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    if grade is EndGrade.UNKNOWN:
        log.warning("Whether %s exists in pool %s is not known", known.job_name, known.pool)
    return grade


def _refusal(error: ClusterError, known: AttemptRecord, record: TaskRecord, now: datetime) -> Refusal:
    here = [
        one
        for one in record.attempts
        if (one.pool, one.max_tries) == (known.pool, known.max_tries) and not one.is_same_launch(known)
    ]
    before = here[-1].refusal if here else None
    why = storable_text(str(error))[:_REASON_LENGTH]
    return Refusal(at=now, times=1 if before is None else before.times + 1, why=why)


def _without_earlier(record: TaskRecord, latest: AttemptRecord) -> TaskRecord:
    """Forget earlier launches of this try that the same pool refused: they left nothing, and waiting is long.

    What is remembered has room for so many launches only, and those that ran are worth more.
    """
    kept = tuple(
        one
        for one in record.attempts
        if one.refusal is None
        or one.grade is not EndGrade.CONFIRMED
        or (one.attempt_id, one.pool) != (latest.attempt_id, latest.pool)
        or one.is_same_launch(latest)
    )
    return msgspec.structs.replace(record, attempts=kept)


def _may_pass(error: ClusterError) -> bool:
    """Whether the same cluster may take the same job later."""
    status = error.status
    return status is None or may_pass(error) or status >= 500 or status in _PASSES or _is_quota(error)


def _is_quota(error: ClusterError) -> bool:
    text = str(error)
    may_be = error.status == 403 or _DENIED.search(text) is not None
    return may_be and _QUOTA.search(text) is not None


def _cause(error: ClusterError) -> str:
    if error.status is None:
        return "ClusterUnreachable"
    if error.status == 401:
        return "CredentialsRefused"
    return "QuotaExceeded" if _is_quota(error) else "CreateRefused"
