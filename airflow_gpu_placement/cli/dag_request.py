"""The request of a task, from the DAG as it is in its bundle: nothing is run and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.request import GpuRequest

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
        told = "its request differs from one map index to the next" if arguments else "it has no argument gpu"
        raise RequestError(f"{where}: {told}; write the request into a file and name it with --request")
    beside = _rendered(dict(pod_resources or {}), task, dag, where)
    if isinstance(gpu, GpuRequest):
        return TaskRequest(gpu.model_dump(exclude_unset=True), profile, beside)
    if not isinstance(gpu, Mapping):
        raise RequestError(
            f"{where}: gpu is {gpu!r}, which is known in a run only; write the request into a file and "
            "name it with --request"
        )
    return TaskRequest(_rendered(dict(gpu), task, dag, where), profile, beside)


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


def _rendered(values: dict[str, Any], task: Any, dag: DAG, where: str) -> dict[str, Any]:
    """Render with what is known outside of a run: the DAG, its parameters' defaults, the date of today."""
    from jinja2 import TemplateError

    try:
        rendered: dict[str, Any] = task.render_template(values, _context(task, dag), dag.get_template_env())
    except TemplateError as error:
        raise RequestError(
            f"{where}: gpu holds a template that is known in a run only ({error}); give that field as a flag "
            "beside a file with --request"
        ) from error
    return rendered


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
