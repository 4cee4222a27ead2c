"""One launch: write the intent, create the remote job, remember it, and say what it is watched by."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.hooks.clusters import access_on_worker
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase
from airflow_gpu_placement.operators.refusal import refused

if TYPE_CHECKING:
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.launch.spec import LaunchSpec
    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
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
) -> AttemptRecord:
    """Create a remote job exactly once.

    :param known: what is known of the launch so far.
    :param record: everything that is remembered of the task, without this launch.
    :param cancelling: knows of the launch from right before its intent is written.
    :return: the record of the remote job that now exists.
    :raises GpuPlacementError: the cluster did not take the job.
    """
    from airflow_gpu_placement.launch.job import create

    access = await access_on_worker(known.kubernetes_conn_id, known.context)
    client = await access.open()
    try:
        await client.uid()  # known from here on, so that creating need not ask for it after the intent
        record = remember(record, known)
        cancelling.arm(known, access)
        memory.write(record)  # the intent: nothing may stand between this and the create
        created = await create(client, spec, expected_uid=known.cluster_uid)
    except ClusterError as error:
        raise await refused(error, known, memory) from error
    finally:
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
    return known


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
