"""Who a running task instance is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.attempt import LogicalTask

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


def logical_task(ti: RuntimeTaskInstanceProtocol | Any) -> LogicalTask:
    """Name the logical task of a task instance: the same over all its tries."""
    map_index = getattr(ti, "map_index", None)
    return LogicalTask(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if map_index is None else map_index,
    )
