"""Ends that nobody could report in time.

A success of an earlier try is this try's success: nothing is trained twice for it. And a job that is found to
have ended when its time is over has ended all the same.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import TaskStateMemory, recall
from airflow_gpu_placement.model.attempt import AttemptPhase
from airflow_gpu_placement.model.outcome import Outcome, OutcomeKind
from airflow_gpu_placement.operators.launching import watch_arguments
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord

log = logging.getLogger(__name__)


class Adopted(NamedTuple):
    """A launch of an earlier try, and its success."""

    known: AttemptRecord
    outcome: Outcome


async def unreported_success(
    record: TaskRecord, *, try_number: int, max_tries: int, open_cluster: OpenCluster
) -> Adopted | None:
    """Find a remote job that succeeded while Airflow lost the try that it ran for.

    That try may have lost its worker, or Airflow's scheduler took it for failed. A clear means that somebody
    wants the work done again, and so does a deleted task instance, whose tries count from 1 again.

    :param try_number: of the try that begins.
    :param max_tries: Airflow's number of the task's last try but one. A clear of this very task raises it,
        and nothing else does: the count of the run's clears rises with every task's, and does not with a
        clear that leaves the state of the run alone.
    """
    from airflow_gpu_placement.launch.earned import success_of

    latest = record.attempts[-1] if record.attempts else None
    if latest is None or latest.outcome not in {None, OutcomeKind.SUCCEEDED}:
        return None
    if latest.max_tries != max_tries or latest.try_number >= try_number:
        return None
    try:
        client = await open_cluster(latest.kubernetes_conn_id, latest.context)
    except ClusterError as error:
        log.warning("Remote job %s in %s cannot be looked at: %s", latest.job_name, latest.pool, error)
        return None
    try:
        await client.check_uid(latest.cluster_uid, latest.kubernetes_conn_id)
        outcome = await success_of(client, latest)
    except ClusterError as error:
        log.warning("Remote job %s in %s cannot be looked at: %s", latest.job_name, latest.pool, error)
        return None
    finally:
        await client.close()
    if outcome is None:
        return None
    log.info("Remote job %s of try %d has succeeded meanwhile", latest.job_name, latest.try_number)
    return Adopted(latest, outcome)


def unreported_end(context: Context) -> Outcome | None:
    """Look once at the remote job of a try whose time ran out while no triggerer watched it.

    :return: ``None``: there is none that has ended by itself.
    """
    known = recall(TaskStateMemory(context["task_state_store"]).read(), str(context["ti"].id))
    if known is None or known.phase is not AttemptPhase.CREATED:
        return None
    trigger = RemoteJobTrigger(**watch_arguments(known, deadline=datetime.now(UTC)))
    event = asyncio.run(trigger.event(open_on_worker))
    return msgspec.convert(event["outcome"], Outcome) if event["kind"] == "ended" else None
