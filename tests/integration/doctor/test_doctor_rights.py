"""What an administrator of the cluster mends: rights and namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.integration.cli_support import write_catalog
from tests.integration.cluster_support import opener
from tests.integration.doctor.support import paste
from tests.integration.rights import drop_bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab import Cluster
    from tests.integration.cli_support import AirflowHome
    from tests.integration.doctor.support import Doctor

pytestmark = pytest.mark.lab


@pytest.fixture
def visitor(cluster: Cluster) -> Iterator[str]:
    """Return a user without rights, who has none again in the end."""
    yield "visitor"
    drop_bindings(cluster, "visitor")


@pytest.mark.provokes("RightsMissing")
def test_missing_rights_are_granted_by_the_commands_that_are_told(
    cluster: Cluster, healthy: Path, airflow: AirflowHome, visitor: str, ask: Callable[..., Doctor]
) -> None:
    """A user with no right at all gets them by three commands of an administrator."""
    asked = ask(healthy, opener(cluster, visitor))
    findings = asked.findings()
    assert [one["id"] for one in findings] == ["RightsMissing"] * 3
    assert all("user 'visitor' may not" in one["what"] for one in findings)
    for finding in findings:
        paste(airflow, finding, cluster)
    assert asked.findings() == []


def test_one_missing_right_is_named(
    cluster: Cluster,
    healthy: Path,
    namespace: str,
    airflow: AirflowHome,
    visitor: str,
    ask: Callable[..., Doctor],
) -> None:
    """With all but one, the finding names that one."""
    asked = ask(healthy, opener(cluster, visitor))
    for finding in asked.findings():
        paste(airflow, finding, cluster)
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/gpu-placement-jobs"
    role = cluster.api.get(path)
    for rule in role["rules"]:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != "delete"]
    cluster.api.put(path, role)
    (finding,) = asked.findings()
    assert finding["what"] == f"user 'visitor' may not, in namespace {namespace}: delete jobs"
    paste(airflow, finding, cluster)
    assert asked.findings() == []


@pytest.mark.provokes("NamespaceMissing")
def test_a_missing_namespace_is_made_by_the_command_that_is_told(
    cluster: Cluster, healthy: Path, airflow: AirflowHome, ask: Callable[..., Doctor]
) -> None:
    """Nothing else is wrong there."""
    (entry,) = yaml.safe_load(healthy.read_text())["pools"]
    absent = f"{entry['namespace']}-new"
    asked = ask(write_catalog(healthy, {**entry, "namespace": absent}))
    (finding,) = asked.findings()
    assert finding["id"] == "NamespaceMissing"
    try:
        paste(airflow, finding, cluster)
        assert asked.findings() == []
    finally:
        cluster.api.delete(f"/api/v1/namespaces/{absent}")
