"""The request of a task, from the DAG as it is in its bundle: nothing is run and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import XComArg

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.operators.arguments import resource_problems
from airflow_gpu_placement.operators.request import parse_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.dag_processing.dagbag import BundleDagBag
    from airflow.sdk import DAG

_NAMES = ("gpu", "profile", "pod_resources")


class TaskRequest(NamedTuple):
    """What a task asks for: its arguments ``gpu``, ``profile`` and ``pod_resources``."""

    gpu: dict[str, Any]
    profile: str | None
    pod_resources: dict[str, Any]


def request_of_task(dag_id: str, task_id: str, bundle_names: Sequence[str] | None = None) -> TaskRequest:
    """Return what a task asks for, its templates rendered as far as that works outside of a run.

    :raises RequestError: there is no such task, or its request is known in a run only.
    """
    dag = find_dag(dag_id, bundle_names)
    if task_id not in dag.task_ids:
        raise RequestError(f"DAG {dag_id!r} has no task {task_id!r}; {nearest(task_id, dag.task_ids)}")
    task = dag.get_task(task_id)
    where = f"{dag_id}.{task_id}"
    arguments = getattr(task, "partial_kwargs", None)
    gpu, profile, pod_resources = _arguments(task, arguments)
    if gpu is None:
        why = "its request differs from one map index to the next" if arguments else "it has no argument gpu"
        raise RequestError(f"{where}: {why}; write the request into a file and name it with --request")
    given: dict[str, Any] = {"profile": profile, "pod_resources": pod_resources}
    if isinstance(gpu, Mapping):
        given["gpu"] = dict(gpu)
    elif isinstance(gpu, str | XComArg):
        raise RequestError(
            f"{where}: gpu is {gpu!r}, which is known in a run only; write the request into a file and "
            "name it with --request"
        )
    rendered: dict[str, Any] = {
        name: _rendered(name, value, task, dag, where) for name, value in given.items()
    }
    if problems := list(resource_problems(rendered["pod_resources"])):
        raise RequestError("\n".join(f"{where}: {problem}" for problem in problems))
    wanted = rendered["gpu"] if "gpu" in rendered else parse_request(gpu).model_dump(exclude_unset=True)
    return TaskRequest(wanted, rendered["profile"], dict(rendered["pod_resources"] or {}))


def _arguments(task: Any, mapped: Mapping[str, Any] | None) -> tuple[Any, str | None, Any]:
    given = {name: getattr(task, name, None) for name in _NAMES} if mapped is None else mapped
    return given.get("gpu"), given.get("profile"), given.get("pod_resources")


def find_dag(dag_id: str, bundle_names: Sequence[str] | None = None) -> DAG:
    """Parse the bundles until one has the DAG.

    :raises RequestError: none has it; the text names the files that could not be parsed.
    """
    known: list[str] = []
    broken: dict[str, str] = {}
    for bag in dag_bags(bundle_names):
        if dag_id in bag.dags:
            return bag.dags[dag_id]
        known += bag.dags
        broken.update({path: text.strip().splitlines()[-1] for path, text in bag.import_errors.items()})
    unread = "".join(f"; {path} cannot be imported: {why}" for path, why in sorted(broken.items()))
    hint = nearest(dag_id, known) if known else "there is no DAG at all"
    raise RequestError(f"there is no DAG {dag_id!r}; {hint}{unread}")


def dag_bags(bundle_names: Sequence[str] | None = None) -> Iterator[BundleDagBag]:
    """Parse the DAGs of each bundle in turn; what Airflow has stored of them stays as it is."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag

    manager = DagBundlesManager()  # type: ignore[no-untyped-call]  # Airflow's class has no annotations
    bundles = {bundle.name: bundle for bundle in manager.get_all_dag_bundles()}
    for name in bundle_names or bundles:
        if name not in bundles:
            raise RequestError(f"there is no DAG bundle {name!r}; {nearest(name, bundles)}")
        bundle = bundles[name]
        bundle.initialize()
        yield BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=name)


def _rendered(name: str, value: Any, task: Any, dag: DAG, where: str) -> Any:
    """Render with what is known outside of a run: the DAG, its parameters' defaults, the date of today."""
    from jinja2 import TemplateError, UndefinedError

    try:
        return task.render_template(value, _context(task, dag), dag.get_template_env())
    except (UndefinedError, LookupError) as error:  # a value of another task is looked up in the run
        raise RequestError(
            f"{where}: {name} holds a template that is known in a run only ({error}); write the request "
            "into a file and name it with --request"
        ) from error
    except (TemplateError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise RequestError(
            f"{where}: {name} holds a template that cannot be rendered, in a run neither: "
            f"{type(error).__name__}: {error}; correct it"
        ) from error


def _context(task: Any, dag: DAG) -> dict[str, Any]:
    from airflow.sdk.execution_time import macros

    now = datetime.now(UTC)
    day, moment = now.strftime("%Y-%m-%d"), now.isoformat()
    return {
        "dag": dag,
        "task": task,
        "params": dag.params.dump(),
        "macros": macros,
        "logical_date": now,
        "ds": day,
        "ds_nodash": day.replace("-", ""),
        "ts": moment,
        "ts_nodash": now.strftime("%Y%m%dT%H%M%S"),
    }
