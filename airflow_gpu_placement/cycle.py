"""The one door of a decision: read the signals, then decide on what was read and on nothing else."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from airflow_gpu_placement.catalog.setting import routed
from airflow_gpu_placement.engine.gpu_devices import with_resource
from airflow_gpu_placement.engine.located import located
from airflow_gpu_placement.engine.own_models import recognise_all
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.signals.collect import collect

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from airflow_gpu_placement.catalog import Catalog
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.decision import Decision, History
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.request import GpuRequest
    from airflow_gpu_placement.model.signals import PoolSignals

log = logging.getLogger(__name__)


async def decide(
    request: GpuRequest,
    catalog: Catalog,
    history: History,
    setting: Setting | None = None,
    *,
    subject: str,
    open_cluster: OpenCluster,
    deadline_seconds: float,
    clock: Callable[[], datetime],
) -> Decision:
    """Decide where a request can run now.

    :param setting: who pays, what is preferred, what is known of the task's data and earlier tries.
    :param subject: the logical task as text, for people.
    :param open_cluster: gives a client of a pool's cluster.
    :param deadline_seconds: time that all clusters together get.
    :param clock: the time now, with a time zone.
    :return: a chosen pool or a diagnosis, with a verdict for every pool.
    """
    # 1. Read every pool's signals, in parallel, under one deadline.
    started = time.monotonic()
    snapshot = await collect(catalog.pools, open_cluster, deadline_seconds=deadline_seconds, clock=clock)
    collected = time.monotonic()
    # 2. Name the GPU models that the catalogue adds.
    snapshot = recognise_all(snapshot, catalog.gpu_models)
    # 3. Price the ways of data to the regions that only nodes tell.
    setting = routed(
        catalog, setting or Setting(), [located(pool, snapshot.pools[pool.name]) for pool in catalog.pools]
    )
    # 4. Filter, cost and order on this snapshot alone; GPUs are asked for by the name that the nodes have.
    decision = place(
        request,
        [_with_seen_resource(pool, snapshot.pools[pool.name]) for pool in catalog.pools],
        snapshot,
        history,
        setting=setting,
        now=clock(),
        subject=subject,
        catalog_hash=catalog.hash,
    )
    log.debug(
        "Signals of %d pools in %.2f s, decision in %.4f s",
        len(catalog.pools),
        collected - started,
        time.monotonic() - collected,
    )
    return decision


def _with_seen_resource(pool: GpuPool, signals: PoolSignals) -> GpuPool:
    return pool if signals.gpu_resource is None else with_resource(pool, signals.gpu_resource)
