"""What it costs to watch a thousand remote jobs, and how soon an end becomes an event.

    python -m benchmarks.watch [--jobs 1000] [--quiet-seconds 60] [--only ours] [--logs] [--json FILE]

Starts a cluster of real control planes with KWOK nodes (the first time their controller is built), creates
the Jobs, and runs the triggers of all of them in one event loop: those of the product, then those of
Airflow's KubernetesJobOperator. Nothing is left running.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from airflow_gpu_placement.engine.ranks import TRAINING_CONTAINER
from airflow_gpu_placement.model.attempt import MANAGED_LABEL
from benchmarks import telling
from benchmarks.watching.children import Ends, Triggers
from lab import ClusterSpec, Lab, LabSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab import Cluster

NAMESPACE, WARM = "training", "warm"
CONTAINER = "train"  # none whose log the product reads
GPUS_PER_NODE = 8
START_SECONDS = 300.0
END_SECONDS = 240.0
SETTLE_SECONDS = 20.0
TITLES = {"ours": "RemoteJobTrigger", "peer": "KubernetesJobTrigger"}
_tell = telling.progress()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    args = _parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="watch-bench-") as folder:
        home = Path(folder)
        spec = LabSpec((ClusterSpec("big"),))
        with Lab.up(spec, name="watch-bench", home=home / "lab", progress=_tell) as lab:
            cluster = lab.cluster("big")
            for name in (NAMESPACE, WARM):
                cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
            nodes = args.jobs // GPUS_PER_NODE + 1
            cluster.kwok.add_nodes(nodes, "onprem-h100-sxm", gpus=GPUS_PER_NODE, progress=_tell)
            _tell(f"{nodes} KWOK nodes are ready")
            rows = {kind: _measure(kind, args, cluster, home) for kind in TITLES if args.only in {None, kind}}
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": telling.machine(),
        "jobs": args.jobs,
        **rows,
    }
    Console(width=None if sys.stdout.isatty() else 120).print(_table(report))
    print(f"- {report['date']}; {report['machine']}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure(kind: str, args: argparse.Namespace, cluster: Cluster, home: Path) -> dict[str, Any]:
    """Create the Jobs, watch them with one kind of trigger, let them end, and delete them."""
    container = TRAINING_CONTAINER if args.logs else CONTAINER
    (warm,) = _create(kind, container, 1, cluster, WARM)
    jobs = _create(kind, container, args.jobs, cluster, NAMESPACE)
    _tell(f"{len(jobs)} Jobs run; watching them with {TITLES[kind]}")
    ended = Ends(cluster, NAMESPACE)
    child = Triggers(kind, warm, jobs, cluster, home)
    try:
        one = child.wait(lambda line: line["kind"] == "one", START_SECONDS)
        child.wait(
            lambda line: line["kind"] == "all" and line["at"] > one["at"] + SETTLE_SECONDS, START_SECONDS
        )
        before = child.last
        child.wait(lambda line: line["at"] > before["at"] + args.quiet_seconds, args.quiet_seconds + 60)
        after = child.last
        _tell("all of them end")
        _finish(cluster, args.jobs / args.ends_per_second)
        child.wait(lambda _line: len(child.events) == len(jobs), END_SECONDS)
        last = child.last
    finally:
        child.close()
        ended.close()
        for name in (NAMESPACE, WARM):
            _delete(cluster, name)
    delays = [child.events[name] - ended.at[name] for name in child.events if name in ended.at]
    return {
        "bytes_per_job": (after["rss"] - one["rss"]) / len(jobs),
        "quiet_cpu_ms_per_job_minute": 60_000
        * (after["cpu"] - before["cpu"])
        / (after["at"] - before["at"])
        / len(jobs),
        "start_and_end_cpu_ms_per_job": 1000
        * (last["cpu"] - one["cpu"] - (after["cpu"] - before["cpu"]))
        / len(jobs),
        "events": len(delays),
        "event_p50_seconds": statistics.median(delays),
        "event_p99_seconds": telling.quantile(delays, 0.99),
        "longest_block_seconds": last["block"],
    }


def _create(kind: str, container: str, count: int, cluster: Cluster, namespace: str) -> list[dict[str, str]]:
    """Create Jobs of one GPU each and wait until the pods of all run."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    with ThreadPoolExecutor(16) as pool:
        bodies = [_job(f"{kind}-{number:04}", container) for number in range(count)]
        made = list(pool.map(lambda body: cluster.api.post(path, body), bodies))
    deadline = time.monotonic() + START_SECONDS
    while True:
        pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        running = {
            pod["metadata"]["labels"]["job-name"]: pod["metadata"]["name"]
            for pod in pods
            if pod["status"].get("phase") == "Running"
        }
        if len(running) == count:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"only {len(running)} of {count} pods run")
        time.sleep(1.0)
    return [
        {
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "namespace": namespace,
            "container": container,
            "pod": running[job["metadata"]["name"]],
        }
        for job in made
    ]


