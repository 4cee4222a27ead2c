"""What a test has left behind: looked at before the fixtures clean up, because they would hide it.

The fixture of a test calls ``find_leaks`` after the test's own code and before it deletes the namespace::

    assert not find_leaks([LeakScope("east", cluster.api, namespace)], airflow=client, dag_ids=ids)
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lab.airflow.records import TaskInstance

#: Objects of the product carry at least one label with this prefix.
LABEL_PREFIX = "airflow-gpu-placement/"
POLL_SECONDS = 0.5
_CORE, _BATCH = "/api/v1", "/apis/batch/v1"


class ClusterApi(Protocol):
    """The part of a cluster's client that is needed here."""

    def get(self, path: str, **params: Any) -> Mapping[str, Any]:
        """Return the decoded answer of a GET."""


class AirflowView(Protocol):
    """The part of ``AirflowClient`` that is needed here."""

    def unfinished_task_instances(self, dag_ids: Iterable[str] | None = None) -> list[TaskInstance]:
        """Return task instances that are running, deferred or about to run."""


@dataclass(frozen=True)
class LeakScope:
    """One namespace of one cluster; ``name`` is what the leak lines call the cluster."""

    name: str
    api: ClusterApi
    namespace: str


def find_leaks(
    scopes: Iterable[LeakScope],
    *,
    airflow: AirflowView | None = None,
    dag_ids: Collection[str] | None = None,
    deadline_seconds: float = 10.0,
    finished_is_leak: bool = True,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Return one line for each thing left behind; an empty list means clean.

    Looked for: Jobs, pods and Services with a label of the product, and task instances (of ``dag_ids``,
    default all) that have not ended. Things on their way out get ``deadline_seconds``; those still there
    are leaks too.
    ``finished_is_leak=False`` accepts Jobs that ended and wait for their time to live, with their ended
    pods and the Service of the same name.
    """
    scopes = list(scopes)
    deadline = clock() + deadline_seconds
    while True:
        leaks = [leak for scope in scopes for leak in _cluster_leaks(scope, finished_is_leak)]
        if airflow is not None:
            leaks.extend(_task_leak(instance) for instance in airflow.unfinished_task_instances(dag_ids))
        if not leaks or clock() >= deadline:
            return leaks
        sleep(POLL_SECONDS)


def _cluster_leaks(scope: LeakScope, finished_is_leak: bool) -> list[str]:
    jobs = _labelled(scope, f"{_BATCH}/namespaces/{scope.namespace}/jobs")
    pods = _labelled(scope, f"{_CORE}/namespaces/{scope.namespace}/pods")
    services = _labelled(scope, f"{_CORE}/namespaces/{scope.namespace}/services")
    if not finished_is_leak:
        ended = {job["metadata"]["name"] for job in jobs if _job_outcome(job) is not None}
        jobs = [job for job in jobs if job["metadata"]["name"] not in ended]
        pods = [pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        services = [service for service in services if service["metadata"]["name"] not in ended]
    return [
        *(_line(scope, "Job", job, _job_outcome(job) or "active") for job in jobs),
        *(_line(scope, "Pod", pod, _pod_state(pod)) for pod in pods),
        *(_line(scope, "Service", service, "") for service in services),
    ]


def _labelled(scope: LeakScope, path: str) -> list[Mapping[str, Any]]:
    # A label selector cannot ask for a prefix of a key.
    items = scope.api.get(path)["items"]
    return [
        item
        for item in items
        if any(key.startswith(LABEL_PREFIX) for key in item["metadata"].get("labels") or {})
    ]


def _job_outcome(job: Mapping[str, Any]) -> str | None:
    for condition in job.get("status", {}).get("conditions") or []:
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


def _pod_state(pod: Mapping[str, Any]) -> str:
    phase = pod.get("status", {}).get("phase", "no phase")
    node = pod.get("spec", {}).get("nodeName")
    return f"{phase} on node {node}" if node else f"{phase}, on no node"


def _line(scope: LeakScope, kind: str, item: Mapping[str, Any], state: str) -> str:
    metadata = item["metadata"]
    parts = [
        state,
        f"terminating since {metadata['deletionTimestamp']}" if metadata.get("deletionTimestamp") else "",
    ]
    detail = ", ".join(part for part in parts if part)
    return f"{scope.name}: {kind} {scope.namespace}/{metadata['name']}" + (f" ({detail})" if detail else "")


def _task_leak(instance: TaskInstance) -> str:
    what = f"{instance.label} of run {instance.run_id}"
    return f"Airflow: task {what} is {instance.state} in try {instance.try_number}"
