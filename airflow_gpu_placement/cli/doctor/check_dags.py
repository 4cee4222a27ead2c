"""Tasks that ask for GPUs in a way that does not do what their author hopes for."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.cli.dag_request import dag_bags
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT_RETRIES = 5

_SPECIAL = re.compile(r"([\\/.*\[\]^$&])")
_IN_A_CHECKOUT = "# where this file comes from a repository, make the same change there"


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
    command = _set_retries(task)
    yield Finding(
        id=FindingId.RETRIES_ZERO,
        severity=Severity.WARNING,
        where=f"task {task.dag.dag_id}.{task.task_id} in {task.dag.fileloc}",
        what="has retries=0: when its job is lost with a node it is not placed again",
        fix=command or f"retries={DEFAULT_RETRIES},",
        kind=FixKind.COMMAND if command else FixKind.PYTHON,
    )


def _set_retries(task: Any) -> str | None:
    """Return the command that gives a task its retries; ``None``: its DAG file does not show how."""
    file = Path(task.dag.fileloc)
    if not file.is_file():
        return None  # inside of an archive
    source = file.read_text(encoding="utf-8")
    calls = [given for node in ast.walk(ast.parse(source)) if (given := _made(node, task)) is not None]
    if len(calls) != 1:
        return None
    (given,) = calls
    told = given.get("retries")
    if told is not None and ast.unparse(told.value) != "0":
        return None  # a name or a sum: its author has to look
    place = told or given["task_id"]
    old = ast.get_source_segment(source, place)
    if old is None or source.splitlines()[place.lineno - 1].count(old) != 1:
        return None
    retries = f"retries={DEFAULT_RETRIES}"
    new = retries if told is not None else f"{old}, {retries}"
    script = f"{place.lineno}s/{_escaped(old)}/{_escaped(new)}/"
    return f"{_IN_A_CHECKOUT}\nsed -i {shlex.quote(script)} {shlex.quote(str(file))}"


def _made(node: ast.AST, task: Any) -> dict[str, ast.keyword] | None:
    """Return the arguments of a call that makes the task; within a group its id has the group's before it."""
    if not isinstance(node, ast.Call) or task.task_type not in ast.unparse(node.func).split("."):
        return None
    given = {one.arg: one for one in node.keywords if one.arg is not None}
    named = given.get("task_id")
    own_id = task.task_id.rpartition(".")[2]
    return given if named is not None and ast.unparse(named.value) == repr(own_id) else None


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
