"""What follows when a cluster does not take a job that was meant for it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.exceptions import (
    ClusterError,
    GpuPlacementError,
    RemoteJobLost,
    RemoteJobMisconfigured,
    RequestError,
)
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase
from airflow_gpu_placement.model.outcome import OutcomeKind
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt

if TYPE_CHECKING:
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.model.attempt import AttemptRecord

_MALFORMED = frozenset({400, 413, 422})
_PASSES = frozenset({401, 408, 429})
_QUOTA = re.compile(r"exceeded quota|quota.* exceeded", re.I)


async def refused(error: ClusterError, known: AttemptRecord, memory: TaskMemory) -> GpuPlacementError:
    """Remember that a create did not work, and withdraw what it may have left.

    A job that no API server would take fails the task. What this cluster does not allow (a namespace that
    does not exist, a missing right) rules its pool out for this task. What may pass counts as a loss:
    silence, credentials that have just expired, an exhausted quota.

    :return: the error to raise; it tells the retry policy whether another pool may help.
    """
    malformed = error.status in _MALFORMED
    set_up = not malformed and not _may_pass(error)
    ended = msgspec.structs.replace(
        known,
        phase=AttemptPhase.ENDED,
        outcome=OutcomeKind.CONFIGURATION if malformed or set_up else OutcomeKind.INFRASTRUCTURE,
        cause=_cause(error),
        exclude_pool=set_up,
        ended_at=datetime.now(UTC),
    )
    memory.write(remember(memory.read(), ended))
    grade = await withdraw_attempt(known, open_cluster=open_on_worker, timeout_seconds=LOOK_SECONDS)
    memory.write(remember(memory.read(), msgspec.structs.replace(ended, grade=grade)))
    if malformed:
        return RequestError(f"pool {known.pool}: the API server refuses the job: {error}")
    kind = RemoteJobMisconfigured if set_up else RemoteJobLost
    return kind(
        f"pool {known.pool} did not take the job: {error}",
        cause=ended.cause or "",
        pool=known.pool,
        retry_elsewhere=True,
    )


def _may_pass(error: ClusterError) -> bool:
    """Whether the same cluster may take the same job later."""
    status = error.status
    return status is None or status >= 500 or status in _PASSES or _is_quota(error)


def _is_quota(error: ClusterError) -> bool:
    return error.status == 403 and _QUOTA.search(str(error)) is not None


def _cause(error: ClusterError) -> str:
    if error.status is None:
        return "ClusterUnreachable"
    if error.status == 401:
        return "CredentialsRefused"
    return "QuotaExceeded" if _is_quota(error) else "CreateRefused"
