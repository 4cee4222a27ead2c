"""Asking the doctor, and carrying out literally what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from airflow_gpu_placement.cli.doctor.command import doctor
from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from tests.integration.cli_support import AirflowHome, arguments

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from lab import Cluster

Finding = dict[str, Any]


class Answers:
    """What the doctor said in one test, in order: the ids of the findings of each time it was asked."""

    def __init__(self) -> None:
        self.ids: list[list[str]] = []

    def note(self, findings: list[Finding]) -> None:
        """Note one answer."""
        self.ids.append([one["id"] for one in findings])

    def gone(self, finding_id: str) -> bool:
        """Whether something was found, and at the end no more."""
        return any(finding_id in told for told in self.ids) and finding_id not in self.ids[-1]


class Doctor:
    """Asks the doctor about a catalogue, and mends what it finds."""

    def __init__(
        self, catalog: Path, open_cluster: OpenCluster, capsys: pytest.CaptureFixture[str], answers: Answers
    ) -> None:
        self.catalog = catalog
        self.open_cluster = open_cluster
        self._capsys = capsys
        self._answers = answers

    def findings(self) -> list[Finding]:
        """Return the findings; the exit code has to agree with them."""
        self._capsys.readouterr()
        code = doctor(arguments(catalog=str(self.catalog)), self.open_cluster)
        found: list[Finding] = json.loads(self._capsys.readouterr().out)
        assert code == (1 if found else 0)
        self._answers.note(found)
        return found

    def write(self, finding: Finding, **known: str) -> None:
        """Paste the lines of a finding into the entries that they name; one of a new name is added.

        :param known: what a person fills in, by the place's word.
        """
        fix = finding["fix"]
        assert fix["kind"] == "catalog"
        assert set(fix.get("fill_in", {})) == {f"<{word}>" for word in known}
        text = fix["text"]
        for word, value in known.items():
            text = text.replace(f"<{word}>", value)
        document = yaml.safe_load(self.catalog.read_text())
        for section, entries in yaml.safe_load(text).items():
            for given in entries:
                there = [one for one in document[section] if one["name"] == given["name"]]
                if not there:
                    there = [{}]
                    document[section] += there
                there[0].update(given)
        self.catalog.write_text(yaml.safe_dump(document, sort_keys=False))


def paste(airflow: AirflowHome, finding: Finding, cluster: Cluster, **more: str) -> None:
    """Run the command of a finding in a shell, as an administrator of the cluster.

    :param more: environment; the variables that the finding asks for have to be among it.
    """
    fix = finding["fix"]
    assert fix["kind"] == "command"
    environment = {"KUBECONFIG": str(cluster.kubeconfig_path()), **more}
    assert {place.removeprefix("$") for place in fix.get("fill_in", {})} <= set(environment)
    ran = airflow.shell(fix["text"], **environment)
    assert ran.returncode == 0, ran.stderr


def opener_of(configs: Mapping[str, dict[str, Any]]) -> OpenCluster:
    """Return a function that opens clusters by connection id, as the hook does."""

    async def open_cluster(conn_id: str, context: str | None) -> ClusterClient:
        return await client_from_kubeconfig(configs[conn_id], context)

    return open_cluster
