"""Catalogues of several files: what differs in one environment is laid over what is common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.exceptions import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

BASE = """
version: 1
defaults: {namespace: training, gpu: {per_node: 8}}
datasets:
  - {name: d, size_gib: 1, locations: [r]}
egress:
  - {from: r, to: s, usd_per_gib: 1}
  - {from: "*", to: "*", usd_per_gib: 2}
pools:
  - name: a
    kubernetes_conn_id: dev
    region: r
    node_selector: {team: ml}
    price: {gpu_hour_usd: 1, source: base}
  - {name: b, kubernetes_conn_id: dev, region: r}
"""

OVER = """
version: 1
defaults: {gpu: {resource_name: amd.com/gpu}}
datasets:
  - {name: d, size_gib: 5}
egress:
  - {from: r, to: s, usd_per_gib: 3}
  - {from: r, to: t, usd_per_gib: 4}
pools:
  - {name: c, kubernetes_conn_id: prod, region: r}
  - {name: a, kubernetes_conn_id: prod, node_selector: {pool: big}, price: {gpu_hour_usd: 2}}
"""


def files(folder: Path, base: str = BASE, over: str = OVER) -> tuple[Path, Path]:
    """Write two files."""
    paths = folder / "base.yaml", folder / "prod.yaml"
    for path, text in zip(paths, (base, over), strict=True):
        path.write_text(text)
    return paths


def test_an_overlay_changes_adds_and_keeps(tmp_path: Path) -> None:
    """Entries are matched by name; some sections are added to key by key, other values are replaced."""
    catalog = load(*files(tmp_path))
    pools = {pool.name: pool for pool in catalog.pools}

    assert list(pools) == ["a", "b", "c"]
    assert [pool.cluster.kubernetes_conn_id for pool in catalog.pools] == ["prod", "dev", "prod"]
    assert pools["a"].node_selector == {"team": "ml", "pool": "big"}
    assert (pools["a"].price.gpu_hour_usd, pools["a"].price.source) == (2, None)
    assert {(pool.gpu.per_node, pool.gpu.resource_name) for pool in catalog.pools} == {(8, "amd.com/gpu")}
    assert {pool.cluster.namespace for pool in catalog.pools} == {"training"}
    assert [(dataset.size_gib, dataset.locations) for dataset in catalog.datasets] == [(5, ("r",))]
    assert [(route.source, route.target, route.usd_per_gib) for route in catalog.egress] == [
        ("r", "s", 3),
        ("r", "t", 4),
        ("*", "*", 2),
    ]


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    """Later names are laid over earlier ones; other files are left alone."""
    files(tmp_path)
    (tmp_path / "README.md").write_text("no catalogue")
    assert load(tmp_path).hash == load(tmp_path / "base.yaml", tmp_path / "prod.yaml").hash


def test_the_hash_covers_the_overlay(tmp_path: Path) -> None:
    """A decision tells in which environment it was made."""
    base, over = files(tmp_path)
    assert load(base).hash != load(base, over).hash


@pytest.mark.parametrize(
    ("base", "over", "want"),
    [
        pytest.param(
            BASE.replace("region: r\n", "regoin: r\n"),
            OVER,
            ["base.yaml:pools[0].regoin: is not a known key; did you mean 'region'? (pool 'a')"],
            id="below",
        ),
        pytest.param(
            BASE,
            OVER.replace("price: {gpu", "price: {gqu"),
            [
                "prod.yaml:pools[1].price.gqu_hour_usd: is not a known key; did you mean "
                "'gpu_hour_usd'? (pool 'a')"
            ],
            id="in an entry that the overlay changes",
        ),
        pytest.param(
            BASE,
            OVER.replace("kubernetes_conn_id: prod, region: r", "region: r"),
            [
                "prod.yaml:pools[0].kubernetes_conn_id: is missing; name the Airflow connection of the "
                "pool's cluster (pool 'c')"
            ],
            id="missing in an entry that the overlay adds",
        ),
        pytest.param(
            BASE.replace("usd_per_gib: 2", "usd_per_gib: x"),
            OVER.replace("usd_per_gib: 4", "usd_per_gib: y"),
            [
                "prod.yaml:egress[1].usd_per_gib: must be a number, not 'y'",
                "base.yaml:egress[1].usd_per_gib: must be a number, not 'x'",
            ],
            id="in routes of both",
        ),
        pytest.param(
            BASE,
            OVER.replace("size_gib: 5", "size_gib: -5"),
            ["prod.yaml:datasets[0].size_gib: must be at least 0, not -5 (dataset 'd')"],
            id="in a value that the overlay replaces",
        ),
        pytest.param(
            BASE,
            OVER + "  - {name: a}\n",
            ["prod.yaml:pools[2].name: 'a' is the name of pools[1] already"],
            id="a name twice in one file",
        ),
        pytest.param(
            BASE,
            OVER.replace("version: 1", ""),
            ["prod.yaml:version: is missing; write 'version: 1'"],
            id="no version",
        ),
        pytest.param(
            BASE, "- a\n", ["prod.yaml: must be a mapping of keys to values, not a list"], id="a list"
        ),
        pytest.param(
            BASE,
            "a: [\n",
            [
                "prod.yaml:line 2, column 1: is not valid YAML: expected the node content, but found "
                "'<stream end>'"
            ],
            id="no YAML",
        ),
    ],
)
def test_a_problem_names_the_file_that_it_is_in(
    tmp_path: Path, base: str, over: str, want: list[str]
) -> None:
    """The path is the one in that file, not the one after merging."""
    with pytest.raises(CatalogError) as caught:
        load(*files(tmp_path, base, over))
    assert [problem.removeprefix(f"{tmp_path}/") for problem in caught.value.problems] == want


def test_a_missing_overlay_names_its_setting(tmp_path: Path) -> None:
    """The other setting is not to blame."""
    base, _ = files(tmp_path)
    with pytest.raises(CatalogError, match="there is no overlay of the catalogue here") as caught:
        load(base, tmp_path / "none.yaml")
    assert "AIRFLOW__GPU_PLACEMENT__CATALOG_OVERLAY" in str(caught.value)


def test_price_lists_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    """An overlay may live in another folder."""
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "list.csv").write_text("pool,price\nb,9\n")
    over = tmp_path / "env" / "prod.yaml"
    over.write_text("version: 1\nprices: [{file: list.csv}]\n")
    base, _ = files(tmp_path)
    assert [pool.price.gpu_hour_usd for pool in load(base, over).pools] == [1, 9]
