"""One launch: write the intent, create the remote job, remember it, and say what it is watched by."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.bought import may_be_taken_away
from airflow_gpu_placement.exceptions import ClusterError, GpuPlacementError
from airflow_gpu_placement.hooks.clusters import access_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord
from airflow_gpu_placement.operators.refusal import refused
from airflow_gpu_placement.operators.resuming import gpu_model_of
from airflow_gpu_placement.operators.steps import Launched, Refused

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.launch.spec import LaunchSpec
    from airflow_gpu_placement.model.attempt import Attempt, TaskRecord
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.operators.cancelling import Cancelling

log = logging.getLogger(__name__)

_MARGIN = timedelta(minutes=5)
"""The cluster ends a job this long after Airflow should have: only when Airflow could not."""


async def launch(
    spec: LaunchSpec,
    known: AttemptRecord,
    record: TaskRecord,
    memory: TaskMemory,
    *,
    cancelling: Cancelling,
    fence_timeout_seconds: float,
) -> Launched | Refused:
    """Create a remote job exactly once.

    :param known: what is known of the launch so far.
    :param record: everything that is remembered of the task, without this launch.
    :param cancelling: knows of the launch from right before its intent is written.
    :param fence_timeout_seconds: how long to wait for certainty after a create without an answer.
    :return: the remote job that now exists, or that this pool does not take it for now.
    :raises GpuPlacementError: the cluster does not take the job.
    """
    from airflow_gpu_placement.launch.job import create

    client: ClusterClient | None = None
    asked = False
    try:
        access = await access_on_worker(known.kubernetes_conn_id, known.context)
        client = await access.open()
        await client.uid()  # known from here on, so that creating need not ask for it after the intent
        record = remember(record, known)
        cancelling.arm(known, access)
        asked = True
        memory.write(record)  # the intent: nothing may stand between this and the create
        created = await create(client, spec, expected_uid=known.cluster_uid)
    except ClusterError as error:
        # What was never asked for left nothing, so that there is nothing to wait for.
        seconds = fence_timeout_seconds if asked else None
        step = await refused(error, known, record, memory, timeout_seconds=seconds)
        if isinstance(step, GpuPlacementError):
            raise step from error
        return step
    finally:
        if client is not None:
            await client.close()
    known = msgspec.structs.replace(known, phase=AttemptPhase.CREATED, job_uid=created.uid)
    cancelling.arm(known, access)
    memory.write(remember(record, known))
    log.info(
        "%s remote job %s in pool %s (try %d%s, fence %d)",
        "Found again the" if created.adopted else "Created",
        known.job_name,
        known.pool,
        known.try_number,
        f", move {known.move}" if known.move else "",
        known.fence,
    )
    return Launched(known)


def record_of(
    attempt: Attempt, decision: Decision, pool: GpuPool, *, gpus: int, max_tries: int, clear_number: int
) -> AttemptRecord:
    """Say what is known of a launch before it is made."""
    return AttemptRecord(
        attempt_id=attempt.attempt_id,
        try_number=attempt.try_number,
        clear_number=clear_number,
        max_tries=max_tries,
        fence=attempt.fence,
        move=attempt.move,
        pool=pool.name,
        region=pool.place.region,
        kubernetes_conn_id=pool.cluster.kubernetes_conn_id,
        context=pool.cluster.context,
        cluster_uid=decision.snapshot.pools[pool.name].cluster_uid,
        namespace=pool.cluster.namespace,
        job_name=attempt.job_name,
        started_at=datetime.now(UTC),
        gpus=gpus,
        gpu_model=gpu_model_of(decision, pool),
        loss=pool.watch_policy,
        spot=may_be_taken_away(decision, pool),
    )


def active_deadline_seconds(deadline: datetime | None) -> int | None:
    """Return after how many seconds the cluster ends the job by itself.

    :param deadline: when Airflow's ``execution_timeout`` is over; ``None``: there is none.
    """
    if deadline is None:
        return None
    left = deadline - datetime.now(UTC) + _MARGIN
    return max(math.ceil(left.total_seconds()), 1)


def watch_arguments(
    known: AttemptRecord, deadline: datetime | None, pause_seconds: float = 0.0
) -> dict[str, Any]:
    """Name what the watcher needs; no secret is among it, since triggers are stored as plain text.

    :param pause_seconds: rest before the watch begins, after one that broke.
    """
    return {
        "kubernetes_conn_id": known.kubernetes_conn_id,
        "context": known.context,
        "cluster_uid": known.cluster_uid,
        "namespace": known.namespace,
        "job_name": known.job_name,
        "job_uid": known.job_uid,
        "deadline": None if deadline is None else deadline.isoformat(),
        "pause_seconds": pause_seconds,
        **msgspec.to_builtins(known.loss),
    }
