"""What the reaper found, as records for tables, JSON and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.engine.reaping import Finding, Verdict

if TYPE_CHECKING:
    from airflow_gpu_placement.operators.reaper import Place, Reaped, Row

_USUAL = frozenset({Finding.ALIVE, Finding.ENDED, Finding.LEAVING})
"""What nobody has to look at."""


def to_reap(reaped: Reaped) -> list[Row]:
    """Return what was, or is to be, withdrawn."""
    return [row for row in reaped.rows if row.verdict is Verdict.REAP]


def problems_of(reaped: Reaped) -> list[str]:
    """Return what was not done, a text each: jobs that still run, and places that were not looked at."""
    failed = [f"{row.job.name}: {row.result}" for row in to_reap(reaped) if row.failed]
    return failed + [
        f"connection {place.kubernetes_conn_id!r}, namespace {place.namespace!r} was not read: {why}"
        for place, why in reaped.unread.items()
    ]


def rows_of(reaped: Reaped, *, all_: bool) -> list[dict[str, Any]]:
    """Return what was found as records; what nobody has to look at only when ``all_`` is set."""
    shown = [_row(row) for row in reaped.rows if all_ or row.finding not in _USUAL]
    return shown + [_unread(place, why) for place, why in reaped.unread.items()]


def _row(row: Row) -> dict[str, Any]:
    job = row.job
    return {
        "verdict": str(row.verdict),
        "why": str(row.finding),
        "job": job.name,
        "namespace": job.namespace,
        "connection": row.place.kubernetes_conn_id,
        "pool": job.pool or None,
        "task": None if job.task is None else str(job.task),
        "run_id": None if job.task is None else job.task.run_id,
        "state": row.now.state,
        "age_minutes": round(job.remains.age_seconds / 60.0, 1),
        "left": "job" if job.exists else "pods",
        "result": row.result or None,
    }


def _unread(place: Place, why: str) -> dict[str, Any]:
    usual = dict.fromkeys(("job", "pool", "task", "run_id", "state", "age_minutes", "left"))
    return {
        "verdict": "not read",
        "why": "no answer",
        "job": usual.pop("job"),
        "namespace": place.namespace,
        "connection": place.kubernetes_conn_id,
        **usual,
        "result": why,
    }
