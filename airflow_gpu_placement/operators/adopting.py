"""A success that an earlier try could not report is this try's success: nothing is trained twice for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
    from airflow_gpu_placement.model.outcome import Outcome

log = logging.getLogger(__name__)


class Adopted(NamedTuple):
    """A launch of an earlier try, and its success."""

    known: AttemptRecord
    outcome: Outcome


async def unreported_success(
    record: TaskRecord, *, first_try: int, try_number: int, clear_number: int, open_cluster: OpenCluster
) -> Adopted | None:
    """Find a remote job that succeeded while Airflow lost the try that it ran for.

    That try may have lost its worker, or Airflow's scheduler took it for failed. A clear means that somebody
    wants the work done again, and so does a deleted task instance, whose tries count from 1 again.

    :param first_try: number of the first try since the task was last cleared. A clear that leaves the state
        of the DAG run alone shows there and nowhere else.
    :param try_number: of the try that begins.
    :param clear_number: how often the DAG run has been cleared.
    """
    from airflow_gpu_placement.launch.earned import success_of

    latest = record.attempts[-1] if record.attempts else None
    if latest is None or latest.outcome not in {None, OutcomeKind.SUCCEEDED}:
        return None
    if latest.clear_number != clear_number or not first_try <= latest.try_number < try_number:
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
