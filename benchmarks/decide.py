"""How long a decision takes, explanation rendered: p50 and p99 at 10, 50 and 500 pools.

    python -m benchmarks.decide [--repetitions 200] [--json] [--cpu]

Every reason code is present from 50 pools on, at least three in ten pools fit, and nothing is kept from one
repetition to the next: request, pools and signals are built anew from JSON before the clock starts.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.explain import details, line, table_text
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.pool import GpuPool
from airflow_gpu_placement.model.reasons import ReasonCode, Verdict
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Snapshot
from benchmarks.scene import NOW, SETTING, Scene, scene

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (10, 50, 500)
GOALS_MS = {50: 5.0, 500: 50.0}


def once(what: Scene, clock: Callable[[], float]) -> tuple[Decision, dict[str, float]]:
    """Decide once on values that were never seen before, and tell it.

    :param clock: seconds of wall time, or of processor time.
    :return: milliseconds of the decision and of each form of the explanation.
    """
    request = GpuRequest.model_validate_json(what.request)
    pools = msgspec.json.decode(what.pools, type=list[GpuPool])
    snapshot = msgspec.json.decode(what.snapshot, type=Snapshot)
    history = msgspec.json.decode(what.history, type=History)
    setting = msgspec.json.decode(msgspec.json.encode(SETTING), type=Setting)
    gc.collect()
    start = clock()
    decision = place(
        request,
        pools,
        snapshot,
        history,
        setting,
        now=NOW + timedelta(seconds=3),
        subject="llm.train",
        catalog_hash="abc",
    )
    decided = clock()
    line(decision)
    details(decision)
    told = clock()
    table_text(decision)
    drawn = clock()
    spans = {
        "decide": decided - start,
        "line and text": told - decided,
        "table": drawn - told,
        "all": drawn - start,
    }
    return decision, {name: seconds * 1000 for name, seconds in spans.items()}


def check(decision: Decision, size: int) -> None:
    """Refuse to measure anything else than what the numbers claim."""
    fitting = sum(one.verdict is Verdict.FIT for one in decision.verdicts)
    if fitting < 0.3 * size:
        raise SystemExit(f"only {fitting} of {size} pools fit")
    missing = set(ReasonCode) - {reason.code for one in decision.verdicts for reason in one.reasons}
    if size >= len(ReasonCode) * 5 / 3 and missing:
        raise SystemExit(f"reasons that do not occur: {sorted(missing)}")


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that is not below this share of all."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decide", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine with other work")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    found = []
    for size in SIZES:
        what = scene(size)
        check(once(what, clock)[0], size)
        samples = [once(what, clock)[1] for _ in range(arguments.repetitions)]
        for part in samples[0]:
            values = [sample[part] for sample in samples]
            found.append(
                {
                    "pools": size,
                    "part": part,
                    "p50_ms": round(percentile(values, 0.5), 3),
                    "p99_ms": round(percentile(values, 0.99), 3),
                    "goal_p99_ms": GOALS_MS.get(size) if part == "all" else None,
                }
            )
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        goal = f"  (goal {row['goal_p99_ms']:g})" if row["goal_p99_ms"] else ""
        times = f"p50 {row['p50_ms']:>8.3f} ms  p99 {row['p99_ms']:>8.3f} ms"
        print(f"{row['pools']:>4} pools  {row['part']:<14} {times}{goal}")


if __name__ == "__main__":
    main()
