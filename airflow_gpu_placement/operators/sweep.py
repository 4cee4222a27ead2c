"""Before anything is placed: withdraw every earlier remote job of the logical task that may still run."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.exceptions import ClusterError, Unreachable
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.launch.manifest import label_value
from airflow_gpu_placement.model.attempt import (
    ATTEMPT_LABEL,
    LOGICAL_TASK_LABEL,
    AttemptPhase,
    AttemptRecord,
    TaskRecord,
)
from airflow_gpu_placement.model.outcome import EndGrade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.hooks.memory import TaskMemory
    from airflow_gpu_placement.launch.find import RemoteJob
    from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
    from airflow_gpu_placement.model.pool import GpuPool

log = logging.getLogger(__name__)

_SETTLED = frozenset({EndGrade.CONFIRMED, EndGrade.ASSERTED})
LOOK_SECONDS = 2.0
"""Time for one look at a remote job whose end cannot be waited for."""

_ANSWER_SECONDS = 10.0
"""A cluster that takes longer to tell its name is not waited for: the job is to run elsewhere."""

_AFTERWARDS_SECONDS = 5.0
_CLEAN_UP_SECONDS = 1.0
"""What a success may be late by."""


class Swept(NamedTuple):
    """What the sweep found.

    :param record: the memory, with what is now known of earlier launches.
    :param largest_fence: largest fence on any remote job that was seen.
    :param unproven: earlier launches of which no node has reported the end, those that only a cluster
        remembers among them.
    """

    record: TaskRecord
    largest_fence: int
    unproven: tuple[AttemptRecord, ...] = ()


class _Place(NamedTuple):
    """Somewhere that a remote job of this task may be."""

    kubernetes_conn_id: str
    context: str | None
    cluster_uid: str | None
    namespace: str


class _LeftAlone(NamedTuple):
    """Remote jobs that need no other look, by name and by uid; a name alone may be of one that came late."""

    names: frozenset[str]
    uids: frozenset[str]


async def sweep(
    record: TaskRecord,
    current: Attempt,
    *,
    pools: Mapping[str, GpuPool],
    open_cluster: OpenCluster,
    timeout_seconds: float,
) -> Swept:
    """Withdraw what earlier launches left behind, wherever memory says that they ran.

    A launch whose end could not be proven earlier was already waited for; it is only looked at again.

    :param current: the launch that comes now; its own remote job is left alone.
    :param timeout_seconds: how long to wait for the proof of one end.
    """
    largest_fence = 0
    forgotten: list[AttemptRecord] = []
    looked_at: set[str] = set()
    for known in record.attempts:
        if known.job_name == current.job_name or known.grade in _SETTLED:
            continue
        wait = LOOK_SECONDS if known.grade is EndGrade.UNKNOWN else timeout_seconds
        grade = await withdraw_attempt(
            known,
            pool=pools.get(known.pool),
            task=current.task,
            open_cluster=open_cluster,
            timeout_seconds=wait,
        )
        looked_at.add(known.job_name)
        record = remember(record, msgspec.structs.replace(known, phase=AttemptPhase.ENDED, grade=grade))
    left_alone = _LeftAlone(
        frozenset({current.job_name, *looked_at}),
        frozenset(known.job_uid for known in record.attempts if known.job_uid is not None),
    )
    for like in {_place_of(known): known for known in record.attempts}.values():
        fence, strangers = await _sweep_place(
            like, current, left_alone, open_cluster=open_cluster, timeout_seconds=timeout_seconds
        )
        largest_fence = max(largest_fence, fence)
        forgotten += strangers
    earlier = [known for known in record.attempts if known.job_name != current.job_name]
    unproven = tuple(one for one in (*earlier, *forgotten) if one.grade is not EndGrade.CONFIRMED)
    return Swept(record, largest_fence, unproven)


async def sweep_again(
    memory: TaskMemory, succeeded: AttemptRecord, task: LogicalTask, open_cluster: OpenCluster
) -> None:
    """After a success, try once more to withdraw earlier launches: their clusters may answer again.

    The success is late by a few seconds at most, and never fails for it.
    """
    record = memory.read()
    tries = {
        asyncio.create_task(
            withdraw_attempt(known, task=task, open_cluster=open_cluster, timeout_seconds=LOOK_SECONDS)
        ): known
        for known in record.attempts
        if not known.is_same_launch(succeeded) and known.grade not in _SETTLED
    }
    if not tries:
        return
    done, pending = await asyncio.wait(tries, timeout=_AFTERWARDS_SECONDS)
    for one in pending:
        one.cancel()
    if pending:
        await asyncio.wait(pending, timeout=_CLEAN_UP_SECONDS)
    for one in done:
        name = tries[one].job_name
        if (error := one.exception()) is not None:
            log.warning("Remote job %s may still run: %s", name, error, exc_info=error)
        elif one.result() in _SETTLED:
            ended = msgspec.structs.replace(tries[one], phase=AttemptPhase.ENDED, grade=one.result())
            record = remember(record, ended)
    memory.write(record)


async def withdraw_attempt(
    known: AttemptRecord,
    *,
    open_cluster: OpenCluster,
    timeout_seconds: float,
    pool: GpuPool | None = None,
    task: LogicalTask | None = None,
) -> EndGrade:
    """Ask for the end of one launch's remote job and tell how well the end is proven.

    A cluster that cannot be asked proves nothing: ``unknown``.

    :param pool: its pool as the catalogue has it now; ``None``: as it was at the launch.
    :param task: whose launch it is said to be; ``None``: the attempt is known to be our own.
    """
    from airflow_gpu_placement.launch.withdraw import withdraw

    try:
        client = await open_cluster(known.kubernetes_conn_id, known.context)
    except ClusterError as error:
        log.warning("Remote job %s in %s cannot be withdrawn: %s", known.job_name, known.pool, error)
        return EndGrade.UNKNOWN
    try:
        await _hear_of(client, known)
        grade = await withdraw(
            client,
            known.namespace,
            known.job_name,
            job_uid=known.job_uid,
            node_deletion_is_proof=(pool or known).loss.node_deletion_is_proof,
            timeout_seconds=timeout_seconds,
            boot_ids=known.lost_boots,
            labels=labels_of(known, task),
        )
    except ClusterError as error:
        log.warning("Remote job %s in %s may still run: %s", known.job_name, known.pool, error)
        return EndGrade.UNKNOWN
    finally:
        await client.close()
    log.info("Remote job %s in %s is withdrawn; its end is %s", known.job_name, known.pool, grade)
    return grade


def labels_of(known: AttemptRecord, task: LogicalTask | None = None) -> dict[str, str]:
    """Return labels by which the remote job of a launch is known."""
    attempt = {ATTEMPT_LABEL: label_value(known.attempt_id)}
    return attempt if task is None else attempt | {LOGICAL_TASK_LABEL: task.hash}


async def _hear_of(client: ClusterClient, known: AttemptRecord) -> None:
    """Make sure that the cluster answers, and that it is the one in which the launch was.

    :raises ClusterError: it does not, or it is another.
    """
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await client.check_uid(known.cluster_uid, known.kubernetes_conn_id)
            await client.uid()
    except TimeoutError as error:
        raise Unreachable(f"{client.server}: no answer within {_ANSWER_SECONDS:g} s") from error


async def _sweep_place(
    like: AttemptRecord,
    current: Attempt,
    left_alone: _LeftAlone,
    *,
    open_cluster: OpenCluster,
    timeout_seconds: float,
) -> tuple[int, list[AttemptRecord]]:
    """Withdraw what has this task's label and no record, unless another Airflow runs a task of that name.

    So goes a job too whose create call reached the cluster after all, later than the look that found nothing.

    :param like: a launch in the same cluster and namespace.
    :return: the largest fence seen, and what was withdrawn with its grade.
    """
    from airflow_gpu_placement.launch.find import find
    from airflow_gpu_placement.launch.withdraw import withdraw

    largest_fence = 0
    forgotten: list[AttemptRecord] = []
    try:
        client = await open_cluster(like.kubernetes_conn_id, like.context)
    except ClusterError:
        return 0, forgotten
    try:
        await _hear_of(client, like)
        for found in await find(client, like.namespace, current.task.hash):
            if found.installation not in {None, current.installation}:
                continue
            largest_fence = max(largest_fence, found.fence)
            if found.name in left_alone.names or found.uid in left_alone.uids:
                continue
            grade = await withdraw(
                client,
                like.namespace,
                found.name,
                job_uid=found.uid,
                node_deletion_is_proof=False,
                timeout_seconds=timeout_seconds,
            )
            log.info("Forgotten remote job %s is withdrawn; its end is %s", found.name, grade)
            forgotten.append(_forgotten(like, found, grade))
    except ClusterError as error:
        log.warning("Remote jobs of %s could not be looked for: %s", current.task, error)
    finally:
        await client.close()
    return largest_fence, forgotten


def _forgotten(like: AttemptRecord, found: RemoteJob, grade: EndGrade) -> AttemptRecord:
    """Say of a remote job without a record what can be said of it."""
    return AttemptRecord(
        attempt_id=found.attempt_id,
        try_number=0,
        fence=found.fence,
        pool=like.pool,
        kubernetes_conn_id=like.kubernetes_conn_id,
        context=like.context,
        cluster_uid=like.cluster_uid,
        namespace=like.namespace,
        job_name=found.name,
        job_uid=found.uid,
        phase=AttemptPhase.ENDED,
        grade=grade,
    )


def _place_of(known: AttemptRecord) -> _Place:
    return _Place(known.kubernetes_conn_id, known.context, known.cluster_uid, known.namespace)
