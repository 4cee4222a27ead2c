"""The lines that the doctor tells can be pasted: nothing is lost by it, and what it asks for is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.doctor.check_pool import check_pool
from tests.unit.cli.nodes import node

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.cli.doctor.finding import Finding

NAMELESS = {"cloud.google.com/gke-accelerator": "", "node.kubernetes.io/instance-type": ""}


def found(folder: Path, section: dict[str, Any]) -> Finding:
    """Check a pool that says this and nothing else."""
    path = folder / "gpu.yaml"
    pool = {"name": "a", "kubernetes_conn_id": "c", "price": {"gpu_hour_usd": 1}, **section}
    path.write_text(yaml.safe_dump({"version": 1, "pools": [pool]}))
    (finding,) = check_pool(load(path).pools[0], SeenNodes((node("n", labels=NAMELESS),)))
    return finding


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param(
            {"gpu": {"interconnect": "nvswitch", "per_node": 8}},
            {"gpu": {"interconnect": "nvswitch", "per_node": 8, "model": "<MODEL>"}},
            id="the model",
        ),
        pytest.param(
            {"gpu": {"model": "H100"}, "price": {"preference_usd": -5.0, "rank_gpu_hour_usd": 2.0}},
            {"price": {"preference_usd": -5.0, "rank_gpu_hour_usd": 2.0, "gpu_hour_usd": "<USD>"}},
            id="the price",
        ),
        pytest.param(
            {"gpu": {"model": "H100", "interconnect": "nvswitch", "per_node": 4}},
            {"gpu": {"model": "H100", "interconnect": "nvswitch", "per_node": 8}},
            id="a wrong number",
        ),
    ],
)
def test_what_a_section_says_beside_is_kept(
    tmp_path: Path, section: dict[str, Any], want: dict[str, Any]
) -> None:
    """Lines replace a section as a whole, so they repeat the rest of it."""
    assert yaml.safe_load(found(tmp_path, section).fix) == {"pools": [{"name": "a", **want}]}


def test_what_only_a_person_knows_is_explained_above_the_lines(tmp_path: Path) -> None:
    """As comments for people, and apart for programs."""
    finding = found(tmp_path, {"gpu": {"model": "H100"}, "price": None})
    meaning = "what one GPU costs for an hour in USD, such as 2.5; 0 when nobody pays for it"
    lines = "pools:\n- name: a\n  price:\n    gpu_hour_usd: <USD>"
    assert finding.as_text() == f"# <USD>: {meaning}\n{lines}"
    assert finding.as_record()["fix"] == {
        "kind": "catalog",
        "text": lines,
        "fill_in": {"<USD>": meaning},
        "pool": "a",
    }
