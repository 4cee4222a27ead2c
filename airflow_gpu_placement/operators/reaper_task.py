"""The reaper as part of a DAG: a task may not read Airflow's database, so it asks as tasks do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.catalog import load_patiently
from airflow_gpu_placement.engine.reaping import Rules, TaskNow
from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.task_states import marked_attempt, state_key, states_of
from airflow_gpu_placement.model.attempt import MARKER_KEY
from airflow_gpu_placement.operators.reaper import Limits, reap
from airflow_gpu_placement.operators.reaper_rows import problems_of, rows_of
from airflow_gpu_placement.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_gpu_placement.model.attempt import LogicalTask

log = logging.getLogger(__name__)

TERMINAL_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def reap_in_task(*, delete: bool, min_age_minutes: float = 10.0) -> list[dict[str, Any]]:
    """Do what ``airflow gpu-placement reap`` does, from within a task, and return what was found.

    A task cannot see ids of task instances. It takes a job for ours when the setting ``installation`` says
    so, or when the task that it names deferred last with this very attempt; else it reports ``unknown here``.

    :param delete: ``False``: only tell.
    :param min_age_minutes: younger jobs are left alone.
    :raises GpuPlacementError: something could not be withdrawn, or a cluster could not be read; everything
        else was done.
    """
    settings = load_settings()
    reaped = asyncio.run(
        reap(
            load_patiently(settings.catalog, settings.catalog_overlay).pools,
            tasks_over_the_api,
            Rules(min_age_seconds=min_age_minutes * 60.0, installation=settings.installation),
            Limits(settings.signal_deadline_seconds, settings.fence_timeout_seconds),
            delete=delete,
            open_cluster=open_on_worker,
        )
    )
    rows = rows_of(reaped, all_=False)
    for row in rows:
        log.info("%s", ", ".join(f"{key}: {value}" for key, value in row.items() if value is not None))
    if problems := problems_of(reaped):
        raise GpuPlacementError("not everything could be looked at and withdrawn:\n" + "\n".join(problems))
    return rows


def tasks_over_the_api(tasks: Collection[LogicalTask]) -> Mapping[LogicalTask, TaskNow]:
    """Ask Airflow's API server, as a task may, for each of these tasks."""
    return {task: _task_now(task) for task in tasks}


def _task_now(task: LogicalTask) -> TaskNow:
    runs = RuntimeTaskInstance.get_dr_count(dag_id=task.dag_id, run_ids=[task.run_id])
    if not runs:
        return TaskNow(run_exists=False)
    states, key = states_of(task), state_key(task)
    if key not in states:
        return TaskNow(run_exists=True)
    value = XCom.get_one(
        key=MARKER_KEY,
        dag_id=task.dag_id,
        task_id=task.task_id,
        run_id=task.run_id,
        map_index=task.map_index,
    )
    marker = marked_attempt(value)
    return TaskNow(
        run_exists=True,
        exists=True,
        attempts=frozenset({marker} if marker else ()),
        over=states[key] in TERMINAL_STATES,
        state=states[key],
    )
