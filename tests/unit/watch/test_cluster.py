"""What counts as the silence of a cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.exceptions import Unreachable
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.watch.cluster import ClusterWatch

pytestmark = pytest.mark.asyncio

SILENT_SECONDS = 1.5


async def clock_reaches(watch: ClusterWatch, seconds: float) -> None:
    """Wait until the watch's own clock has gone on."""
    until = watch.now() + seconds
    async with asyncio.timeout(60):
        while watch.now() < until:  # noqa: ASYNC110 - nothing announces the ticks of the clock
            await asyncio.sleep(0.05)


async def test_a_slow_airflow_is_not_a_silent_cluster() -> None:
    """Nobody has asked the cluster while its connection is being read."""
    read = asyncio.Event()

    async def open_slowly(_: str, context: str | None) -> ClusterClient:
        await read.wait()
        raise Unreachable(f"nobody answers in context {context}")

    async with shared_watch(ClusterKey("gpu_slow"), open_slowly) as watch:
        await clock_reaches(watch, SILENT_SECONDS)
        assert watch.unreachable_seconds() == 0.0
        read.set()
        await clock_reaches(watch, SILENT_SECONDS)
        assert watch.unreachable_seconds() > 0.0
