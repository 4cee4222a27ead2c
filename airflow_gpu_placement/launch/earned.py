"""A success that is there on the cluster, whoever was to report it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.ranks import CONTROLLER_UID_LABEL
from airflow_gpu_placement.engine.success import succeeded
from airflow_gpu_placement.exceptions import NotFound
from airflow_gpu_placement.launch.find import pods_path
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.model.attempt import ATTEMPT_LABEL
from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.outcome import Observation

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.outcome import Outcome


async def success_of(client: ClusterClient, known: AttemptRecord) -> Outcome | None:
    """Return the success of a launch with its result, if its job is there and has succeeded.

    :raises ClusterError: the cluster cannot be asked.
    """
    try:
        job = await client.get_as(jobs_path(known.namespace, known.job_name), Job)
    except NotFound:
        return None
    ours = job.metadata.labels.get(ATTEMPT_LABEL) == known.attempt_id
    if not ours or known.job_uid not in {None, job.metadata.uid}:
        return None
    selector = {"labelSelector": f"{CONTROLLER_UID_LABEL}={job.metadata.uid}"}
    pods, _ = await client.list_all(pods_path(known.namespace), Pod, selector)
    return succeeded(Observation(job=job, pods=tuple(pods)))