def _job(name: str, container: str) -> dict[str, Any]:
    labels = {MANAGED_LABEL: "true"}
    gpus = {"nvidia.com/gpu": "1"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"lab/node": "kwok"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": container, "image": "lab/sleep", "resources": {"limits": gpus}}],
                },
            },
        },
    }


def _finish(cluster: Cluster, seconds: float) -> None:
    """Let the pods end one after the other, evenly over some seconds."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    pods = cluster.api.get(path)["items"]
    patch = {"metadata": {"annotations": {"lab/complete-after": "0s"}}}
    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        for number, pod in enumerate(pods):
            time.sleep(max(0.0, began + seconds * number / len(pods) - time.monotonic()))
            pool.submit(cluster.api.patch, f"{path}/{pod['metadata']['name']}", patch)


def _delete(cluster: Cluster, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api.delete(path, {"propagationPolicy": "Background"}, gracePeriodSeconds=0)
    cluster.api.wait(
        f"/api/v1/namespaces/{namespace}/pods", lambda found: not found["items"], END_SECONDS, "no pods left"
    )


def _table(report: dict[str, Any]) -> Table:
    table = Table(title=f"{report['jobs']} remote jobs of one cluster in one event loop")
    table.add_column("")
    kinds = [kind for kind in TITLES if kind in report]
    for title in [TITLES[kind] for kind in kinds] + ["ratio"] * (len(kinds) - 1):
        table.add_column(title, justify="right")
    rows = (
        ("memory a job (kB)", "bytes_per_job", 1e-3),
        ("CPU a job and quiet minute (ms)", "quiet_cpu_ms_per_job_minute", 1.0),
        ("CPU a job to begin and to end (ms)", "start_and_end_cpu_ms_per_job", 1.0),
        ("pod succeeded to event, p50 (s)", "event_p50_seconds", 1.0),
        ("pod succeeded to event, p99 (s)", "event_p99_seconds", 1.0),
        ("longest block of the loop (s)", "longest_block_seconds", 1.0),
    )
    for title, key, factor in rows:
        values = [report[kind][key] * factor for kind in kinds]
        ratio = [f"{values[1] / values[0]:.1f}x" if values[0] > 0 else ""] if len(values) > 1 else []
        table.add_row(title, *(f"{value:.2f}" for value in values), *ratio)
    return table


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watch", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="how many remote jobs (1000)")
    parser.add_argument("--quiet-seconds", type=float, default=60, help="time in which nothing happens (60)")
    parser.add_argument("--ends-per-second", type=float, default=10, help="how fast the jobs end (10)")
    parser.add_argument("--only", choices=tuple(TITLES), help="one kind of trigger alone")
    parser.add_argument(
        "--logs", action="store_true", help="let the product ask for the logs of all, in vain"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here")
    args = parser.parse_args(argv)
    if args.jobs < 2:
        parser.error("give at least two jobs")
    return args


if __name__ == "__main__":
    sys.exit(main())
