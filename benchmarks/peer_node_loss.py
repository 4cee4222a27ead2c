"""The same power loss under Airflow's KubernetesJobOperator and under GpuTrainingJobOperator, side by side.

    python -m benchmarks.peer_node_loss [--speed fast|real] [--window-seconds N] [--json FILE]

Starts a cluster of real control planes with two GPU nodes and a real Airflow, trains the same program under
each contender on the first node, switches that node off and looks what happens. Nothing is left running.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import telling
from benchmarks.peer import report as reports
from benchmarks.peer.contenders import (
    CLUSTER,
    FIRST_NODE,
    SECOND_NODE,
    connections,
    contenders,
    fleet,
    write_catalog,
)
from benchmarks.peer.observe import Observer, ready
from benchmarks.peer.samples import (
    Measurement,
    all_ended,
    jobs_created,
    moments,
    most_copies,
    state_text,
)
from benchmarks.peer.speed import SPEEDS
from lab import Lab
from lab.airflow.servers import AirflowProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peer.contenders import Contender
    from benchmarks.peer.samples import Sample, View
    from benchmarks.peer.speed import Speed
    from lab import Cluster

#: The lab's Airflow gives up silent tasks early, for tests; here it is as patient as by default.
AIRFLOW_OPTIONS = {"scheduler": {"task_instance_heartbeat_timeout": 300}}
MIN_EPOCH = 3
START_TIMEOUT_SECONDS = 240.0
RETURN_TIMEOUT_SECONDS = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    args = _parse(argv)
    # A polite end must end what was started as well: both contexts below close on an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(width=None if sys.stdout.isatty() else 160)
    speed = SPEEDS[args.speed]
    console.print(speed.describe(), highlight=False)
    report = run(args, speed, telling.progress())
    console.print(reports.table(report))
    for line in reports.notes(report):
        console.print(f"- {line}", highlight=False, markup=False)
    if args.json:
        args.json.write_text(json.dumps(reports.as_json(report), indent=1) + "\n", encoding="utf-8")
        console.print(f"figures written to {args.json}")
    if args.markdown:
        args.markdown.write_text(reports.markdown(report) + "\n", encoding="utf-8")
    return 0


def run(args: argparse.Namespace, speed: Speed, tell: Callable[[str], None]) -> reports.Report:
    """Start everything, lose the node, look, stop everything."""
    with tempfile.TemporaryDirectory(prefix="peer-node-loss-") as folder:
        home = Path(folder)
        shared = home / "checkpoints"
        parts = contenders(shared, speed, args.epochs, args.seconds_per_epoch)
        with Lab.up(fleet(speed), name="peer-node-loss", home=home / "lab", progress=tell) as lab:
            cluster = lab.cluster(CLUSTER)
            for one in parts:
                (shared / one.key).mkdir(parents=True)
                cluster.api.post("/api/v1/namespaces", {"metadata": {"name": one.key}})
            catalog = write_catalog(home / "pools.yaml", cluster, speed, parts[0].key)
            environment = {
                "AIRFLOW__GPU_PLACEMENT__CATALOG": str(catalog),
                "AIRFLOW__GPU_PLACEMENT__FENCE_TIMEOUT_SECONDS": str(speed.fence_timeout_seconds),
            }
            tell("starting Airflow: scheduler, dag-processor, API server, triggerer")
            with AirflowProcesses(
                connections=connections(cluster), options=AIRFLOW_OPTIONS, extra_env=environment
            ) as airflow:
                observer = _start_all(cluster, airflow, parts, shared, tell)
                return _lose_power(args, speed, cluster, observer, parts, tell)


def _start_all(
    cluster: Cluster,
    airflow: AirflowProcesses,
    parts: Sequence[Contender],
    shared: Path,
    tell: Callable[[str], None],
) -> Observer:
    """Bring all contenders to train on the first node; then open the second one."""
    _cordon(cluster, SECOND_NODE, shut=True)
    for one in parts:
        airflow.add_dag(one.dag_id, one.source)
    runs = {one.key: airflow.client.trigger(one.dag_id) for one in parts}
    tell(f"{len(runs)} DAGs are triggered; waiting until all train on node {FIRST_NODE}")
    observer = Observer(cluster, airflow.client, parts, shared, runs)

    def training(sample: Sample) -> bool:
        return all(view.epoch >= MIN_EPOCH for view in sample.views.values())

    last = observer.watch(START_TIMEOUT_SECONDS, training, _Changes(tell).look)[-1]
    not_alive = [key for key, view in last.views.items() if view.copies != 1]
    if not training(last) or not_alive:
        raise SystemExit(
            f"not all contenders train at the same time ({', '.join(not_alive) or 'too slow'}): {last.views}"
            f"\nGive more --epochs, or try again on a quieter machine.\n{airflow.server_logs(15)}"
        )
    _cordon(cluster, SECOND_NODE, shut=False)
    return observer


def _lose_power(
    args: argparse.Namespace,
    speed: Speed,
    cluster: Cluster,
    observer: Observer,
    parts: Sequence[Contender],
    tell: Callable[[str], None],
) -> reports.Report:
    node = cluster.node(FIRST_NODE)
    changes = _Changes(tell)
    observer.missed = 0
    observer.zero = time.time()
    died = node.power_off()
    tell(f"node {FIRST_NODE} has lost power: {died} processes died; looking for {args.window_seconds:g} s")
    samples = observer.watch(args.window_seconds, all_ended, changes.look)
    open_then = {one.key: observer.not_ended(one) for one in parts}
    node.start()
    cluster.api.wait(
        f"/api/v1/nodes/{FIRST_NODE}",
        lambda found: found is not None and ready(found) == "True",
        RETURN_TIMEOUT_SECONDS,
        f"node {FIRST_NODE} to be Ready again",
    )
    tell(f"node {FIRST_NODE} has power again; looking for up to {args.after_seconds:g} s")
    after = observer.watch(args.after_seconds, all_ended, changes.look)
    return reports.Report(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=telling.machine(),
        versions=_versions(cluster),
        speed=speed,
        window_seconds=args.window_seconds,
        after_seconds=args.after_seconds,
        missed_samples=observer.missed,
        contenders=[
            _measure(one, observer, args.epochs, samples, open_then[one.key], after[-1].views[one.key])
            for one in parts
        ],
    )


def _measure(
    one: Contender,
    observer: Observer,
    epochs: int,
    samples: Sequence[Sample],
    open_then: tuple[str, ...],
    after: View,
) -> Measurement:
    """Put together what is known of one contender."""
    first, last = samples[0].views[one.key], samples[-1].views[one.key]
    times = moments(samples, one.key, observer.logged(one, first.try_number), epochs)
    resumed = observer.resumed_after.get(one.key)
    return Measurement(
        key=one.key,
        title=one.title,
        settings=one.settings,
        times_seconds=times,
        jobs=jobs_created(samples, one.key),
        most_copies=most_copies(samples, one.key),
        epochs_saved=first.epoch,
        epochs_repeated=None
        if resumed is None or times["resumed"] is None
        else max(first.epoch - resumed, 0),
        state=state_text(last),
        open_then=open_then,
        state_after=state_text(after),
        left_behind=observer.not_ended(one),
    )


class _Changes:
    """Tells each change of a contender once."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last: dict[str, str] = {}

    def look(self, sample: Sample) -> None:
        """Compare with the last sample."""
        now = {"node": f"Ready={sample.node_ready}"}
        for key, view in sample.views.items():
            now[key] = f"task {state_text(view)}; {len(view.jobs)} Jobs, {view.copies} copies alive"
        for key, text in now.items():
            if self._last.get(key) != text:
                self._tell(f"{key}: {text}")
        self._last = now


