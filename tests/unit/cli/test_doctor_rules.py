"""What the doctor asks for and says: rights, the shipped manifest, mistakes in the catalogue, findings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.cli.doctor.check_catalog import check_catalog
from airflow_gpu_placement.cli.doctor.check_cluster import check_cluster
from airflow_gpu_placement.cli.doctor.finding import FixKind
from airflow_gpu_placement.cli.doctor.read import ClusterKey, ClusterReading
from airflow_gpu_placement.cli.doctor.rights import (
    CLUSTER_RULES,
    LEASE_RULES,
    WORK_RULES,
    grants,
)
from airflow_gpu_placement.exceptions import CatalogError
from airflow_gpu_placement.model.signals import GapKind, SignalGap

RBAC = Path(__file__).resolve().parents[3] / "docker" / "rbac.yaml"


def test_a_service_account_is_named_as_one() -> None:
    """A binding to a user of the same name would not work for it."""
    made = grants("system:serviceaccount:ops:placer", [None])
    assert made[1]["subjects"] == [{"kind": "ServiceAccount", "namespace": "ops", "name": "placer"}]
    assert grants("Jo Doe", [None])[1]["metadata"]["name"] != grants("jo-doe", [None])[1]["metadata"]["name"]


def test_the_manifest_to_install_grants_what_the_doctor_asks_for() -> None:
    """No right more, none less."""
    shipped = {
        (made["metadata"]["name"], made["metadata"].get("namespace")): made["rules"]
        for made in yaml.safe_load_all(RBAC.read_text())
        if made["kind"] in {"Role", "ClusterRole"}
    }
    wanted = {
        ("gpu-placement-reader", None): list(CLUSTER_RULES),
        ("gpu-placement-leases", "kube-node-lease"): list(LEASE_RULES),
        ("gpu-placement-jobs", "training"): list(WORK_RULES),
    }
    assert shipped == wanted


def test_a_misspelt_key_is_mended_by_a_command(tmp_path: Path) -> None:
    """Other mistakes are told in the words of the reader, which say what to write."""
    path = tmp_path / "catalogue.yaml"
    path.write_text(
        "version: 1\npools:\n  - {name: a, kubernetes_conn_id: c, region: x}\n"
        "  - name: b\n    kubernetes_conn_id: c\n    max_nodes: 0\n    gpu:\n      modl: H100\n"
    )
    with pytest.raises(CatalogError) as caught:
        load(path)
    by_where = {one.where.rsplit(".", 1)[-1]: one for one in check_catalog(caught.value.problems)}
    misspelt, wrong = by_where["modl"], by_where["max_nodes"]
    assert misspelt.fix == f"sed -i '8s/\\bmodl:/model:/' {path}"
    assert (wrong.kind, wrong.fix.split(":")[0]) == (FixKind.ADVICE, "correct it")


def test_a_finding_is_plain_values() -> None:
    """Records carry the fix apart from its kind, for programs."""
    (finding,) = check_cluster(
        ClusterReading(
            key=ClusterKey("c", "prod"), pools=(), gap=SignalGap(kind=GapKind.UNREACHABLE, message="refused")
        )
    )
    record = finding.as_record()
    assert record["where"] == "connection 'c', context 'prod'"
    assert record["fix"]["kind"] == "command"
    assert msgspec.json.decode(msgspec.json.encode(record)) == record
