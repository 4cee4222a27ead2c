"""The objects of a remote job as the API takes them: pure, the same for the same attempt."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.ranks import TRAINING_CONTAINER
from airflow_gpu_placement.launch.environment import RESULT_PATH, environment
from airflow_gpu_placement.model.attempt import (
    ATTEMPT_LABEL,
    FENCE_LABEL,
    IDENTITY_ANNOTATION,
    INSTALLATION_LABEL,
    LOGICAL_TASK_LABEL,
    MANAGED_LABEL,
    POOL_LABEL,
)

if TYPE_CHECKING:
    from airflow_gpu_placement.launch.spec import LaunchSpec

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_LABEL = 63


def manifest(spec: LaunchSpec) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the Job and, for more than one node, the headless Service that gives its pods names."""
    return _job(spec), _service(spec) if spec.nodes > 1 else None


def owned_by(service: dict[str, Any], *, job_name: str, job_uid: str) -> dict[str, Any]:
    """Return the Service as a dependent of its Job, so that it goes when the Job goes."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job_name, "uid": job_uid}
    return {**service, "metadata": {**service["metadata"], "ownerReferences": [owner]}}


def label_value(text: str) -> str:
    """Return ``text`` as a valid label value; a text that is one already is not changed."""
    return _NOT_IN_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("-_.")


def _job(spec: LaunchSpec) -> dict[str, Any]:
    body: dict[str, Any] = {
        "completions": spec.nodes,
        "parallelism": spec.nodes,
        # The retry is the next try of the Airflow task, placed anew. Nothing is ever started twice here.
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        "ttlSecondsAfterFinished": spec.ttl_seconds,
        "template": {"metadata": _identity(spec), "spec": _pod(spec)},
    }
    if spec.nodes > 1:
        body["completionMode"] = "Indexed"
    if spec.active_deadline_seconds is not None:
        body["activeDeadlineSeconds"] = spec.active_deadline_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": spec.attempt.job_name,
            "namespace": spec.pool.cluster.namespace,
            **_identity(spec),
        },
        "spec": body,
    }


def _service(spec: LaunchSpec) -> dict[str, Any]:
    name = spec.attempt.job_name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": spec.pool.cluster.namespace, **_identity(spec)},
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_NAME_LABEL: name},
            # Ranks look for each other before they are ready.
            "publishNotReadyAddresses": True,
        },
    }


def _identity(spec: LaunchSpec) -> dict[str, Any]:
    """Return labels to find the attempt by and an annotation that tells it in full."""
    attempt, task = spec.attempt, spec.attempt.task
    whole = {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "try_number": attempt.try_number,
        "attempt_id": attempt.attempt_id,
        "fence": attempt.fence,
        "move": attempt.move,
        "pool": spec.pool.name,
    }
    named = {} if attempt.installation is None else {INSTALLATION_LABEL: attempt.installation}
    return {
        "labels": {
            **named,
            MANAGED_LABEL: "true",
            LOGICAL_TASK_LABEL: task.hash,
            ATTEMPT_LABEL: label_value(attempt.attempt_id),
            FENCE_LABEL: str(attempt.fence),
            POOL_LABEL: label_value(spec.pool.name),
        },
        "annotations": {IDENTITY_ANNOTATION: json.dumps(whole, sort_keys=True)},
    }


def _pod(spec: LaunchSpec) -> dict[str, Any]:
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [_container(spec)]}
    optional: dict[str, Any] = {
        "nodeSelector": dict(spec.pool.node_selector),
        "tolerations": msgspec.to_builtins(spec.pool.job_tolerations),
        "affinity": _affinity(spec),
        "volumes": list(spec.volumes),
        "subdomain": spec.attempt.job_name if spec.nodes > 1 else None,
    }
    return pod | {key: value for key, value in optional.items() if value}


def _container(spec: LaunchSpec) -> dict[str, Any]:
    quantities = {**spec.resources, spec.pool.gpu.resource_name: str(spec.gpus_per_node)}
    container: dict[str, Any] = {
        "name": TRAINING_CONTAINER,
        "image": spec.image,
        "env": environment(spec),
        "resources": {"requests": quantities, "limits": quantities},
        "terminationMessagePath": RESULT_PATH,
    }
    optional: dict[str, Any] = {
        "command": list(spec.command),
        "args": list(spec.args),
        "volumeMounts": list(spec.volume_mounts),
    }
    return container | {key: value for key, value in optional.items() if value}


def _affinity(spec: LaunchSpec) -> dict[str, Any] | None:
    """Keep the pods on the right nodes by their labels, and off single nodes by name; all must hold."""
    labels = [
        {"key": key, "operator": operator, "values": list(values)}
        for operator, wanted in (("In", spec.node_labels), ("NotIn", spec.barred_labels))
        for key, values in wanted.items()
    ]
    # A field requirement takes one value only, so each node gets its own.
    names = [
        {"key": "metadata.name", "operator": "NotIn", "values": [name]}
        for name in sorted(set(spec.excluded_nodes))
    ]
    term = {"matchExpressions": labels, "matchFields": names}
    if not labels and not names:
        return None
    required = {"nodeSelectorTerms": [{key: value for key, value in term.items() if value}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
