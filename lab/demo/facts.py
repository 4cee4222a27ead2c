"""What happened, as Airflow, the checkpoints and the demo itself recorded it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.explain import from_json
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
from airflow_gpu_placement.model.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORD_KEY = "gpu_placement.record"
DECISION_PREFIX = "gpu_placement.decision."


class SavedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint: an epoch, and the fence of the attempt that wrote it."""

    epoch: int
    fence: int
    saved_at: datetime


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a task's log."""

    said_at: datetime
    text: str


class PowerOff(msgspec.Struct, frozen=True, kw_only=True):
    """The fault that the demo played."""

    node: str
    at: datetime
    processes: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the figures are computed from.

    :param decisions: by the fence that each of them gave out.
    :param logs: by number of the try.
    :param result: what the training program returned.
    """

    record: TaskRecord
    decisions: dict[int, Decision]
    logs: dict[int, tuple[LogLine, ...]]
    saved: tuple[SavedEpoch, ...]
    power_off: PowerOff
    result: dict[str, Any]


def saved_epochs(checkpoints: Path) -> tuple[SavedEpoch, ...]:
    """Read the manifests of all attempts, oldest first.

    The manifest is what is written last: where there is one, the checkpoint is complete.
    """
    found = []
    for manifest in checkpoints.glob("*/*/*/step-*/manifest.json"):
        content = json.loads(manifest.read_text(encoding="utf-8"))
        written_at = datetime.fromtimestamp(manifest.stat().st_mtime, UTC)
        found.append(SavedEpoch(epoch=content["step"], fence=content["fence"], saved_at=written_at))
    return tuple(sorted(found, key=lambda saved: (saved.saved_at, saved.fence, saved.epoch)))


def task_record(store: Mapping[str, Any]) -> TaskRecord:
    """Read the attempts out of a task's state store."""
    return msgspec.convert(store.get(RECORD_KEY, {}), TaskRecord)


def task_decisions(store: Mapping[str, Any]) -> dict[int, Decision]:
    """Read the decisions out of a task's state store, by fence, smallest first."""
    found = {
        int(key.removeprefix(DECISION_PREFIX)): from_json(json.dumps(value))
        for key, value in store.items()
        if key.startswith(DECISION_PREFIX)
    }
    return dict(sorted(found.items()))


def log_lines(content: list[Any]) -> tuple[LogLine, ...]:
    """Read a task log as the REST API gives it; what has no time (headings, tracebacks) is left out."""
    return tuple(
        LogLine(said_at=datetime.fromisoformat(entry["timestamp"]), text=str(entry["event"]))
        for entry in content
        if isinstance(entry, dict) and entry.get("timestamp") and entry.get("event")
    )


def attempt_of(record: TaskRecord, fence: int) -> AttemptRecord | None:
    """Find the attempt with a fence."""
    return next((attempt for attempt in record.attempts if attempt.fence == fence), None)
