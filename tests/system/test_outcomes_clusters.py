"""Whole clusters that fall silent, and disturbances that pass: nothing is moved for those.

Clusters count as lost after 10 seconds without an answer, or 30 seconds in which many nodes are silent.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.side_by_side import params
from tests.system.outcome_fleet import REFUGE, SHORT_GRACE_SECONDS, pool
from tests.system.outcome_ground import (
    Case,
    Launch,
    ends,
    job_exists,
    launches,
    records,
    watched,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.harness.side_by_side import Plays, Scenario
    from tests.system.outcome_ground import Stage
    from tests.system.playground import Run

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

UNREACHABLE_GRACE_SECONDS = 10
SILENT_GRACE_SECONDS = 30
FLAP_SECONDS = 20.0
OUTAGE_SECONDS = 30.0
#: More than the flap and the outage, less than Airflow users have by default.
NODE_GRACE_SECONDS = 45
REAP_TIMEOUT_SECONDS = 300.0


def silent(stage: Stage, case: Scenario[Stage]) -> None:
    """Cut three of four nodes off together: the cluster's grace counts, not the nodes'."""
    with stage.alone["dark"]:
        nodes = [stage.lab.cluster("dark").node(f"dark-{number}") for number in (1, 2, 3)]
        run = stage.start(case)
        watched(run)
        for node in nodes:
            node.partition()
        cut = time.monotonic()
        try:
            run.wait_jobs(2)
        finally:
            for node in nodes:
                node.heal()
        assert run.jobs[1].created.seen_at - cut >= SILENT_GRACE_SECONDS - 1
        watched(run, 2)
        run.finish()
        ends(run, "success", try_number=2)
    assert launches(run) == [
        Launch("dark-1", "infrastructure", "ClusterSilent"),
        Launch("refuge", "succeeded", "Complete"),
    ]
    assert "lost_nodes" not in records(run)[0]


def unreachable(stage: Stage, case: Scenario[Stage]) -> None:
    """Kill a cluster's API server until the job has moved: once it is back, its old job is withdrawn."""
    with stage.alone["dark"]:
        server = stage.lab.cluster("dark").api_server
        run = stage.start(case)
        watched(run)
        server.kill()
        try:
            run.wait_jobs(2)
        finally:
            server.start()
        first, second = run.jobs
        assert job_exists(stage.lab, "dark", first.name)
        told = _reap(stage, run)
        assert first.name in told
        assert second.name not in told
        run.until(lambda: first.closed is not None, "the old job to be withdrawn")
        assert second.live
        watched(run, 2)
        run.finish()
        ends(run, "success", try_number=2)
    assert launches(run) == [
        Launch("dark-1", "infrastructure", "ClusterUnreachable"),
        Launch("refuge", "succeeded", "Complete"),
    ]
    assert records(run)[0]["grade"] == "unknown"


def _reap(stage: Stage, run: Run) -> str:
    """Run the reaper on the case's own clusters; return what it tells."""
    airflow = stage.ground.airflow
    catalog = str(stage.ground.root / f"{run.dag_id}.yaml")
    command = [
        "gpu-placement",
        "reap",
        "--delete",
        "--min-age-minutes",
        "0",
        "--output",
        "json",
        "--catalog",
        catalog,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *command],
        env=airflow.environment,
        cwd=airflow.home,
        capture_output=True,
        text=True,
        timeout=REAP_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lease_flap(stage: Stage, case: Scenario[Stage]) -> None:
    """Stop a node's agent for 20 seconds."""
    node = stage.lab.cluster("frail").node("frail-1")

    def flap() -> None:
        node.freeze_agent()
        try:
            time.sleep(FLAP_SECONDS)
        finally:
            node.thaw()

    _undisturbed(stage, case, flap)


def api_restart(stage: Stage, case: Scenario[Stage]) -> None:
    """Kill the API server and start it again."""
    server = stage.lab.cluster("frail").api_server

    def restart() -> None:
        server.kill()
        server.start()

    _undisturbed(stage, case, restart)


def etcd_outage(stage: Stage, case: Scenario[Stage]) -> None:
    """Kill the cluster's etcd and start it again after 30 seconds."""
    etcd = stage.lab.cluster("frail").etcd

    def outage() -> None:
        etcd.kill()
        try:
            time.sleep(OUTAGE_SECONDS)
        finally:
            etcd.start()

    _undisturbed(stage, case, outage)


def _undisturbed(stage: Stage, case: Scenario[Stage], disturb: Callable[[], None]) -> None:
    """Disturb a cluster under a job, and assert that its first try ends with success all the same."""
    with stage.alone["frail"]:
        run = stage.start(case)
        watched(run)
        disturb()
        lines = _lines(run)
        run.until(lambda: _lines(run) > lines + 2, "its log to go on")
        run.finish()
        ends(run, "success", try_number=1)
    assert launches(run) == [Launch("frail-1", "succeeded", "Complete")]
    assert len(run.jobs) == 1


def _lines(run: Run) -> int:
    """Count the remote program's lines in the log of the first try."""
    return len(re.findall(r"\bline \d+", written(run, 1)))


def _case(name: str, title: str, play: Any, node: str, **own: Any) -> Case:
    return Case(id=name, title=title, play=play, pools=(pool(node, 1.0, **own), REFUGE))


FRAIL = {"node_grace_seconds": NODE_GRACE_SECONDS}
CASES = [
    _case(
        "OUT-CLUSTER.SILENT",
        "most nodes silent together: not lost at the nodes' grace (8 s), lost at the cluster's (30 s), moved",
        silent,
        "dark-1",
        node_grace_seconds=SHORT_GRACE_SECONDS,
        cluster_grace_seconds=SILENT_GRACE_SECONDS,
    ),
    _case(
        "OUT-CLUSTER.UNREACHABLE",
        "no API server for longer than cluster_grace_seconds (10 s): moved; the old job is reaped later",
        unreachable,
        "dark-1",
        cluster_grace_seconds=UNREACHABLE_GRACE_SECONDS,
    ),
    _case(
        "OUT-PASSES.LEASE-FLAP", "an agent stopped for 20 s: no move, one try", lease_flap, "frail-1", **FRAIL
    ),
    _case(
        "OUT-PASSES.API-RESTART", "an API server restarted: no move, one try", api_restart, "frail-1", **FRAIL
    ),
    _case("OUT-PASSES.ETCD-OUTAGE", "no etcd for 30 s: no move, one try", etcd_outage, "frail-1", **FRAIL),
]


@pytest.mark.parametrize("scenario", params(CASES))
@pytest.mark.usefixtures("airflow")
def test_cluster(
    outcome_plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The case's title says what must be true at its end."""
    outcome_plays.judge(scenario, record_property)
