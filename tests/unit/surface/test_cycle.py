"""The one door of a decision: what the catalogue says reaches the engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement import cycle
from airflow_gpu_placement.catalog import resolve
from airflow_gpu_placement.exceptions import Unreachable
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.catalog.catalogues import read
from tests.unit.engine.builders import NOW, seen, signals, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.signals import Snapshot

TEXT = """
version: 1
gpu_models: [{name: B400, memory_gb: 320, aliases: [NVIDIA-B400-HBM4]}]
tenants: [{name: vision, teams: [vision]}]
pools: [{name: p, kubernetes_conn_id: c}]
"""


async def nobody(conn_id: str, context: str | None) -> ClusterClient:
    """Open no cluster at all."""
    raise Unreachable(f"{conn_id}/{context} is down")


def decided(folder: Path, text: str = TEXT, **gpu: Any) -> Decision:
    """Decide as a task of the team vision does."""
    catalog = read(folder, text)
    resolved = resolve(catalog, GpuRequest(**gpu), profile="fastest", dag_id="d", team="vision")
    return asyncio.run(
        cycle.decide(
            resolved.request,
            catalog,
            History(),
            resolved.setting,
            subject="d.t",
            open_cluster=nobody,
            deadline_seconds=5,
            clock=lambda: NOW,
        )
    )


def test_the_setting_is_in_the_decision(tmp_path: Path) -> None:
    """Who pays and what is preferred can be read, and replayed, from the record."""
    decision = decided(tmp_path)
    assert decision.setting.profile.name == "fastest"
    assert decision.setting.tenant is not None
    assert decision.setting.tenant.name == "vision"
    assert decision.catalog_hash == read(tmp_path, TEXT).hash
    assert decision.chosen is None


def test_nodes_with_a_model_of_the_catalogue_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nodes report under an alias is what a request names, with the memory of the catalogue."""

    async def collected(*_: Any, **__: Any) -> Snapshot:
        return snapshot(signals("p", seen(product="NVIDIA-B400-HBM4")))

    monkeypatch.setattr(cycle, "collect", collected)
    decision = decided(tmp_path, models="nvidia-b400-hbm4", min_memory_gb=300)
    assert decision.chosen == "p"
    assert decision.verdicts[0].gpu == "B400 320 GB"


DATA = """
datasets: [{name: images, size_gib: 100, locations: [eu-west-1]}]
egress: [{from: eu-west-1, to: "us-*", usd_per_gib: 0.3, origin: our contract}]
"""


def test_ways_to_where_the_nodes_are_have_the_catalogue_s_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A region that only labels tell is priced as one that the catalogue says."""

    async def collected(*_: Any, **__: Any) -> Snapshot:
        return snapshot(signals("p", seen(region="us-east-1")))

    monkeypatch.setattr(cycle, "collect", collected)
    decision = decided(tmp_path, TEXT + DATA, data="images")
    assert [(way.target, way.usd_per_gib, way.origin) for way in decision.setting.egress] == [
        ("us-east-1", 0.3, "our contract")
    ]
    assert decision.chosen_pool is not None
    assert decision.chosen_pool.place.region == "us-east-1"
    (cost,) = [one.cost for one in decision.verdicts]
    assert cost is not None
    assert {term.name: term.usd for term in cost.terms}["egress"] == 30
