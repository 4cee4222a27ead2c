"""List what Airflow has launched into a namespace, whoever is still watching it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.engine.ranks import job_uid_of
from airflow_gpu_placement.engine.reaping import Remains
from airflow_gpu_placement.launch.find import pods_path
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.launch.manifest import JOB_NAME_LABEL, label_value
from airflow_gpu_placement.model.attempt import (
    ATTEMPT_LABEL,
    IDENTITY_ANNOTATION,
    INSTALLATION_LABEL,
    LOGICAL_TASK_LABEL,
    MANAGED_LABEL,
    POOL_LABEL,
    LogicalTask,
)
from airflow_gpu_placement.model.kube import Job, ObjectMeta, Pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.clusters.client import ClusterClient


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """A remote job that is found on a cluster.

    :param uid: of the Job, also when only its pods are left.
    :param exists: the Job object is there; ``False``: only pods of it are.
    :param orphaned: the Job is gone, and no garbage collector will remove what is left of it.
    :param task: whose it is; ``None``: it does not say so, or contradicts itself.
    :param fence: grows with each launch of its task.
    """

    namespace: str
    name: str
    uid: str
    pool: str
    exists: bool
    orphaned: bool
    task: LogicalTask | None
    fence: int
    remains: Remains


class _Identity(msgspec.Struct, frozen=True):
    dag_id: str
    run_id: str
    task_id: str
    attempt_id: str
    map_index: int = -1
    fence: int = 0


async def launched(client: ClusterClient, namespace: str, now: datetime) -> tuple[Launched, ...]:
    """Return every remote job with our label in a namespace, and what is left of those that are gone."""
    selector = {"labelSelector": f"{MANAGED_LABEL}=true"}
    jobs, _ = await client.list_all(jobs_path(namespace), Job, selector)
    pods, _ = await client.list_all(pods_path(namespace), Pod, selector)
    by_job: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        by_job[job_uid_of(pod)].append(pod)
    found = [_of_job(job, by_job.pop(job.metadata.uid, []), now) for job in jobs]
    found += [_of_pods(uid, left, now) for uid, left in by_job.items() if uid]
    return tuple(sorted(found, key=lambda one: one.name))


def _of_job(job: Job, pods: Iterable[Pod], now: datetime) -> Launched:
    over = any(one.type in {"Complete", "Failed"} and one.status == "True" for one in job.status.conditions)
    return _described(
        job.metadata,
        job.metadata.name,
        job.metadata.uid,
        now,
        exists=True,
        ended=over and not any(_may_run(pod) for pod in pods),
        leaving=job.metadata.deletion_timestamp is not None,
    )


def _of_pods(uid: str, pods: list[Pod], now: datetime) -> Launched:
    """Describe a job by its pods, which outlive it for a moment, on a silent node, or when set free."""
    running = [pod for pod in pods if not ended(pod)]
    metadata = pods[0].metadata
    return _described(
        metadata,
        metadata.labels.get(JOB_NAME_LABEL, metadata.name),
        uid,
        now,
        exists=False,
        orphaned=not metadata.owner_references,
        ended=not running,
        leaving=all(pod.metadata.deletion_timestamp is not None for pod in running),
    )


def _may_run(pod: Pod) -> bool:
    return not ended(pod) and pod.metadata.deletion_timestamp is None


def _described(
    metadata: ObjectMeta,
    name: str,
    uid: str,
    now: datetime,
    *,
    exists: bool,
    ended: bool,
    leaving: bool,
    orphaned: bool = False,
) -> Launched:
    identity = _identity_of(metadata)
    return Launched(
        namespace=metadata.namespace,
        name=name,
        uid=uid,
        pool=metadata.labels.get(POOL_LABEL, ""),
        exists=exists,
        orphaned=orphaned,
        task=None if identity is None else _task_of(identity),
        fence=0 if identity is None else identity.fence,
        remains=Remains(
            attempt_id=None if identity is None else identity.attempt_id,
            installation=metadata.labels.get(INSTALLATION_LABEL),
            age_seconds=_age_seconds(metadata, now),
            ended=ended,
            leaving=leaving,
        ),
    )


def _identity_of(metadata: ObjectMeta) -> _Identity | None:
    """Read the annotation; one that the labels contradict is none."""
    try:
        identity = msgspec.json.decode(metadata.annotations.get(IDENTITY_ANNOTATION, ""), type=_Identity)
    except msgspec.MsgspecError:
        return None
    labels = metadata.labels
    agrees = (
        labels.get(ATTEMPT_LABEL) == label_value(identity.attempt_id)
        and labels.get(LOGICAL_TASK_LABEL) == _task_of(identity).hash
    )
    return identity if agrees else None


def _task_of(identity: _Identity) -> LogicalTask:
    return LogicalTask(
        dag_id=identity.dag_id,
        run_id=identity.run_id,
        task_id=identity.task_id,
        map_index=identity.map_index,
    )


def _age_seconds(metadata: ObjectMeta, now: datetime) -> float:
    """Return the age by our clock; what does not say when it was made counts as new."""
    if metadata.creation_timestamp is None:
        return 0.0
    made = datetime.fromisoformat(metadata.creation_timestamp)
    return (now - made.astimezone(UTC)).total_seconds()
