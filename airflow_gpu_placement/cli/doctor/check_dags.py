"""Tasks that ask for GPUs in a way that does not do what their author hopes for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.cli.dag_request import dag_bags
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT_RETRIES = 5


def check_dags(bundle_names: Sequence[str] | None = None) -> list[Finding]:
    """Parse the DAGs and return what is wrong with their GPU tasks."""
    return [
        finding
        for bag in dag_bags(bundle_names)
        for _, dag in sorted(bag.dags.items())
        for task in dag.tasks
        for finding in _retries(task)
    ]


def _retries(task: Any) -> Iterable[Finding]:
    arguments = getattr(task, "partial_kwargs", {})
    if not hasattr(task, "gpu") and "gpu" not in arguments:
        return
    if task.retries:
        return
    yield Finding(
        id=FindingId.RETRIES_ZERO,
        severity=Severity.WARNING,
        where=f"task {task.dag.dag_id}.{task.task_id} in {task.dag.fileloc}",
        what="has retries=0: when its job is lost with a node it is not placed again",
        fix=f"retries={DEFAULT_RETRIES}",
        kind=FixKind.PYTHON,
    )
