"""Find remote jobs that no task of this Airflow waits for any more, and withdraw them.

A remote job can be left behind when a task is ended at a moment at which nobody can act: while no triggerer
runs, or while its cluster does not answer. The next try of a task withdraws what earlier ones left; the
reaper is for tasks that have no next try.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.engine.ranks import CONTROLLER_UID_LABEL
from airflow_gpu_placement.engine.reaping import Finding, Rules, TaskNow, Verdict, judge
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.attempt import LogicalTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.launch.reap_list import Launched
    from airflow_gpu_placement.model.pool import GpuPool

log = logging.getLogger(__name__)

LookUp = Callable[[Collection[LogicalTask]], Mapping[LogicalTask, TaskNow]]
"""Tells what Airflow knows now of each of these tasks."""

_AT_ONCE = 16
"""Withdrawals of one cluster that are waited for at the same time."""

_NO_TASK = TaskNow(run_exists=False)


class Place(NamedTuple):
    """Somewhere that remote jobs may be: one namespace, with what the catalogue says of its cluster."""

    kubernetes_conn_id: str
    context: str | None
    namespace: str
    cluster_uid: str | None


class Row(NamedTuple):
    """One remote job and what becomes of it.

    :param result: how well its end is proven, or why it was not withdrawn; empty: nothing was tried.
    :param failed: it was to be withdrawn, and that did not work.
    """

    place: Place
    job: Launched
    now: TaskNow
    verdict: Verdict
    finding: Finding
    result: str = ""
    failed: bool = False


class Reaped(NamedTuple):
    """All that was found.

    :param unread: place that could not be read -> why.
    """

    rows: tuple[Row, ...]
    unread: Mapping[Place, str]


class Limits(NamedTuple):
    """How long the clusters get.

    :param read_seconds: for telling what they hold, all together.
    :param end_seconds: for the proof that a withdrawn job has ended.
    """

    read_seconds: float
    end_seconds: float


async def reap(
    pools: Sequence[GpuPool],
    look_up: LookUp,
    rules: Rules,
    limits: Limits,
    *,
    delete: bool,
    open_cluster: OpenCluster,
) -> Reaped:
    """Judge every remote job on the clusters of these pools; withdraw those that nobody wants.

    :param look_up: is asked after the clusters, so that a job that is seen was known to Airflow by then.
    :param delete: ``False``: only tell.
    """
    found, unread = await _read(places_of(pools), limits.read_seconds, open_cluster)
    latest = _latest_fences(job for jobs in found.values() for job in jobs)
    tasks = {job.task for jobs in found.values() for job in jobs if job.task is not None}
    known = await asyncio.to_thread(look_up, tasks) if tasks else {}
    rows: dict[str, Row] = {}
    for place, jobs in found.items():
        for job in jobs:
            now = _NO_TASK if job.task is None else known.get(job.task, _NO_TASK)
            moved = job.fence < latest[job.remains.attempt_id]
            remains = msgspec.structs.replace(job.remains, moved=moved)
            # Two connections may lead to the same cluster.
            rows.setdefault(job.uid, Row(place, job, now, *judge(remains, now, rules)))
    if delete:
        rows |= await _withdraw_all(rows.values(), limits.end_seconds, open_cluster)
    return Reaped(tuple(rows.values()), unread)


def _latest_fences(jobs: Iterable[Launched]) -> Mapping[str | None, int]:
    """Return the largest fence that is seen of each attempt."""
    latest: dict[str | None, int] = {}
    for job in jobs:
        attempt_id = job.remains.attempt_id
        latest[attempt_id] = max(job.fence, latest.get(attempt_id, 0))
    return latest


def places_of(pools: Sequence[GpuPool]) -> tuple[Place, ...]:
    """Return every namespace of every cluster once, in the order of the catalogue.

    Pools that contradict each other about the cluster of a connection make a place each, so that the wrong
    one does not hide the other.
    """
    refs = [pool.cluster for pool in pools]
    places = dict.fromkeys(Place(ref.kubernetes_conn_id, ref.context, ref.namespace, ref.uid) for ref in refs)
    told = {place[:3] for place in places if place.cluster_uid is not None}
    return tuple(place for place in places if place.cluster_uid is not None or place[:3] not in told)


async def _read(
    places: Sequence[Place], seconds: float, open_cluster: OpenCluster
) -> tuple[dict[Place, tuple[Launched, ...]], dict[Place, str]]:
    """List every place at the same time; one that cannot be read takes nothing from the others."""
    answers = await asyncio.gather(
        *(_read_one(place, seconds, open_cluster) for place in places), return_exceptions=True
    )
    found: dict[Place, tuple[Launched, ...]] = {}
    unread: dict[Place, str] = {}
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, ClusterError):
            unread[place] = str(answer)
        elif isinstance(answer, TimeoutError):
            unread[place] = f"no answer within {seconds:g} s"
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[place] = answer
    return found, unread


async def _read_one(place: Place, seconds: float, open_cluster: OpenCluster) -> tuple[Launched, ...]:
    from airflow_gpu_placement.launch.reap_list import launched

    async with (
        asyncio.timeout(seconds),
        await open_cluster(place.kubernetes_conn_id, place.context) as client,
    ):
        await client.check_uid(place.cluster_uid, place.kubernetes_conn_id)
        return await launched(client, place.namespace, datetime.now(UTC))


async def _withdraw_all(rows: Iterable[Row], seconds: float, open_cluster: OpenCluster) -> dict[str, Row]:
    """Withdraw what is to go, every place at the same time; return its rows by the uid of the job."""
    by_place: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        if row.verdict is Verdict.REAP:
            by_place[row.place].append(row)
    done = await asyncio.gather(
        *(_withdraw_at(place, doomed, seconds, open_cluster) for place, doomed in by_place.items())
    )
    return {row.job.uid: row for some in done for row in some}


async def _withdraw_at(
    place: Place, rows: Sequence[Row], seconds: float, open_cluster: OpenCluster
) -> list[Row]:
    try:
        async with await open_cluster(place.kubernetes_conn_id, place.context) as client:
            await client.check_uid(place.cluster_uid, place.kubernetes_conn_id)
            turn = asyncio.Semaphore(_AT_ONCE)
            return list(await asyncio.gather(*(_withdraw(client, row, seconds, turn) for row in rows)))
    except ClusterError as error:
        return [row._replace(result=str(error), failed=True) for row in rows]


async def _withdraw(client: ClusterClient, row: Row, seconds: float, turn: asyncio.Semaphore) -> Row:
    from airflow_gpu_placement.launch.withdraw import withdraw

    if row.job.orphaned:
        return row._replace(result=_by_hand(row.job), failed=True)
    try:
        async with turn:
            grade = await withdraw(
                client,
                row.job.namespace,
                row.job.name,
                job_uid=row.job.uid,
                node_deletion_is_proof=False,
                timeout_seconds=seconds,
            )
    except ClusterError as error:
        return row._replace(result=str(error), failed=True)
    log.info("Remote job %s is withdrawn; its end is %s", row.job.name, grade)
    return row._replace(result=f"withdrawn, end {grade}")


def _by_hand(job: Launched) -> str:
    """Say what to do with pods that somebody set free from their Job; there is no right to delete pods."""
    return (
        f"its pods were set free from their job: kubectl delete pods -n {job.namespace} "
        f"-l {CONTROLLER_UID_LABEL}={job.uid}"
    )
