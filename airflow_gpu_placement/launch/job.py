"""Create the remote job of an attempt exactly once, whatever the network does in between."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from airflow_gpu_placement.clusters.errors import may_pass, pause_seconds
from airflow_gpu_placement.exceptions import ClusterError, Conflict
from airflow_gpu_placement.launch.manifest import label_value, manifest, owned_by
from airflow_gpu_placement.model.attempt import ATTEMPT_LABEL
from airflow_gpu_placement.model.kube import Job

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.launch.spec import LaunchSpec

logger = logging.getLogger(__name__)

_TRIES = 4
_PAUSE_SECONDS = 1.0


class CreatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The remote job that now exists for the attempt.

    :param adopted: it was there already, made by an earlier call for the same attempt.
    """

    uid: str
    adopted: bool


def jobs_path(namespace: str, name: str | None = None) -> str:
    """Return the API path of a namespace's Jobs, or of one of them."""
    path = f"/apis/batch/v1/namespaces/{quote(namespace)}/jobs"
    return f"{path}/{quote(name)}" if name else path


async def create(client: ClusterClient, spec: LaunchSpec, *, expected_uid: str | None) -> CreatedJob:
    """Create the Job, and the Service of a job with several nodes; done twice it changes nothing.

    The Service is made after the Job and owned by it, so a crash in between leaves nothing that nobody
    deletes; the pods look for the name until it is there.

    :param expected_uid: cluster that the decision was made for; ``None``: the pool's own, if it says so.
    :raises WrongCluster: another cluster answers; nothing was written.
    :raises Conflict: the name is taken by another attempt.
    :raises Unreachable: it is not known whether the job exists.
    """
    ref = spec.pool.cluster
    await client.check_uid(expected_uid or ref.uid, ref.kubernetes_conn_id)
    job, service = manifest(spec)
    created, adopted = await _create_job(client, spec, job)
    if service is not None:
        owned = owned_by(service, job_name=created.metadata.name, job_uid=created.metadata.uid)
        await _create_service(client, ref.namespace, owned)
    return CreatedJob(uid=created.metadata.uid, adopted=adopted)


async def _create_job(client: ClusterClient, spec: LaunchSpec, body: Mapping[str, Any]) -> tuple[Job, bool]:
    """POST until the outcome is known; the name is the attempt's own, so no POST can make a second job."""
    for left in reversed(range(_TRIES)):
        try:
            answer = await client.create(jobs_path(spec.pool.cluster.namespace), body)
        except ClusterError as error:
            if isinstance(error, Conflict) and not may_pass(error):
                return await _adopt(client, spec), True
            if not left or not may_pass(error):
                raise
            logger.warning("creating job %s: %s; trying again", spec.attempt.job_name, error)
            await asyncio.sleep(pause_seconds(error, _PAUSE_SECONDS))
        else:
            return msgspec.json.decode(answer, type=Job), False
    raise AssertionError("unreachable: the last try returns or raises")


async def _adopt(client: ClusterClient, spec: LaunchSpec) -> Job:
    """Return the job that has the name if it is this attempt's."""
    name, namespace = spec.attempt.job_name, spec.pool.cluster.namespace
    found = await client.get_as(jobs_path(namespace, name), Job)
    owner = found.metadata.labels.get(ATTEMPT_LABEL)
    if owner != label_value(spec.attempt.attempt_id):
        raise Conflict(
            f"job {namespace}/{name} on {client.server} belongs to attempt {owner or '(without our label)'}, "
            f"not to {spec.attempt.attempt_id}; it was left alone: delete it or use another namespace",
            status=409,
        )
    return found


async def _create_service(client: ClusterClient, namespace: str, body: Mapping[str, Any]) -> None:
    path = f"/api/v1/namespaces/{quote(namespace)}/services"
    for left in reversed(range(_TRIES)):
        try:
            await client.create(path, body)
        except ClusterError as error:
            if isinstance(error, Conflict) and not may_pass(error):
                return  # an earlier call for the same attempt made it
            if not left or not may_pass(error):
                raise
            await asyncio.sleep(pause_seconds(error, _PAUSE_SECONDS))
        else:
            return
