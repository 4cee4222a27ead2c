"""Who a running task instance is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.attempt import LogicalTask

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


def team_of(dag_run: Any) -> str | None:
    """Return the team that Airflow's server says a DAG run is of; ``None``: of none.

    The interface of Airflow's SDK does not list the field, but the server sends it with every run.
    """
    team: str | None = getattr(dag_run, "team_name", None)
    return team


def logical_task(ti: RuntimeTaskInstanceProtocol | Any) -> LogicalTask:
    """Name the logical task of a task instance: the same over all its tries."""
    map_index = getattr(ti, "map_index", None)
    return LogicalTask(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if map_index is None else map_index,
    )
