"""Each finding is provoked on a real cluster, its mending is carried out as told, and the finding is gone."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.cli.doctor.command import doctor
from tests.integration.cli_support import (
    H100,
    AirflowHome,
    arguments,
    connection,
    pool_entry,
    write_catalog,
)
from tests.integration.cluster_support import opener
from tests.integration.rights import drop_bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from lab import Cluster, Node

pytestmark = pytest.mark.lab

OTHER_UID = "11111111-2222-3333-4444-555555555555"


class Doctor:
    """Asks the doctor about a catalogue, and mends what it finds."""

    def __init__(self, catalog: Path, open_cluster: OpenCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.catalog = catalog
        self.open_cluster = open_cluster
        self._capsys = capsys

    def findings(self, **options: Any) -> list[dict[str, Any]]:
        """Return the findings; the exit code has to agree with them."""
        self._capsys.readouterr()
        code = doctor(arguments(catalog=str(self.catalog)), self.open_cluster, **options)
        found: list[dict[str, Any]] = json.loads(self._capsys.readouterr().out)
        assert code == (1 if found else 0)
        return found

    def ids(self, **options: Any) -> list[str]:
        """Return the ids of the findings."""
        return [one["id"] for one in self.findings(**options)]

    def write(self, fix: dict[str, Any]) -> None:
        """Write the lines of a finding into the pool that it names."""
        assert fix["kind"] == "catalog"
        document = yaml.safe_load(self.catalog.read_text())
        (pool,) = (one for one in document["pools"] if one["name"] == fix["pool"])
        pool.update(yaml.safe_load(fix["text"]))
        self.catalog.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def healthy(namespace: str, tmp_path: Path) -> Path:
    """Return a catalogue without any finding."""
    return write_catalog(tmp_path / "c.yaml", pool_entry("h100", namespace=namespace))


@pytest.fixture
def airflow(tmp_path: Path) -> AirflowHome:
    """Return an Airflow of its own."""
    return AirflowHome(tmp_path / "airflow")


def test_nothing_is_found_where_nothing_is_wrong(
    cluster: Cluster, healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other tests start from here."""
    assert Doctor(healthy, opener(cluster), capsys).findings() == []


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"price": None}, "PriceMissing", id="no price"),
        pytest.param({"cluster_uid": OTHER_UID}, "WrongCluster", id="another cluster"),
        pytest.param({"node_selector": {"gpu": "yes"}}, "NoNodeMatches", id="no such label"),
        pytest.param({"gpu": {"model": "A100"}}, "SignalContradictsCatalog", id="another model"),
        pytest.param(
            {"gpu": {"model": "H100", "memory_gb": 94, "per_node": 4}},
            "SignalContradictsCatalog",
            id="another memory and size",
        ),
        pytest.param({"region": "moon"}, "SignalContradictsCatalog", id="another region"),
    ],
)
def test_a_pool_is_mended_by_the_lines_that_are_told(
    cluster: Cluster, healthy: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], want: str
) -> None:
    """One mistake in the catalogue makes one finding."""
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    asked = Doctor(write_catalog(healthy, {**entry, **changes}), opener(cluster), capsys)
    (finding,) = asked.findings()
    assert finding["id"] == want
    asked.write(finding["fix"])
    assert asked.findings() == []


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            {"spec": {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]}},
            "TaintNotTolerated",
            id="a taint",
        ),
        pytest.param(
            {
                "metadata": {
                    "labels": {
                        "nvidia.com/gpu.product": None,
                        "nvidia.com/gpu.machine": None,
                        "node.kubernetes.io/instance-type": None,
                    }
                }
            },
            "GpuUnknown",
            id="a GPU without a name",
        ),
    ],
)
def test_what_a_node_shows_is_mended_by_the_lines_that_are_told(
    cluster: Cluster,
    healthy: Path,
    spare_node: Callable[[], Node],
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    want: str,
) -> None:
    """The node is changed as its owner would change it; the catalogue follows."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", change)
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    spare = {**entry, "node_selector": {"kubernetes.io/hostname": node.name}}
    asked = Doctor(write_catalog(healthy, spare), opener(cluster), capsys)
    (finding,) = asked.findings()
    assert finding["id"] == want
    asked.write(finding["fix"])
    assert asked.findings() == []


def test_pools_of_the_same_nodes_are_told_apart(
    cluster: Cluster,
    healthy: Path,
    spare_node: Callable[[], Node],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The wider pool is narrowed to the nodes that the other leaves."""
    node = spare_node()
    labels = {"node.kubernetes.io/instance-type": "dgx-b"}
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    narrow = {**entry, "name": "spare", "node_selector": labels}
    asked = Doctor(write_catalog(healthy, entry, narrow), opener(cluster), capsys)
    (finding,) = asked.findings()
    assert (finding["id"], finding["fix"]["pool"]) == ("PoolsOverlap", "h100")
    asked.write(finding["fix"])
    assert asked.findings() == []
    (wide, _) = yaml.safe_load(healthy.read_text())["pools"]
    assert wide["node_selector"] == {**H100, "node.kubernetes.io/instance-type": "dgx-h100"}


@pytest.fixture
def visitor(cluster: Cluster) -> Iterator[str]:
    """Return a user without rights, who has none again in the end."""
    yield "visitor"
    drop_bindings(cluster, "visitor")


