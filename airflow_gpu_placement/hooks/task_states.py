"""What Airflow tells a task, or a trigger, of a task instance and of the attempt that deferred last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance


def states_of(task: Any) -> Mapping[str, str | None]:
    """Ask Airflow's API server for the state of a task instance; it is below :func:`state_key`.

    :param task: a task instance, or a logical task.
    :return: without that key: the task instance does not exist.
    """
    by_run = RuntimeTaskInstance.get_task_states(
        dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
    )
    return by_run.get(task.run_id) or {}


def state_key(task: Any) -> str:
    """Return the name under which Airflow lists the state of a task instance."""
    return str(task.task_id) if task.map_index < 0 else f"{task.task_id}_{task.map_index}"


def marked_attempt(value: Any) -> str | None:
    """Read the attempt's id out of the XCom of the marker; ``None``: there is no marker."""
    return value.get("attempt_id") if isinstance(value, Mapping) else None
