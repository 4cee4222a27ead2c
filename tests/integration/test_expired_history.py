"""A cluster that has forgotten old versions: etcd was compacted, and the API server answers 410."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.clusters.client import ClusterClient
from airflow_gpu_placement.clusters.errors import Expired
from airflow_gpu_placement.model.kube import ObjectMeta, Struct
from lab.errors import LabApiError
from tests.integration.cluster_support import opener
from tests.integration.test_watch_faults import following

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from airflow_gpu_placement.model.kube import ListPage
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

_PAGE = 5
_OBJECTS = 12


class Named(Struct, frozen=True):
    """Any object, by its name."""

    metadata: ObjectMeta


async def fill(client: ClusterClient, path: str, names: list[str]) -> None:
    """Create empty ConfigMaps."""
    await asyncio.gather(*(client.create(path, {"metadata": {"name": name}}) for name in names))


async def test_a_list_whose_history_is_gone_between_two_pages_is_begun_again(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of the next page is refused; the list that follows is complete and as things are now."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    tokens: list[str] = []
    pages = ClusterClient.pages

    async def small_pages(
        self: ClusterClient,
        path: str,
        item_type: type[Any],
        query: Mapping[str, str] | None = None,
        **_: int,
    ) -> AsyncIterator[ListPage[Any]]:
        async for page in pages(self, path, item_type, query, limit=_PAGE):
            tokens.append(page.metadata.continue_)
            yield page
            if len(tokens) == 1:
                await client.delete(f"{path}/object-00")
                await fill(client, path, ["object-late"])
                await asyncio.to_thread(cluster.expire_history)

    monkeypatch.setattr(ClusterClient, "pages", small_pages)
    async with await opener(cluster)("", None) as client:
        await fill(client, path, [f"object-{number:02}" for number in range(_OBJECTS)])
        items, version = await client.list_all(path, Named)

        assert [item.metadata.name for item in items] == [
            *(f"object-{number:02}" for number in range(1, _OBJECTS)),
            "object-late",
        ]
        assert len(tokens) == 1 + math.ceil(len(items) / _PAGE), "the first page, then all of them"
        with pytest.raises(LabApiError) as refused:
            cluster.api.request("GET", path, params={"limit": _PAGE, "continue": tokens[0]})
        assert refused.value.status == 410

        await fill(client, path, ["object-later"])
        events = client.watch(path, {"resourceVersion": version}, idle_timeout_seconds=20)
        assert b"object-later" in bytes((await anext(events)).object)
        await events.aclose()


async def test_a_watch_whose_history_is_gone_lists_anew_and_goes_on(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node], caplog: pytest.LogCaptureFixture
) -> None:
    """Every stream that followed a job is told 410, and neither the job nor a line of its log is lost."""
    caplog.set_level(logging.INFO, logger="airflow_gpu_placement.watch.stream")
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with following(cluster, namespace, spare_node(), lines=250) as job:
        await job.has_said(20)
        version = cluster.api.get(path)["metadata"]["resourceVersion"]
        await asyncio.to_thread(cluster.expire_history)
        async with await opener(cluster)("", None) as client:
            with pytest.raises(Expired):
                await anext(client.watch(path, {"resourceVersion": version}, idle_timeout_seconds=20))
        said = len(job.log)
        await job.has_said(said + 1)
        await job.succeeds()
        assert not any("is lost" in line for line in job.phases), job.phases
    begun_again = [one.getMessage() for one in caplog.records if "listing again" in one.getMessage()]
    assert any("pods" in text and "410" in text for text in begun_again), caplog.text
