"""What the client of Airflow's REST API returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

#: States that a task instance does not leave by itself.
TERMINAL_TASK_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
TERMINAL_RUN_STATES = frozenset({"success", "failed"})
#: Keys of a structured log line that ``log_text`` prints at a fixed place, or that are the same in every
#: line of a log.
_LOG_KEYS_SHOWN_ELSEWHERE = frozenset(
    {"timestamp", "level", "event", "logger", "loc", "filename", "lineno", "error_detail", "ti", "ti_id"}
    | {"dag_id", "run_id", "task_id", "map_index", "try_number"}
)


@dataclass(frozen=True, kw_only=True)
class TaskInstance:
    """One task instance, or one earlier try of it; ``raw`` holds every field of the API."""

    id: str | None  # the API does not tell the id of an earlier try
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str | None
    try_number: int
    max_tries: int
    start_date: str | None
    end_date: str | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read one object of the API's task instance or task instance history responses."""
        return cls(
            id=data.get("id"),
            dag_id=data["dag_id"],
            run_id=data["dag_run_id"],
            task_id=data["task_id"],
            map_index=data["map_index"],
            state=data["state"],
            try_number=data["try_number"],
            max_tries=data["max_tries"],
            start_date=data["start_date"],
            end_date=data["end_date"],
            raw=data,
        )

    @property
    def label(self) -> str:
        """Name the task instance as people do."""
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped}"


@dataclass(frozen=True, kw_only=True)
class ImportErrorRecord:
    """A DAG file that could not be imported."""

    id: int
    timestamp: str
    filename: str
    stack_trace: str


class DagImportError(Exception):
    """A DAG file could not be imported; the message is its traceback."""

    def __init__(self, record: ImportErrorRecord) -> None:
        super().__init__(f"{record.filename} cannot be imported:\n{record.stack_trace}")
        self.record = record


class WaitTimeout(AssertionError):
    """A state was not reached; the message has the last state, the task's log and the servers' logs."""

    #: Read by tests/conftest.py, see ``lab.airflow.diagnostics``.
    carries_log_tails = True


def log_text(entries: list[Any]) -> str:
    """Render structured log lines: time, level, event, further fields, and the traceback of an error."""
    return "\n".join(line for entry in entries for line in _log_lines(entry))


def _log_lines(entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return [str(entry)]
    head = " ".join(str(entry[key]) for key in ("timestamp", "level") if entry.get(key))
    extra = " ".join(f"{key}={value}" for key, value in entry.items() if key not in _LOG_KEYS_SHOWN_ELSEWHERE)
    lines = [" ".join(filter(None, [head, str(entry.get("event", "")), extra]))]
    for error in entry.get("error_detail") or []:
        lines.extend(
            f"  {frame['filename']}:{frame['lineno']} in {frame['name']}" for frame in error["frames"]
        )
        lines.append(f"  {error['exc_type']}: {error['exc_value']}")
    return lines