def _cordon(cluster: Cluster, node: str, *, shut: bool) -> None:
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": shut or None}})


def _versions(cluster: Cluster) -> dict[str, str]:
    names = ("apache-airflow", "apache-airflow-providers-cncf-kubernetes", "airflow-gpu-placement")
    found = {name: importlib.metadata.version(name) for name in names}
    return {**found, "kubernetes": cluster.api.get("/version")["gitVersion"]}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peer_node_loss",
        description="Compare what happens to a training job whose node loses power, under Airflow's"
        " KubernetesJobOperator and under GpuTrainingJobOperator.",
    )
    parser.add_argument(
        "--speed",
        choices=SPEEDS,
        default="fast",
        help="real: every renewal, grace and time-out as it comes; fast: all of them divided by 5 (default)",
    )
    parser.add_argument(
        "--window-seconds",
        type=float,
        default=120,
        help="how long to look after the power loss (120); 700 shows Kubernetes' default eviction too",
    )
    parser.add_argument(
        "--after-seconds",
        type=float,
        default=120,
        help="how long to look at most after the power came back (120)",
    )
    parser.add_argument("--epochs", type=int, default=60, help="length of the training (60)")
    parser.add_argument("--seconds-per-epoch", type=float, default=1.0, help="length of an epoch (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here")
    args = parser.parse_args(argv)
    if args.epochs <= MIN_EPOCH:
        parser.error(f"--epochs {args.epochs}: give more than {MIN_EPOCH}, the node is lost after that many")
    for file in filter(None, (args.json, args.markdown)):
        if not file.absolute().parent.is_dir():
            parser.error(f"{file.parent} is no folder; make it first")
    return args


if __name__ == "__main__":
    sys.exit(main())
