"""Bookmarks of a real API server: they carry a version and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.launch.find import pods_path
from tests.integration.cluster_support import opener

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def test_a_bookmark_of_pods_tells_its_version(cluster: Cluster, namespace: str) -> None:
    """Its object has ``null`` where a pod must have a list, so it is never read as a pod."""
    async with await opener(cluster)("any", None) as client:
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "5", "resourceVersion": "0"}
        events = [event async for event in client.watch(pods_path(namespace), query, idle_timeout_seconds=20)]

    bookmarks = [event for event in events if event.type == "BOOKMARK"]
    assert bookmarks
    assert all(event.resource_version.isdecimal() for event in bookmarks)
