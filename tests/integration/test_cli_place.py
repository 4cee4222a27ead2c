"""A dry run on a real cluster: its exit code, its record, and that it needs no right to change anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.cli.place import place
from airflow_gpu_placement.engine.explain import from_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.exceptions import RequestError
from tests.integration.cli_support import (
    AirflowHome,
    arguments,
    connection,
    pool_entry,
    write_catalog,
)
from tests.integration.cluster_support import opener
from tests.integration.rights import granted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster, Node

pytestmark = pytest.mark.lab

READ_ONLY = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
]
DAG = """
from __future__ import annotations

from airflow.sdk import dag

from airflow_gpu_placement.operators import GpuTrainingJobOperator


@dag(dag_id="llm", schedule=None, params={"gpus": 4})
def training():
    GpuTrainingJobOperator(
        task_id="train",
        image="i",
        command=["c"],
        gpu={"gpus_per_node": "{{ params.gpus }}", "models": "H100"},
    )


training()
"""


def test_who_may_only_read_gets_a_decision(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """List nodes and pods, read one namespace: with no other right the answer is there, so it only reads."""
    path = write_catalog(tmp_path / "c.yaml", pool_entry("onprem-h100"))
    with granted(cluster, "visitor", READ_ONLY):
        code = place(
            arguments(catalog=str(path), gpus_per_node="8", model=["H100"]), opener(cluster, "visitor")
        )
    record = json.loads(capsys.readouterr().out)
    assert (code, record["chosen"]) == (0, "onprem-h100")


def test_the_record_can_be_decided_again(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed as JSON is the whole decision, signals and all."""
    path = write_catalog(
        tmp_path / "c.yaml", pool_entry("dear"), pool_entry("cheap", price={"gpu_hour_usd": 1})
    )
    place(arguments(catalog=str(path), gpus_per_node="2"), opener(cluster))
    decision = from_json(capsys.readouterr().out)
    assert decision.chosen == "cheap"
    assert replay(decision) == decision


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        pytest.param({"gpus_per_node": "8"}, 1, "NodesNotSchedulable", id="may fit later"),
        pytest.param({"model": ["B200"]}, 2, "GpuModelNotOffered", id="never"),
    ],
)
def test_the_exit_code_tells_later_from_never(
    cluster: Cluster,
    spare_node: Callable[[], Node],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    request_: dict[str, Any],
    code: int,
    reason: str,
) -> None:
    """A cordoned node may come back; a model that is nowhere does not."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": True}})
    selector = {"kubernetes.io/hostname": node.name}
    path = write_catalog(tmp_path / "c.yaml", pool_entry("spare", node_selector=selector))
    assert place(arguments(catalog=str(path), output="table", **request_), opener(cluster)) == code
    told = capsys.readouterr().out
    assert f"0/1 GPU pools fit the request: 1 {reason}" in told.splitlines()[-1]


def test_the_command_reads_the_request_of_a_task(cluster: Cluster, tmp_path: Path) -> None:
    """The real command in a process of its own, with a connection from the environment."""
    home = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    (home.home / "dags" / "llm.py").write_text(DAG)
    path = write_catalog(tmp_path / "c.yaml", pool_entry("onprem-h100"))
    ran = home.run("place", "--dag", "llm", "--task", "train", "--catalog", str(path), "-o", "json")
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    assert (record["chosen"], record["subject"]) == ("onprem-h100", "llm.train")
    assert (record["request"]["gpus_per_node"], record["request"]["models"]) == (4, ["H100"])
    assert "Traceback" not in ran.stderr


def test_a_mistake_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    """The real command with a misspelt field: no traceback, nothing on standard output."""
    home = AirflowHome(tmp_path / "airflow")
    (tmp_path / "request.yaml").write_text("gpus: 8\n")
    path = write_catalog(tmp_path / "c.yaml", pool_entry("onprem-h100"))
    ran = home.run("place", "--request", str(tmp_path / "request.yaml"), "--catalog", str(path))
    assert (ran.returncode, ran.stdout) == (3, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: gpu.gpus: unknown field; did you mean")


def test_what_would_have_to_be_different_is_told(
    cluster: Cluster, spare_node: Callable[[], Node], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every failing requirement of one pool, with the changes that clear it; the exit code stays."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": True}})
    selector = {"kubernetes.io/hostname": node.name}
    path = write_catalog(tmp_path / "c.yaml", pool_entry("spare", node_selector=selector))
    asked = {"catalog": str(path), "gpus_per_node": "8", "price_cap": "1.5", "counterfactual": "spare"}

    assert place(arguments(**asked), opener(cluster)) == 2
    requirements = json.loads(capsys.readouterr().out)
    assert {one["code"] for one in requirements} == {"NodesNotSchedulable", "PriceCapExceeded"}
    cap = next(one for one in requirements if one["code"] == "PriceCapExceeded")
    (change,) = cap["changes"]
    assert (change["path"], change["before"], change["after"]) == (
        "/request/price_cap_usd_per_gpu_hour",
        1.5,
        2.0,
    )
    assert place(arguments(**asked, output="table"), opener(cluster)) == 2
    assert capsys.readouterr().out.startswith("spare would fit the request with all of these:")


def test_who_pays_and_what_is_preferred_come_from_the_catalogue(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The DAG or the team tells the tenant; a profile that does not exist is refused."""
    path = tmp_path / "c.yaml"
    tenants = [
        {"name": "speech", "dags": ["asr*"], "pools": ["elsewhere"]},
        {"name": "text", "dags": ["llm*"], "teams": ["nlp"], "max_priority": 5},
    ]
    entries = [pool_entry("onprem-h100"), pool_entry("elsewhere", node_selector={"gpu": "no"})]
    path.write_text(yaml.safe_dump({"version": 1, "pools": entries, "tenants": tenants}))
    asked = {"catalog": str(path), "gpus_per_node": "1", "priority": "9", "profile": "fastest"}

    with pytest.raises(RequestError, match="say who pays: --dag DAG_ID, or --team TEAM"):
        place(arguments(**asked), opener(cluster))
    for who in ({"dag": "llm_daily"}, {"team": "nlp"}):
        assert place(arguments(**asked, **who), opener(cluster)) == 0
        told = capsys.readouterr()
        record = json.loads(told.out)
        assert record["setting"]["tenant"]["name"] == "text"
        assert record["setting"]["profile"]["name"] == "fastest"
        assert record["request"]["priority"] == 5
        assert told.err == "warning: priority 9 counts as 5, the most of tenant text\n"
    assert place(arguments(**asked, dag="asr_daily"), opener(cluster)) in {1, 2}
    record = json.loads(capsys.readouterr().out)
    refused = next(one for one in record["verdicts"] if one["pool"] == "onprem-h100")
    assert [reason["code"] for reason in refused["reasons"]] == ["TenantNotAllowed"]
    with pytest.raises(RequestError, match="no profile 'fastet'; did you mean 'fastest'"):
        place(arguments(**{**asked, "profile": "fastet", "team": "nlp"}), opener(cluster))
