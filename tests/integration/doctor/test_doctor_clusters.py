"""What is wrong with a cluster or the way to it: provoked, mended as told, and gone."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.integration.cli_support import connection, pool_entry, write_catalog
from tests.integration.doctor.api_proxy import ApiProxy
from tests.integration.doctor.support import opener_of, paste

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster
    from tests.integration.cli_support import AirflowHome
    from tests.integration.doctor.support import Answers, Doctor

pytestmark = pytest.mark.lab


@pytest.mark.timeout(600)  # ten Airflow commands, each a start of Airflow
@pytest.mark.provokes("ClusterUnreachable", "ClusterUnusable", "ConnectionMissing", "CredentialsRefused")
def test_ways_to_a_cluster_are_mended_by_the_commands_that_are_told(
    cluster: Cluster, namespace: str, airflow: AirflowHome, tmp_path: Path, answers: Answers
) -> None:
    """The real command and stored connections: none, a dead address, a bad token, a path too much."""
    server = {"dead": "https://127.0.0.1:9", "bad": cluster.server, "astray": f"{cluster.server}/dashboard"}
    (tmp_path / "connections.json").write_text(
        json.dumps({name: _stored(cluster, address, name == "bad") for name, address in server.items()})
    )
    path = write_catalog(
        tmp_path / "c.yaml",
        *(pool_entry(one, kubernetes_conn_id=one, namespace=namespace) for one in (*server, "none")),
    )
    assert airflow.shell(f"airflow connections import {tmp_path}/connections.json").returncode == 0

    ran = airflow.run("doctor", "--catalog", str(path), "-o", "json")

    assert ran.returncode == 1, ran.stderr
    findings = json.loads(ran.stdout)
    answers.note(findings)
    assert [(one["id"], one["where"]) for one in findings] == [
        ("ClusterUnreachable", "connection 'dead'"),
        ("ClusterUnusable", "connection 'astray'"),
        ("ConnectionMissing", "connection 'none'"),
        ("CredentialsRefused", "connection 'bad'"),
    ]
    for finding in findings:
        paste(airflow, finding, cluster)
    ran = airflow.run("doctor", "--catalog", str(path), "-o", "json")
    # All lead to one cluster now, so all that is left is that they offer the same nodes.
    answers.note(json.loads(ran.stdout))
    assert set(answers.ids[-1]) == {"PoolsOverlap"}


def _stored(cluster: Cluster, server: str, bad_token: bool) -> dict[str, Any]:
    """Return a connection as Airflow's own import takes it."""
    config = copy.deepcopy(cluster.kubeconfig())
    config["clusters"][0]["cluster"]["server"] = server
    if bad_token:
        config["users"][0]["user"] = {"token": "not-a-token"}
    return {**connection(cluster), "extra": json.dumps({"kube_config": json.dumps(config)})}


@pytest.mark.parametrize(
    ("seconds", "want"), [pytest.param(120, "ahead of", id="ahead"), pytest.param(-60, "behind", id="behind")]
)
@pytest.mark.provokes("ClockSkew")
def test_a_wrong_clock_is_set_by_the_commands_that_are_told(
    cluster: Cluster,
    healthy: Path,
    airflow: AirflowHome,
    ask: Callable[..., Doctor],
    seconds: int,
    want: str,
) -> None:
    """The commands run as they are; what sets the clock of a machine sets that of the server's answers."""
    with ApiProxy.before(cluster) as proxy:
        asked = ask(healthy, opener_of({"gpu": proxy.kubeconfig(cluster)}))
        assert asked.findings() == []
        proxy.clock_ahead_seconds = seconds
        (finding,) = asked.findings()
        assert finding["id"] == "ClockSkew"
        told = re.search(rf"its clock is (\d+) s {want} ours", finding["what"])
        assert told is not None
        assert abs(int(told[1]) - abs(seconds)) <= 3
        programs = airflow.home / "bin"
        programs.mkdir()
        _program(programs / "sudo", 'exec "$@"')
        _program(programs / "timedatectl", f'echo "$@" >> {programs}/asked')
        paste(airflow, finding, cluster, PATH=f"{programs}:{airflow.environment['PATH']}")
        assert (programs / "asked").read_text() == "set-ntp true\n"
        proxy.clock_ahead_seconds = 0
        assert asked.findings() == []


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.provokes("KubernetesTooOld")
def test_an_old_cluster_is_upgraded_step_by_step_as_told(
    cluster: Cluster, healthy: Path, ask: Callable[..., Doctor]
) -> None:
    """Every step that is told is needed, and the last is enough."""
    with ApiProxy.before(cluster) as proxy:
        asked = ask(healthy, opener_of({"gpu": proxy.kubeconfig(cluster)}))
        proxy.git_version = "v1.29.4"
        (finding,) = asked.findings()
        assert finding["id"] == "KubernetesTooOld"
        told = re.search(r"one minor version at a time: ([0-9.]+(?: -> [0-9.]+)+);", finding["fix"]["text"])
        assert told is not None
        now, *steps = told[1].split(" -> ")
        assert (now, proxy.url in finding["fix"]["text"]) == ("1.29", True)
        for step in steps:
            assert [one["id"] for one in asked.findings()] == ["KubernetesTooOld"]
            proxy.git_version = f"v{step}.0"
        assert asked.findings() == []


def test_the_pools_of_an_old_cluster_are_taken_out_as_told(
    cluster: Cluster, healthy: Path, ask: Callable[..., Doctor]
) -> None:
    """The other way, for those who cannot upgrade now: the pools are named."""
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    write_catalog(healthy, entry, {**entry, "name": "old", "kubernetes_conn_id": "old"})
    with ApiProxy.before(cluster) as proxy:
        proxy.git_version = "v1.30.14-eks-1"
        configs = {"gpu": cluster.kubeconfig(), "old": proxy.kubeconfig(cluster)}
        asked = ask(healthy, opener_of(configs))
        (finding,) = (one for one in asked.findings() if one["id"] == "KubernetesTooOld")
        told = re.search(r"take out of the catalogue, below 'pools': (.+)$", finding["fix"]["text"])
        assert told is not None
        document = yaml.safe_load(healthy.read_text())
        left = [one for one in document["pools"] if repr(one["name"]) not in told[1]]
        write_catalog(healthy, *left)
        assert asked.findings() == []
