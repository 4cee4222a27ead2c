"""How soon a lost node is noticed and its job placed again, and that a pause is no loss.

    python -m benchmarks.node_loss [--losses 20] [--pauses 20] [--node-grace-seconds 60] [--json FILE]

Starts two clusters of real control planes and a real Airflow, runs one remote job on each of many nodes, and
switches nodes off at random phases of their renewal; other nodes only pause. In the same run the same power
loss hits jobs of Airflow's KubernetesJobOperator, and an API server is restarted. Nothing is left running.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks import telling
from benchmarks.losses import figures, fleet
from lab import Lab
from lab.airflow.rest import ApiError
from lab.airflow.servers import AirflowProcesses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab import Cluster

PAUSE_SECONDS = 20.0
START_SECONDS = 600.0
REPLACED_SECONDS = 180.0
QUIET_SECONDS = 60.0
"""After the restart of the API server: long enough for a wrong verdict to show."""

_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\S+) .*?(suspected: |NodeLost: |Created remote job )", re.MULTILINE)
_IDENTITY = "airflow-gpu-placement/identity"
_tell = telling.progress()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    args = _parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(width=None if sys.stdout.isatty() else 130)
    jobs = args.losses + args.pauses
    with (
        tempfile.TemporaryDirectory(prefix="node-loss-") as folder,
        Lab.up(fleet.spec(jobs), name="node-loss", home=Path(folder) / "lab", progress=_tell) as lab,
    ):
        for name in fleet.sources(jobs):
            for cluster in lab.clusters:
                cluster.api.post("/api/v1/namespaces", {"metadata": {"name": fleet.namespace_of(name)}})
        catalog = fleet.write_catalog(Path(folder) / "pools.yaml", lab, args.node_grace_seconds)
        with AirflowProcesses(
            connections=fleet.connections(lab), extra_env={"AIRFLOW__GPU_PLACEMENT__CATALOG": str(catalog)}
        ) as airflow:
            report = _Run(args, lab, airflow).run()
    console.print(figures.table(report))
    for line in figures.notes(report):
        console.print(f"- {line}", highlight=False, markup=False)
    if args.json:
        args.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    return 0


class _Run:
    """One run on a fleet that is up."""

    def __init__(self, args: argparse.Namespace, lab: Lab, airflow: AirflowProcesses) -> None:
        self._args = args
        self._home: Cluster = lab.cluster(fleet.HOME)
        self._haven: Cluster = lab.cluster(fleet.HAVEN)
        self._airflow = airflow
        self._random = random.Random(args.seed)
        self._run_ids: dict[str, str] = {}
        self._lost_at: dict[str, tuple[float, float]] = {}  # node -> moment, phase
        self._over = threading.Event()

    def run(self) -> figures.Report:
        """Start the jobs, play the faults, and read what came of them."""
        jobs = self._args.losses + self._args.pauses
        for dag_id, source in fleet.sources(jobs).items():
            self._airflow.add_dag(dag_id, source)
        self._home.api.patch(f"/api/v1/nodes/{fleet.PEER_NODES[2]}", {"spec": {"unschedulable": True}})
        self._run_ids = {dag_id: self._airflow.client.trigger(dag_id) for dag_id in fleet.sources(jobs)}
        node_of = self._all_running(jobs)
        numbers = sorted(node_of)
        lost, paused = numbers[: self._args.losses], numbers[self._args.losses :]
        with ThreadPoolExecutor(max_workers=jobs + len(fleet.PEERS)) as pool:
            peers = [pool.submit(self._lose_peer, dag_id) for dag_id in fleet.PEERS]
            try:
                self._play(pool, [node_of[number] for number in lost], [node_of[n] for n in paused])
                losses = [self._measure(number, node_of[number]) for number in lost]
                by_pauses = self._moves(paused)
                by_restart = self._restart(numbers)
            finally:
                self._over.set()
            measured = [peer.result() for peer in peers]
        return figures.Report(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=telling.machine(),
            node_grace_seconds=self._args.node_grace_seconds,
            losses=losses,
            pauses=len(paused),
            pause_seconds=PAUSE_SECONDS,
            moves_by_pauses=by_pauses,
            moves_by_restart=by_restart,
            peers=measured,
        )

    def _all_running(self, jobs: int) -> dict[int, str]:
        """Wait until every job runs; return the node of each map index."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = self._running()
            peers = [self._pods(dag_id, phase="Running") for dag_id in fleet.PEERS]
            if len(found) == jobs and all(peers):
                _tell(f"{jobs} remote jobs and {len(peers)} of the peer run")
                return found
            if time.monotonic() > deadline:
                raise SystemExit(f"only {len(found)} of {jobs} jobs run\n{self._airflow.server_logs(15)}")
            time.sleep(1.0)

    def _running(self) -> dict[int, str]:
        identities = {
            job["metadata"]["name"]: json.loads(job["metadata"]["annotations"][_IDENTITY])
            for job in self._home.api.get(f"/apis/batch/v1/namespaces/{fleet.NAMESPACE}/jobs")["items"]
        }
        return {
            int(identities[pod["metadata"]["labels"]["job-name"]]["map_index"]): pod["spec"]["nodeName"]
            for pod in self._pods(fleet.DAG_ID, phase="Running")
        }

    def _pods(self, dag_id: str, phase: str | None = None) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{fleet.namespace_of(dag_id)}/pods"
        pods: list[dict[str, Any]] = self._home.api.get(path)["items"]
        return [pod for pod in pods if phase in (None, pod["status"].get("phase"))]

    def _play(self, pool: ThreadPoolExecutor, lost: Sequence[str], paused: Sequence[str]) -> None:
        """Lose a node and pause another, again and again, at random phases of their renewals."""
        pauses = iter(paused)
        playing = []
        for name in lost:
            time.sleep(self._random.uniform(0, fleet.RENEW_SECONDS))
            self._lose(name)
            pause = next(pauses, None)
            if pause is not None:
                playing.append(pool.submit(self._pause, pause, self._random.uniform(0, fleet.RENEW_SECONDS)))
            time.sleep(self._args.gap_seconds)
        playing += [pool.submit(self._pause, name, 0.0) for name in pauses]
        for one in playing:
            one.result()

    def _lose(self, name: str) -> None:
        lease = self._home.api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
        now = time.time()
        self._home.node(name).power_off()
        self._lost_at[name] = (now, now - renewed)
        _tell(f"{name} has lost power {now - renewed:.1f} s after its renewal")

    def _pause(self, name: str, delay_seconds: float) -> None:
        time.sleep(delay_seconds)
        node = self._home.node(name)
        node.freeze()
        time.sleep(PAUSE_SECONDS)
        node.thaw()
        _tell(f"{name} has paused")

    def _measure(self, number: int, name: str) -> figures.Loss:
        """Wait until the job of a lost node is placed again; read the moments from the logs of its tries."""
        at, phase = self._lost_at[name]
        first: dict[str, float] = {}
        second: dict[str, float] = {}
        deadline = time.monotonic() + REPLACED_SECONDS
        while "Created remote job" not in second and time.monotonic() < deadline:
            first, second = self._moments(number, 1, at), self._moments(number, 2, at)
            time.sleep(1.0)
        suspected, lost = first.get("suspected:"), first.get("NodeLost:")
        created = second.get("Created remote job")
        return figures.Loss(
            node=name,
            phase_seconds=phase,
            suspected_seconds=None if suspected is None else suspected - at,
            lost_seconds=None if lost is None else lost - at,
            replaced_seconds=None if created is None or lost is None else created - lost,
        )

    def _moments(self, number: int, try_number: int, after: float) -> dict[str, float]:
        """Return when the log of a try first told each thing after a moment."""
        found: dict[str, float] = {}
        with suppress(ApiError):
            text = self._airflow.client.task_log(
                fleet.DAG_ID, self._run_ids[fleet.DAG_ID], "train", try_number, number
            )
            for stamp, what in _STAMP.findall(text):
                moment = datetime.fromisoformat(stamp).timestamp()
                if moment > after:
                    found.setdefault(what.strip(), moment)
        return found

    def _moves(self, numbers: Sequence[int]) -> int:
        """Count the jobs among these tasks that were placed more than once."""
        instances = self._airflow.client.task_instances(fleet.DAG_ID, self._run_ids[fleet.DAG_ID])
        tries = {instance.map_index: instance.try_number for instance in instances}
        return sum(tries[number] - 1 for number in numbers)

    def _restart(self, numbers: Sequence[int]) -> int:
        """Kill the API server and start it again; return how many jobs moved by it."""
        before = self._moves(numbers)
        self._home.api_server.kill()
        self._home.api_server.start()
        _tell("the API server was restarted")
        time.sleep(QUIET_SECONDS)
        return self._moves(numbers) - before

    def _lose_peer(self, dag_id: str) -> figures.PeerLoss:
        """Lose the node of a peer's job and wait for its next pod until the run is over."""
        (pod,) = self._pods(dag_id, phase="Running")
        spare = fleet.PEER_NODES[2]
        self._home.api.patch(f"/api/v1/nodes/{spare}", {"spec": {"unschedulable": None}})
        started = time.monotonic()
        self._home.node(pod["spec"]["nodeName"]).power_off()
        found: float | None = None
        while found is None and not self._over.wait(1.0):
            with suppress(OSError):
                if {one["metadata"]["uid"] for one in self._pods(dag_id)} - {pod["metadata"]["uid"]}:
                    found = time.monotonic() - started
        return figures.PeerLoss(
            title=fleet.PEERS[dag_id], replaced_seconds=found, watched_seconds=time.monotonic() - started
        )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node_loss", description=__doc__)
    parser.add_argument("--losses", type=int, default=20, help="how many nodes lose power (20)")
    parser.add_argument("--pauses", type=int, default=20, help="how many nodes pause for 20 s (20)")
    parser.add_argument(
        "--node-grace-seconds", type=float, default=60, help="silence after which a node is lost (60)"
    )
    parser.add_argument("--gap-seconds", type=float, default=8, help="pause between two losses (8)")
    parser.add_argument("--seed", type=int, default=None, help="of the random phases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    args = parser.parse_args(argv)
    if args.losses < 1 or args.pauses < 0:
        parser.error("give at least one loss and no negative number of pauses")
    return args


if __name__ == "__main__":
    sys.exit(main())