def test_missing_rights_are_granted_by_the_commands_that_are_told(
    cluster: Cluster,
    healthy: Path,
    airflow: AirflowHome,
    visitor: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user with no right at all gets them by three commands of an administrator."""
    asked = Doctor(healthy, opener(cluster, visitor), capsys)
    findings = asked.findings()
    assert [one["id"] for one in findings] == ["RightsMissing"] * 3
    assert all("user 'visitor' may not" in one["what"] for one in findings)
    for finding in findings:
        _paste(airflow, finding, cluster)
    assert asked.findings() == []


def test_one_missing_right_is_named(
    cluster: Cluster,
    healthy: Path,
    namespace: str,
    airflow: AirflowHome,
    visitor: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With all but one, the finding names that one."""
    asked = Doctor(healthy, opener(cluster, visitor), capsys)
    for finding in asked.findings():
        _paste(airflow, finding, cluster)
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/gpu-placement-jobs"
    role = cluster.api.get(path)
    for rule in role["rules"]:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "delete"]
    cluster.api.put(path, role)
    (finding,) = asked.findings()
    assert finding["what"] == f"user 'visitor' may not, in namespace {namespace}: delete jobs"
    _paste(airflow, finding, cluster)
    assert asked.findings() == []


def test_a_missing_namespace_is_made_by_the_command_that_is_told(
    cluster: Cluster, healthy: Path, airflow: AirflowHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else is wrong there."""
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    absent = f"{entry['namespace']}-new"
    asked = Doctor(write_catalog(healthy, {**entry, "namespace": absent}), opener(cluster), capsys)
    (finding,) = asked.findings()
    assert finding["id"] == "NamespaceMissing"
    try:
        _paste(airflow, finding, cluster)
        assert asked.findings() == []
    finally:
        cluster.api.delete(f"/api/v1/namespaces/{absent}")


def _paste(airflow: AirflowHome, finding: dict[str, Any], cluster: Cluster) -> None:
    """Run the command of a finding in a shell, as an administrator of the cluster."""
    assert finding["fix"]["kind"] == "command"
    ran = airflow.shell(finding["fix"]["text"], KUBECONFIG=str(cluster.kubeconfig_path()))
    assert ran.returncode == 0, ran.stderr


def test_a_clock_that_is_wrong_is_found(
    cluster: Cluster, healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time that the server puts on its answers is compared with ours."""
    asked = Doctor(healthy, opener(cluster), capsys)
    late = asked.findings(clock=lambda: datetime.now(UTC) - timedelta(minutes=2))
    (finding,) = late
    assert finding["id"] == "ClockSkew"
    assert "120 s ahead of ours" in finding["what"] or "119 s ahead of ours" in finding["what"]
    assert asked.findings() == []


def test_a_misspelt_key_is_mended_by_the_command_that_is_told(
    cluster: Cluster, healthy: Path, airflow: AirflowHome, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is changed in its place."""
    healthy.write_text(healthy.read_text().replace("node_selector", "node_selektor"))
    asked = Doctor(healthy, opener(cluster), capsys)
    (finding,) = asked.findings()
    assert finding["id"] == "CatalogInvalid"
    assert airflow.shell(finding["fix"]["text"]).returncode == 0
    assert asked.findings() == []


@pytest.mark.timeout(600)  # eight Airflow commands, each a start of Airflow
def test_ways_to_a_cluster_are_mended_by_the_commands_that_are_told(
    cluster: Cluster, namespace: str, airflow: AirflowHome, tmp_path: Path
) -> None:
    """The real command, with connections in the metadata database: none, a dead address, a bad token."""
    dead, bad = (connection(cluster) for _ in range(2))
    config = copy.deepcopy(cluster.kubeconfig())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    dead["extra"]["kube_config"] = json.dumps(config)
    config = copy.deepcopy(cluster.kubeconfig())
    config["users"][0]["user"] = {"token": "not-a-token"}
    bad["extra"]["kube_config"] = json.dumps(config)
    stored = {
        name: {**one, "extra": json.dumps(one["extra"])} for name, one in {"dead": dead, "bad": bad}.items()
    }
    (tmp_path / "connections.json").write_text(json.dumps(stored))
    path = write_catalog(
        tmp_path / "c.yaml",
        *(
            pool_entry(conn_id, kubernetes_conn_id=conn_id, namespace=namespace)
            for conn_id in ("dead", "bad", "none")
        ),
    )
    assert airflow.shell(f"airflow connections import {tmp_path}/connections.json").returncode == 0

    ran = airflow.run("doctor", "--catalog", str(path), "-o", "json")

    assert ran.returncode == 1, ran.stderr
    findings = json.loads(ran.stdout)
    assert [(one["id"], one["where"]) for one in findings] == [
        ("ClusterUnreachable", "connection 'dead'"),
        ("ConnectionMissing", "connection 'none'"),
        ("CredentialsRefused", "connection 'bad'"),
    ]
    script = "\n".join(one["fix"]["text"] for one in findings)
    mended = airflow.shell(script, KUBECONFIG=str(cluster.kubeconfig_path()))
    assert mended.returncode == 0, mended.stderr
    ran = airflow.run("doctor", "--catalog", str(path), "-o", "json")
    # All three lead to one cluster now, so all that is left is that they offer the same nodes.
    assert {one["id"] for one in json.loads(ran.stdout)} == {"PoolsOverlap"}


def test_a_missing_catalogue_is_made_by_the_command_that_is_told(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the real discover writes lacks nothing but what only a person knows."""
    asked = Doctor(tmp_path / "none.yaml", opener(cluster), capsys)
    (finding,) = asked.findings()
    assert finding["id"] == "CatalogMissing"
    airflow = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    made = airflow.shell(finding["fix"]["text"], CONN_ID="gpu")
    assert made.returncode == 0, made.stderr
    assert set(asked.ids()) == {"PriceMissing"}
