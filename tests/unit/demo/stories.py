"""Builders of what a run of the demo has recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.decision import Decision, History
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.model.request import GpuRequest
from lab.demo.facts import Facts, LogLine, PowerOff, SavedEpoch
from tests.unit.engine.builders import decide, pool, seen, signals

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
NODE = "us-1"
A100_USD, H100_USD = 5.0, 6.0
POOLS = (
    pool("us", gpu_hour_usd=A100_USD, loss=LossPolicy(node_grace_seconds=6.0)),
    pool("eu", gpu_hour_usd=H100_USD, loss=LossPolicy(node_grace_seconds=6.0)),
)


def at(seconds: float) -> datetime:
    """Return the moment so long after the start of the first attempt."""
    return START + timedelta(seconds=seconds)


def decision(lost: dict[str, tuple[str, ...]] | None = None) -> Decision:
    """Decide for four GPUs over two pools of one node each."""
    history = History(lost_nodes=lost or {}, losses=dict.fromkeys(lost or {}, 1))
    request = GpuRequest(gpus_per_node=4)
    return decide(request, POOLS, signals("us", seen(NODE)), signals("eu", seen("eu-1")), history=history)


def attempt(fence: int, pool_name: str, begin: float, end: float, **fields: object) -> AttemptRecord:
    """Build the record of an attempt that has ended, with times in seconds after the start."""
    values = {
        "attempt_id": f"0000000{fence}",
        "try_number": fence,
        "fence": fence,
        "pool": pool_name,
        "kubernetes_conn_id": "cluster",
        "namespace": "training",
        "job_name": f"job-{fence}",
        "phase": AttemptPhase.ENDED,
        "outcome": OutcomeKind.SUCCEEDED,
        "started_at": at(begin),
        "ended_at": at(end),
        **fields,
    }
    return AttemptRecord(**values)  # type: ignore[arg-type]  # the values are mixed on purpose


def facts(*, kill_at_epoch: int = 5, epochs: int = 12, saved_too_much: int = 0) -> Facts:
    """Build a run with an epoch a second, whose node loses its power half an epoch after one was saved.

    :param saved_too_much: how many epochs more than the second attempt resumed from the first one had saved.
    """
    killed = kill_at_epoch + 0.5
    ended, again = killed + 7, killed + 8
    resumed = kill_at_epoch - saved_too_much
    done = again + (epochs - resumed) + 1
    saved = [SavedEpoch(epoch=n, fence=1, saved_at=at(n)) for n in range(1, kill_at_epoch + 1)]
    saved += [
        SavedEpoch(epoch=n, fence=2, saved_at=at(again + n - resumed)) for n in range(resumed, epochs + 1)
    ]
    lost = attempt(
        1, "us", 0, ended, outcome=OutcomeKind.INFRASTRUCTURE, cause="NodeLost", lost_nodes=(NODE,)
    )
    return Facts(
        record=TaskRecord(attempts=(lost, attempt(2, "eu", again, done)), last_fence=2),
        decisions={1: decision(), 2: decision({"us": (NODE,)})},
        logs={
            1: (
                LogLine(said_at=at(killed + 3), text=f"suspected: node {NODE}: silent for 4 s"),
                LogLine(said_at=at(killed + 6), text=f"NodeLost: node {NODE} is lost"),
            ),
            2: (),
        },
        saved=tuple(saved),
        power_off=PowerOff(node=NODE, at=at(killed), processes=3),
        result={
            "accuracy": 0.9,
            "epochs": epochs,
            "epochs_run": epochs - resumed,
            "resumed_from_epoch": resumed,
        },
    )
