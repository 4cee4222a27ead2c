"""The catalogue file: what it may say, and how every mistake is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import EXAMPLE, load
from airflow_gpu_placement.exceptions import CatalogError
from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.outcome import LossPolicy
from airflow_gpu_placement.model.pool import (
    CapacityType,
    ClusterRef,
    DeclaredGpu,
    GpuPool,
    Growth,
    Place,
    Price,
)
from tests.unit.catalog.catalogues import one, problems, read

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
version: 1
defaults:
  kubernetes_conn_id: main
  namespace: training
  gpu: {per_node: 8}
  node_selector: {team: ml}
  tolerations: [{key: spot, operator: Exists}]
pools:
  - name: everything
    context: prod
    cluster_uid: 0e5f
    cloud: gcp
    region: europe-west4
    zone: europe-west4-a
    capacity_type: spot
    gpu: {model: nvidia-h100-80gb, form_factor: sxm}
    node_selector: {pool: a3}
    tolerations:
      - {key: nvidia.com/gpu, operator: Equal, value: present, effect: NoSchedule, tolerationSeconds: 30}
    price: {node_hour_usd: 80, source: list price}
    max_nodes: 4
    node_grace_seconds: 60
    cluster_grace_seconds: 600.5
    node_deletion_is_proof: true
  - name: little
"""


def test_every_field_is_read_and_defaults_are_laid_below(tmp_path: Path) -> None:
    """``gpu`` and ``node_selector`` are added to key by key, anything else is replaced."""
    catalog = read(tmp_path, FULL)
    assert catalog.pools == (
        GpuPool(
            name="everything",
            cluster=ClusterRef(kubernetes_conn_id="main", context="prod", uid="0e5f", namespace="training"),
            place=Place(cloud="gcp", region="europe-west4", zone="europe-west4-a"),
            capacity_type=CapacityType.SPOT,
            gpu=DeclaredGpu(model="H100", memory_gb=80, form_factor="SXM", per_node=8),
            node_selector={"team": "ml", "pool": "a3"},
            tolerations=(
                Toleration(
                    key="nvidia.com/gpu",
                    operator="Equal",
                    value="present",
                    effect="NoSchedule",
                    toleration_seconds=30,
                ),
            ),
            price=Price(gpu_hour_usd=10.0, source="list price"),
            growth=Growth(max_nodes=4),
            loss=LossPolicy(
                node_grace_seconds=60.0, cluster_grace_seconds=600.5, node_deletion_is_proof=True
            ),
        ),
        GpuPool(
            name="little",
            cluster=ClusterRef(kubernetes_conn_id="main", namespace="training"),
            gpu=DeclaredGpu(per_node=8),
            node_selector={"team": "ml"},
            tolerations=(Toleration(key="spot", operator="Exists"),),
        ),
    )
    assert catalog.path == str(tmp_path / "gpu.yaml")


def test_the_example_is_a_catalogue(tmp_path: Path) -> None:
    """What the message tells to paste can be loaded."""
    (pool,) = read(tmp_path, EXAMPLE).pools
    assert (pool.name, pool.price.gpu_hour_usd) == ("onprem-h100", 2.1)


@pytest.mark.parametrize(
    ("price", "want"),
    [
        pytest.param("{gpu_hour_usd: 2.5}", 2.5, id="a price a GPU"),
        pytest.param("{gpu_hour_usd: 0}", 0.0, id="0 is a real price"),
        pytest.param("{gpu_hour_usd: }", None, id="an empty price is unknown"),
        pytest.param("", None, id="an empty section is unknown"),
    ],
)
def test_a_price_is_known_or_not(tmp_path: Path, price: str, want: float | None) -> None:
    """Nothing that is not said becomes 0."""
    (pool,) = read(tmp_path, one(price=price)).pools
    assert pool.price.gpu_hour_usd == want


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """One run of the editor is enough."""
    text = one(token="x", gpu="{per_node: 0, modle: H100}", price="{gpu_hour_usd: -1}") + "  - 5\n"
    assert [problem.split(":", 1)[0] for problem in problems(tmp_path, text)] == [
        "pools[0].token",
        "pools[0].gpu.per_node",
        "pools[0].gpu.modle",
        "pools[0].price.gpu_hour_usd",
        "pools[1]",
    ]


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    """A message ends up in logs."""
    assert "hush" not in "".join(problems(tmp_path, one(token="hush")))


def test_a_missing_file_says_where_and_how(tmp_path: Path) -> None:
    """Where it was looked for, how to name another place, and a text to paste."""
    with pytest.raises(CatalogError) as caught:
        load(tmp_path / "none.yaml")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'none.yaml'}: there is no catalogue of GPU pools here.")
    assert "AIRFLOW__GPU_PLACEMENT__CATALOG" in text
    assert text.endswith(EXAMPLE)


def test_a_folder_and_a_binary_file_are_told(tmp_path: Path) -> None:
    """Whatever the path leads to, the error is of the catalogue."""
    with pytest.raises(CatalogError, match=r"is a folder without a \.yaml file"):
        load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError, match="is not UTF-8 text"):
        load(tmp_path / "binary")


def test_the_hash_is_of_the_content_alone(tmp_path: Path) -> None:
    """Layout, comments and order do not change it; a price does."""
    first = read(tmp_path, FULL).hash
    assert read(tmp_path, f"# hello\n{FULL}").hash == first
    assert read(tmp_path, FULL.replace("node_hour_usd: 80", "node_hour_usd: 81")).hash != first
    two = "version: 1\npools: [{name: a, kubernetes_conn_id: c}, {name: b, kubernetes_conn_id: c}]"
    turned = "version: 1\npools: [{name: b, kubernetes_conn_id: c}, {name: a, kubernetes_conn_id: c}]"
    assert read(tmp_path, two).hash == read(tmp_path, turned).hash
    assert len(first) == 64


def test_anchors_may_be_used(tmp_path: Path) -> None:
    """Plain YAML reuse is not a key given twice."""
    text = (
        "version: 1\npools:\n  - &base {name: a, kubernetes_conn_id: c, region: r}\n"
        "  - {<<: *base, name: b}\n"
    )
    assert [(pool.name, pool.place.region) for pool in read(tmp_path, text).pools] == [("a", "r"), ("b", "r")]
