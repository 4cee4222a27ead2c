"""Run many triggers in one event loop, as a triggerer does, and tell what they cost and when they fire.

Reads ``{"kind": ..., "warm": {...}, "jobs": [...]}`` from standard input; writes one JSON object a line:
first the cost of one trigger, then once a second the cost of all, and one line an event.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

CONN_ID = "gpu_bench"
WARM_UP_SECONDS = 8.0
LOADED_SECONDS = 4.0
_PAGE_BYTES = resource.getpagesize()


def main() -> None:
    """Run until standard input is closed."""
    order = json.loads(sys.stdin.readline())
    logging.disable(logging.INFO)
    asyncio.run(_run(order))


async def _run(order: dict[str, Any]) -> None:
    # A job in a namespace of its own loads what any number of jobs needs once.
    warm = asyncio.create_task(_watch(order, order["warm"]))
    await asyncio.sleep(WARM_UP_SECONDS)
    await _nothing_more_is_loaded()
    gc.collect()
    _tell({"kind": "one", **_cost()})
    tasks = [asyncio.create_task(_watch(order, job)) for job in order["jobs"]]
    waiting = asyncio.gather(*tasks)
    block = 0.0
    while not waiting.done():
        block = max(block, await _longest_block(1.0))
        _tell({"kind": "all", "open": sum(not task.done() for task in tasks), "block": block, **_cost()})
    await waiting
    warm.cancel()


async def _nothing_more_is_loaded() -> None:
    """Wait until no module was loaded for some time: on a busy machine the first watch needs a minute."""
    loaded = 0
    while loaded < len(sys.modules):
        loaded = len(sys.modules)
        await asyncio.sleep(LOADED_SECONDS)


async def _longest_block(seconds: float) -> float:
    """Look for some time how late a short sleep ends; return the worst."""
    loop = asyncio.get_running_loop()
    until, worst = loop.time() + seconds, 0.0
    while (began := loop.time()) < until:
        await asyncio.sleep(0.01)
        worst = max(worst, loop.time() - began - 0.01)
    return worst


async def _watch(order: dict[str, Any], job: dict[str, str]) -> None:
    async for _event in _trigger(order, job).run():
        _tell({"kind": "event", "name": job["name"], "at": time.time()})
        return


def _trigger(order: dict[str, Any], job: dict[str, str]) -> BaseTrigger:
    if order["kind"] == "peer":
        from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger

        return KubernetesJobTrigger(
            job_name=job["name"],
            job_namespace=job["namespace"],
            pod_names=[job["pod"]],
            pod_namespace=job["namespace"],
            base_container_name=job["container"],
            kubernetes_conn_id=CONN_ID,
        )
    from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

    return RemoteJobTrigger(
        kubernetes_conn_id=CONN_ID,
        context=None,
        cluster_uid=order["cluster_uid"],
        namespace=job["namespace"],
        job_name=job["name"],
        job_uid=job["uid"],
        node_grace_seconds=120,
        cluster_grace_seconds=900,
        node_deletion_is_proof=False,
    )


def _cost() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {"rss": pages * _PAGE_BYTES, "cpu": used.ru_utime + used.ru_stime, "at": time.time()}


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
