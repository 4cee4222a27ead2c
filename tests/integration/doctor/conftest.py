"""A test marked ``provokes`` has to see each of its findings, and to see it gone at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.cli_support import AirflowHome, pool_entry, write_catalog
from tests.integration.cluster_support import opener
from tests.integration.doctor.support import Answers, Doctor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from lab import Cluster

_ANSWERS = pytest.StashKey[Answers]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Compare what a test says it provokes with what the doctor really said."""
    result = yield
    promised = {one for mark in pyfuncitem.iter_markers("provokes") for one in mark.args}
    answers = pyfuncitem.stash.get(_ANSWERS, Answers())
    kept = {one for one in promised if answers.gone(one)}
    assert kept == promised, f"not provoked, or not mended: {promised - kept} in {answers.ids}"
    return result


@pytest.fixture
def answers(request: pytest.FixtureRequest) -> Answers:
    """Return what the doctor said so far in this test."""
    stash: pytest.Stash = request.node.stash
    return stash.setdefault(_ANSWERS, Answers())


@pytest.fixture
def healthy(namespace: str, tmp_path: Path) -> Path:
    """Return a catalogue without any finding."""
    return write_catalog(tmp_path / "c.yaml", pool_entry("h100", namespace=namespace))


@pytest.fixture
def ask(cluster: Cluster, answers: Answers, capsys: pytest.CaptureFixture[str]) -> Callable[..., Doctor]:
    """Return what makes a doctor for a catalogue; the cluster is opened directly unless told otherwise."""

    def make(catalog: Path, open_cluster: OpenCluster | None = None) -> Doctor:
        return Doctor(catalog, open_cluster or opener(cluster), capsys, answers)

    return make


@pytest.fixture
def airflow(tmp_path: Path) -> AirflowHome:
    """Return an Airflow of its own."""
    return AirflowHome(tmp_path / "airflow")
