"""Fixtures of the system tests: one Airflow for the whole session.

Starting Airflow costs about ten seconds on two cores, so all system tests of a session share one. A test
therefore uses dag ids of its own (``unique_dag_id``), adds its DAG file by ``airflow_processes.add_dag``
and looks only at its own runs. A test that kills a component starts it again before it ends.
"""

from __future__ import annotations

import re
import signal
import uuid
from typing import TYPE_CHECKING

import pytest

from lab import Lab
from lab.airflow.servers import COMPONENTS, AirflowProcesses
from tests.harness.recorder import JobRecorder
from tests.system import fleet, outcome_fleet
from tests.system.outcome_ground import plays_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from lab.airflow.client import AirflowClient
    from tests.harness.side_by_side import Plays
    from tests.system.outcome_ground import Stage

#: Scenarios that are played side by side hold this many tasks at the same time, and some of them twice.
PARALLEL_TASKS = 16


@pytest.fixture(scope="session")
def gpu_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run the clusters that jobs are placed on, with the namespace for them."""
    with Lab.up(
        fleet.SPEC, name=f"system-{uuid.uuid4().hex[:6]}", home=tmp_path_factory.mktemp("lab")
    ) as lab:
        for cluster in lab.clusters:
            cluster.api.post("/api/v1/namespaces", {"metadata": {"name": fleet.NAMESPACE}})
        yield lab


@pytest.fixture(scope="session")
def recorder(gpu_fleet: Lab) -> Iterator[JobRecorder]:
    """Follow every remote job of the session, beside the product."""
    with JobRecorder(gpu_fleet, fleet.NAMESPACE) as following:
        yield following


@pytest.fixture(scope="session")
def outcome_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run the clusters on which remote jobs come to every kind of end."""
    name = f"outcomes-{uuid.uuid4().hex[:6]}"
    with Lab.up(outcome_fleet.SPEC, name=name, home=tmp_path_factory.mktemp("lab")) as lab:
        outcome_fleet.prepare(lab)
        yield lab


@pytest.fixture(scope="session")
def outcome_recorder(outcome_lab: Lab) -> Iterator[JobRecorder]:
    """Follow every remote job on those clusters."""
    with JobRecorder(outcome_lab, outcome_fleet.NAMESPACE) as following:
        yield following


@pytest.fixture(scope="module")
def outcome_plays(
    request: pytest.FixtureRequest,
    outcome_lab: Lab,
    airflow_processes: AirflowProcesses,
    outcome_recorder: JobRecorder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Plays[Stage]]:
    """Play the module's ``CASES`` on those clusters."""
    yield from plays_of(
        request,
        request.module.CASES,
        lab=outcome_lab,
        airflow=airflow_processes,
        recorder=outcome_recorder,
        root=tmp_path_factory.mktemp("outcomes"),
    )


@pytest.fixture(scope="session")
def catalog_path(gpu_fleet: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the catalogue of the fleet."""
    return fleet.write_catalog(gpu_fleet, tmp_path_factory.mktemp("catalog") / "pools.yaml")


@pytest.fixture(scope="session")
def airflow_connections(gpu_fleet: Lab) -> Mapping[str, Mapping[str, Any]]:
    """Return the connections of the session's Airflow by id."""
    return fleet.connections(gpu_fleet)


@pytest.fixture(scope="session")
def airflow_extra_env(catalog_path: Path) -> Mapping[str, str]:
    """Return more environment of the session's Airflow."""
    return fleet.airflow_environment(catalog_path)


@pytest.fixture(scope="session")
def airflow_processes(
    airflow_connections: Mapping[str, Mapping[str, Any]], airflow_extra_env: Mapping[str, str]
) -> Iterator[AirflowProcesses]:
    """Run scheduler, dag-processor, API server and triggerer for the session."""
    with AirflowProcesses(
        connections=airflow_connections, extra_env=airflow_extra_env, parallelism=PARALLEL_TASKS
    ) as processes:
        yield processes


@pytest.fixture
def airflow(airflow_processes: AirflowProcesses) -> Iterator[AirflowProcesses]:
    """Return the session's Airflow, with every component alive before and after the test.

    A component that the test killed and left dead is started again, so that the next test is not the one to
    fail.
    """
    airflow_processes.check_alive()
    yield airflow_processes
    for name, status in airflow_processes.status().items():
        if status.exit_code is not None:
            if name in COMPONENTS:
                airflow_processes.start(name)
        else:
            airflow_processes.kill(name, signal.SIGCONT)


@pytest.fixture
def airflow_client(airflow: AirflowProcesses) -> AirflowClient:
    """Return the REST client of the admin user."""
    return airflow.client


@pytest.fixture
def unique_dag_id(request: pytest.FixtureRequest) -> str:
    """Return a dag id that no other test uses and that names this test."""
    return f"{re.sub(r'[^a-z0-9_]+', '_', request.node.name.lower())[:60]}_{uuid.uuid4().hex[:6]}"
