"""Withdraw remote jobs that were left behind.

What: looks at every cluster of the catalogue for remote jobs whose task has ended, was deleted or has begun
another try, and withdraws them.
Why: a task that is ended while no triggerer runs, or while its cluster does not answer, leaves its job
behind, and nobody else would notice the bill.
When: one such DAG an Airflow, once an hour. Let it only tell at first (``delete`` is false), read what it
found, then set ``delete`` to true. The task fails at its end, with everything else done, when a cluster could
not be read or a job could not be withdrawn.
Needs: the catalogue and the connections that the training tasks use. Where several Airflows share clusters,
give each its name with the setting ``installation``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import dag, get_current_context, task


@dag(
    dag_id="example_gpu_reap",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - a day; the DAG's own time zone is UTC
    catchup=False,
    max_active_runs=1,
    tags=["gpu", "example"],
    params={"delete": False, "min_age_minutes": 10},
    doc_md=__doc__,
)
def example_gpu_reap() -> None:
    """Look for what nobody waits for any more."""

    @task
    def reap() -> list[dict[str, Any]]:
        from airflow_gpu_placement.operators.reaper_task import reap_in_task

        params = get_current_context()["params"]
        return reap_in_task(delete=params["delete"], min_age_minutes=params["min_age_minutes"])

    reap()


example_gpu_reap()
