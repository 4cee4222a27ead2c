"""The demo's two clusters and three GPU pools, and how Airflow gets to know them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from lab.spec import ClusterSpec, LabSpec, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.api import Cluster, Lab

_HERE = Path(__file__).resolve().parent
PRICES_FILE = _HERE / "prices.csv"
CATALOG_TEMPLATE = _HERE / "catalog.yaml"
PRICE_SOURCE = "karpenter-provider-gcp price list of 2026-08-03"
NAMESPACE = "training"

# Shortened, so that a newcomer need not wait for minutes; the demo says so.
RENEW_SECONDS = 2.0
NODE_GRACE_SECONDS = 6

SPEC = LabSpec(
    (
        ClusterSpec(
            "gke-us",
            (
                NodeSpec("us-a100-1", "gke-a100-80", renew_seconds=RENEW_SECONDS, region="us-central1"),
                NodeSpec("us-l4-1", "gke-l4", renew_seconds=RENEW_SECONDS, region="us-central1"),
            ),
        ),
        ClusterSpec(
            "gke-eu",
            (NodeSpec("eu-h100-1", "gke-h100", renew_seconds=RENEW_SECONDS, region="europe-west4"),),
        ),
    )
)


def shortened() -> str:
    """Name what is shorter in the demo than in earnest, with both values."""
    return (
        f"nodes give a sign of life every {RENEW_SECONDS:g} s (else 10), and a silent node is lost after "
        f"{NODE_GRACE_SECONDS} s (node_grace_seconds, else 120)"
    )


def connection_id(cluster: str) -> str:
    """Name the Airflow connection of a cluster."""
    return cluster.replace("-", "_")


def cluster_of(lab: Lab, kubernetes_conn_id: str) -> Cluster:
    """Return the cluster that an Airflow connection leads to."""
    return next(cluster for cluster in lab.clusters if connection_id(cluster.name) == kubernetes_conn_id)


def connections(lab: Lab) -> dict[str, dict[str, Any]]:
    """Return the Airflow connections of the clusters."""
    return {
        connection_id(cluster.name): {
            "conn_type": "kubernetes",
            "extra": {"kube_config": json.dumps(cluster.kubeconfig())},
        }
        for cluster in lab.clusters
    }


def airflow_environment(catalog: Path) -> dict[str, str]:
    """Return the environment that gives Airflow this catalogue."""
    return {
        "AIRFLOW__GPU_PLACEMENT__CATALOG": str(catalog),
        "AIRFLOW__GPU_PLACEMENT__DECIDE_AGAIN_SECONDS": "2",
    }


def node_hour_usd() -> dict[str, float]:
    """Return the published price of a whole machine for an hour by pool."""
    with PRICES_FILE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {row["pool"]: float(row["node_hour_usd"]) for row in rows}


def catalog(cluster_uids: Mapping[str, str]) -> str:
    """Fill in the catalogue.

    :param cluster_uids: uid of each cluster by its name.
    """
    values: dict[str, Any] = {"node_grace_seconds": NODE_GRACE_SECONDS, "price_source": PRICE_SOURCE}
    values.update({f"{connection_id(name)}_uid": uid for name, uid in cluster_uids.items()})
    values.update(
        {f"{pool.replace('-', '_')}_node_hour_usd": price for pool, price in node_hour_usd().items()}
    )
    return Template(CATALOG_TEMPLATE.read_text(encoding="utf-8")).substitute(values)
