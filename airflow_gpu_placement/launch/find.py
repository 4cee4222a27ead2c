"""Find the remote jobs of a logical task by their labels, whatever our own memory says."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from airflow_gpu_placement.engine.ranks import job_uid_of
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.launch.manifest import JOB_NAME_LABEL
from airflow_gpu_placement.model.attempt import (
    ATTEMPT_LABEL,
    FENCE_LABEL,
    INSTALLATION_LABEL,
    LOGICAL_TASK_LABEL,
)
from airflow_gpu_placement.model.kube import Job, ObjectMeta, Pod

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient


class RemoteJob(msgspec.Struct, frozen=True, kw_only=True):
    """A remote job that left something on a cluster.

    :param uid: of the Job, also when only its pods are left.
    :param exists: the Job object is there; ``False``: only pods of it are.
    :param created_at: when it was created; of a Job that is gone, when its pod was.
    :param installation: name of the Airflow that launched it; ``None``: it has none.
    """

    namespace: str
    name: str
    uid: str
    attempt_id: str
    fence: int
    exists: bool = True
    created_at: str | None = None
    installation: str | None = None


async def find(client: ClusterClient, namespace: str, logical_hash: str) -> tuple[RemoteJob, ...]:
    """Return every remote job of a logical task in a namespace, oldest fence first.

    Pods whose Job is gone count too: a Job deleted in the background goes at once, its pods on a silent node
    stay.
    """
    selector = {"labelSelector": f"{LOGICAL_TASK_LABEL}={logical_hash}"}
    jobs, _ = await client.list_all(jobs_path(namespace), Job, selector)
    pods, _ = await client.list_all(pods_path(namespace), Pod, selector)
    found = {job.metadata.uid: _remote(job.metadata, job.metadata.name, job.metadata.uid) for job in jobs}
    for pod in pods:
        uid = job_uid_of(pod)
        if uid and uid not in found:
            name = pod.metadata.labels.get(JOB_NAME_LABEL, "")
            found[uid] = _remote(pod.metadata, name, uid, exists=False)
    return tuple(sorted(found.values(), key=lambda one: (one.fence, one.name)))


def pods_path(namespace: str) -> str:
    """Return the API path of a namespace's pods."""
    return f"/api/v1/namespaces/{quote(namespace)}/pods"


def _remote(metadata: ObjectMeta, name: str, uid: str, *, exists: bool = True) -> RemoteJob:
    fence = metadata.labels.get(FENCE_LABEL, "")
    return RemoteJob(
        namespace=metadata.namespace,
        name=name,
        uid=uid,
        attempt_id=metadata.labels.get(ATTEMPT_LABEL, ""),
        fence=int(fence) if fence.isdecimal() else 0,
        exists=exists,
        created_at=metadata.creation_timestamp,
        installation=metadata.labels.get(INSTALLATION_LABEL),
    )
