"""Before the first launch: look for remote jobs of the logical task of which nothing is remembered.

A DAG run that was deleted and triggered again has no memory, and its old job may still run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.engine.disruptions import when
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord
from airflow_gpu_placement.model.outcome import EndGrade
from airflow_gpu_placement.operators.sweep import Swept, sweep

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.launch.find import RemoteJob
    from airflow_gpu_placement.model.attempt import Attempt, TaskRecord
    from airflow_gpu_placement.model.pool import GpuPool

log = logging.getLogger(__name__)

SEARCH_SECONDS = 3.0
"""What a cluster that does not answer may delay a first launch by."""


class Ours(NamedTuple):
    """What tells a job of this Airflow from one that another Airflow runs for a task and a run of that name.

    :param installation: the name of this Airflow; ``None``: it has none.
    :param run_began: when the DAG run did. Two Airflows with one schedule begin their runs together, so a job
        without a name that is younger may be the other's; an older one is of a run that was deleted.
    """

    installation: str | None
    run_began: datetime | None

    def has(self, found: RemoteJob) -> bool:
        """Whether a job is certainly ours."""
        if found.installation is not None:
            return found.installation == self.installation
        created_at = when(found.created_at)
        return created_at is not None and self.run_began is not None and created_at < self.run_began


async def settle_earlier(
    record: TaskRecord,
    current: Attempt,
    *,
    pools: Mapping[str, GpuPool],
    ours: Ours,
    open_cluster: OpenCluster,
    timeout_seconds: float,
) -> Swept:
    """Withdraw every other remote job of the task: the remembered ones, or where none is, what has its label.

    Those are looked for in all clusters at once; one that does not answer is left out.

    :param timeout_seconds: how long to wait for the proof of one end.
    """
    if record.attempts:
        return await sweep(
            record, current, pools=pools, open_cluster=open_cluster, timeout_seconds=timeout_seconds
        )
    places = {
        (pool.cluster.kubernetes_conn_id, pool.cluster.context, pool.cluster.namespace): pool
        for pool in pools.values()
    }
    found = await asyncio.gather(
        *(_search_one(pool, current, ours, open_cluster, timeout_seconds) for pool in places.values())
    )
    forgotten = [one for some in found for one in some]
    unproven = tuple(one for one in forgotten if one.grade is not EndGrade.CONFIRMED)
    return Swept(record, max((one.fence for one in forgotten), default=0), unproven)


async def _search_one(
    pool: GpuPool, current: Attempt, ours: Ours, open_cluster: OpenCluster, timeout_seconds: float
) -> list[AttemptRecord]:
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            client = await open_cluster(pool.cluster.kubernetes_conn_id, pool.cluster.context)
    except (ClusterError, TimeoutError) as error:
        return _not_searched(pool, current, error)
    try:
        return await _withdraw_all(client, pool, current, ours, timeout_seconds)
    except (ClusterError, TimeoutError) as error:
        return _not_searched(pool, current, error)
    finally:
        await client.close()


async def _withdraw_all(
    client: ClusterClient, pool: GpuPool, current: Attempt, ours: Ours, timeout_seconds: float
) -> list[AttemptRecord]:
    from airflow_gpu_placement.launch.find import find
    from airflow_gpu_placement.launch.withdraw import withdraw

    cluster = pool.cluster
    async with asyncio.timeout(SEARCH_SECONDS):
        await client.check_uid(cluster.uid, cluster.kubernetes_conn_id)
        cluster_uid = await client.uid()
        jobs = await find(client, cluster.namespace, current.task.hash)
    forgotten = []
    for found in jobs:
        if not ours.has(found):
            log.warning(
                "Remote job %s in pool %s has the name of this task and is left alone: it may be another "
                "Airflow's (option installation of section [gpu_placement] tells them apart)",
                found.name,
                pool.name,
            )
            continue
        grade = await withdraw(
            client,
            cluster.namespace,
            found.name,
            job_uid=found.uid,
            node_deletion_is_proof=pool.loss.node_deletion_is_proof,
            timeout_seconds=timeout_seconds,
        )
        log.info(
            "Remote job %s of which nothing is remembered is withdrawn; its end is %s", found.name, grade
        )
        forgotten.append(_record(found, pool, cluster_uid, grade))
    return forgotten


def _record(found: RemoteJob, pool: GpuPool, cluster_uid: str, grade: EndGrade) -> AttemptRecord:
    return AttemptRecord(
        attempt_id=found.attempt_id,
        try_number=0,
        fence=found.fence,
        pool=pool.name,
        kubernetes_conn_id=pool.cluster.kubernetes_conn_id,
        context=pool.cluster.context,
        cluster_uid=cluster_uid,
        namespace=pool.cluster.namespace,
        job_name=found.name,
        job_uid=found.uid,
        phase=AttemptPhase.ENDED,
        grade=grade,
    )


def _not_searched(pool: GpuPool, current: Attempt, error: Exception) -> list[AttemptRecord]:
    why = str(error) or f"no answer within {SEARCH_SECONDS:g} s"
    log.info("Earlier jobs of %s could not be looked for in pool %s: %s", current.task, pool.name, why)
    return []
