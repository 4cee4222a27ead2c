"""The demo's catalogue is one that the product reads, at the published prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import load
from lab.demo import fleet
from lab.node.profiles import PROFILES

if TYPE_CHECKING:
    from pathlib import Path


def test_the_catalogue_can_be_read_and_holds_the_published_prices(tmp_path: Path) -> None:
    """A machine's price is split over its eight GPUs; on demand the A100 is the cheapest that fits."""
    path = tmp_path / "gpu_placement.yaml"
    path.write_text(fleet.catalog({"gke-us": "uid-us", "gke-eu": "uid-eu"}))
    pools = {pool.name: pool for pool in load(path).pools}
    published = fleet.node_hour_usd()
    assert sorted(pools) == sorted(published)
    for name, pool in pools.items():
        assert pool.price.gpu_hour_usd == pytest.approx(published[name] / 8)
        assert pool.price.source == fleet.PRICE_SOURCE
        assert pool.loss.node_grace_seconds == fleet.NODE_GRACE_SECONDS
    assert (pools["us-a100"].cluster.uid, pools["eu-h100"].cluster.uid) == ("uid-us", "uid-eu")
    assert published["us-l4"] < published["us-a100"] < published["eu-h100"]


def test_every_pool_selects_a_node_of_the_fleet(tmp_path: Path) -> None:
    """The labels that the catalogue asks for are those of the machines that are started."""
    path = tmp_path / "gpu_placement.yaml"
    path.write_text(fleet.catalog({"gke-us": "uid-us", "gke-eu": "uid-eu"}))
    fleet.SPEC.check(PROFILES)
    labels = {
        fleet.connection_id(cluster.name): [PROFILES[node.profile].labels for node in cluster.nodes]
        for cluster in fleet.SPEC.clusters
    }
    for pool in load(path).pools:
        wanted = pool.node_selector.items()
        assert any(wanted <= found.items() for found in labels[pool.cluster.kubernetes_conn_id])


def test_the_prices_carry_their_source_and_licence() -> None:
    """The file that holds them says where they come from."""
    head = fleet.PRICES_FILE.read_text(encoding="utf-8").partition("pool,")[0]
    assert "karpenter-provider-gcp" in head
    assert "Apache License 2.0" in head
    assert "2026-08-03" in head


def test_what_is_shortened_is_named_with_both_values() -> None:
    """A newcomer must not take the demo's seconds for the product's."""
    assert f"{fleet.NODE_GRACE_SECONDS} s (node_grace_seconds, else 120)" in fleet.shortened()
