"""Before anything is placed: withdraw every earlier remote job of the logical task that may still run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.exceptions import ClusterError, WrongCluster
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.attempt import LogicalTask
    from airflow_gpu_placement.model.pool import GpuPool

log = logging.getLogger(__name__)

_SETTLED = frozenset({EndGrade.CONFIRMED, EndGrade.ASSERTED})
LOOK_SECONDS = 2.0
"""Time for one look at a remote job whose end cannot be waited for."""


class Swept(NamedTuple):
    """What the sweep found.

    :param record: the memory, with what is now known of earlier attempts.
    :param largest_fence: largest fence on any remote job that was seen.
    """

    record: TaskRecord
    largest_fence: int


class _Place(NamedTuple):
    """Somewhere that a remote job of this task may be."""

    kubernetes_conn_id: str
    context: str | None
    namespace: str


async def sweep(
    record: TaskRecord,
    task: LogicalTask,
    attempt_id: str,
    *,
    pools: Mapping[str, GpuPool],
    open_cluster: OpenCluster,
    timeout_seconds: float,
) -> Swept:
    """Withdraw what earlier attempts left behind, wherever memory says that they ran.

    An attempt whose end could not be proven earlier was already waited for; it is only looked at again.

    :param attempt_id: the attempt that runs now; its own remote job is left alone.
    :param timeout_seconds: how long to wait for the proof of one end.
    """
    largest_fence = 0
    open_ends = [known for known in record.attempts if known.attempt_id != attempt_id and _may_run(known)]
    for known in open_ends:
        wait = LOOK_SECONDS if known.phase is AttemptPhase.ENDED else timeout_seconds
        grade = await withdraw_attempt(
            known, pool=pools.get(known.pool), open_cluster=open_cluster, timeout_seconds=wait
        )
        record = remember(record, msgspec.structs.replace(known, phase=AttemptPhase.ENDED, grade=grade))
    for place in {_place_of(known) for known in record.attempts}:
        remembered = frozenset(known.job_name for known in record.attempts)
        fence = await _sweep_place(
            place, task, attempt_id, remembered, open_cluster=open_cluster, timeout_seconds=timeout_seconds
        )
        largest_fence = max(largest_fence, fence)
    return Swept(record, largest_fence)


async def withdraw_attempt(
    known: AttemptRecord, *, pool: GpuPool | None, open_cluster: OpenCluster, timeout_seconds: float
) -> EndGrade:
    """Ask for the end of one attempt's remote job and tell how well the end is proven.

    A cluster that cannot be asked proves nothing: ``unknown``.
    """
    from airflow_gpu_placement.launch.withdraw import withdraw

    try:
        client = await open_cluster(known.kubernetes_conn_id, known.context)
    except ClusterError as error:
        log.warning("Remote job %s in %s cannot be withdrawn: %s", known.job_name, known.pool, error)
        return EndGrade.UNKNOWN
    try:
        await _check_cluster(client, known)
        grade = await withdraw(
            client,
            known.namespace,
            known.job_name,
            job_uid=known.job_uid,
            node_deletion_is_proof=bool(pool and pool.loss.node_deletion_is_proof),
            timeout_seconds=timeout_seconds,
        )
    except ClusterError as error:
        log.warning("Remote job %s in %s may still run: %s", known.job_name, known.pool, error)
        return EndGrade.UNKNOWN
    finally:
        await client.close()
    log.info("Earlier remote job %s in %s is withdrawn; its end is %s", known.job_name, known.pool, grade)
    return grade


async def _check_cluster(client: ClusterClient, known: AttemptRecord) -> None:
    """Refuse to delete anything in another cluster than the one that the attempt ran in."""
    actual = await client.uid()
    if known.cluster_uid is not None and actual != known.cluster_uid:
        raise WrongCluster(
            f"connection {known.kubernetes_conn_id!r} now leads to cluster {actual}, "
            f"not to {known.cluster_uid}"
        )


async def _sweep_place(
    place: _Place,
    task: LogicalTask,
    attempt_id: str,
    remembered: frozenset[str],
    *,
    open_cluster: OpenCluster,
    timeout_seconds: float,
) -> int:
    """Withdraw what has this task's label and is not remembered; return the largest fence seen."""
    from airflow_gpu_placement.launch.withdraw import find, withdraw

    largest_fence = 0
    try:
        client = await open_cluster(place.kubernetes_conn_id, place.context)
    except ClusterError:
        return 0
    try:
        for found in await find(client, place.namespace, task.hash):
            largest_fence = max(largest_fence, found.fence)
            if found.attempt_id == attempt_id or found.name in remembered:
                continue
            grade = await withdraw(
                client,
                place.namespace,
                found.name,
                job_uid=found.uid,
                node_deletion_is_proof=False,
                timeout_seconds=timeout_seconds,
            )
            log.info("Forgotten remote job %s is withdrawn; its end is %s", found.name, grade)
    except ClusterError as error:
        log.warning("Remote jobs of %s could not be looked for: %s", task, error)
    finally:
        await client.close()
    return largest_fence


def _may_run(known: AttemptRecord) -> bool:
    return known.grade not in _SETTLED


def _place_of(known: AttemptRecord) -> _Place:
    return _Place(known.kubernetes_conn_id, known.context, known.namespace)
