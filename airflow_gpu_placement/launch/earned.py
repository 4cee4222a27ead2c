"""An end that is there on the cluster, whoever was to report it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.job_evidence import condition_of, out_of_time
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
    return await _success(client, known.namespace, job)


async def _success(client: ClusterClient, namespace: str, job: Job) -> Outcome | None:
    selector = {"labelSelector": f"{CONTROLLER_UID_LABEL}={job.metadata.uid}"}
    pods, _ = await client.list_all(pods_path(namespace), Pod, selector)
    return succeeded(Observation(job=job, pods=tuple(pods)))


async def has_ended(client: ClusterClient, namespace: str, job_name: str, job_uid: str) -> bool:
    """Whether a job is there and has ended by itself, which its own time limit is not.

    One has ended too whose training is done and whose pods live on for something beside it.

    :raises ClusterError: the cluster cannot be asked.
    """
    try:
        job = await client.get_as(jobs_path(namespace, job_name), Job)
    except NotFound:
        return False
    if out_of_time(job) or job.metadata.uid != job_uid:
        return False
    return (
        condition_of(job, "Complete", "Failed") is not None
        or await _success(client, namespace, job) is not None
    )
