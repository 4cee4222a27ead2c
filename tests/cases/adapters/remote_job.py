"""Facts about a remote job -> the product's observation of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.kueue import Workload
from airflow_gpu_placement.model.outcome import CompletionCheck, LossPolicy, Observation
from tests.cases.adapters.api_fields import JOB_FIELDS, POD_FIELDS, WORKLOAD_FIELDS
from tests.cases.adapters.conditions import condition
from tests.cases.adapters.job_nodes import A_NODE, nodes_of
from tests.cases.adapters.reading import by_key, by_type, lifted, read_if_found, without_nulls
from tests.cases.adapters.units import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cases.adapters.reading import Facts

A_POD = "the-pod"
"""Name of a pod that a case does not name."""


START_DEADLINE_SECONDS = 600.0
"""What a pool allows when a case only says how long was waited."""


def observation(facts: Facts) -> Observation:
    """Read everything that a case says of one remote job at one moment."""
    pods = pods_of(facts)
    hosts = {pod.spec.node_name: pod.spec.node_name for pod in pods}
    return Observation(
        job=job_of(facts, pods),
        pods=pods,
        vanished=frozenset(vanished_of(facts)),
        nodes=nodes_of(facts, list(hosts)),
        workload=by_key(facts, {"workload": _workload, "our_running_workload": _workload}, default=None),
        log_tail=by_key(facts, {"log_tail": _lines}, default=()),
        completion=by_key(facts, {"completion_check": _completion}, default=None),
        cancelled=by_key(facts, {"airflow_cancelled": bool}, default=False),
        now=by_key(facts, {"now": moment}, default=None),
        waited_seconds=by_key(facts, {"waited_s": float}, default=None),
        unreachable_seconds=by_key(facts, {"unreachable_s": float}, default=0.0),
    )


def loss_policy(facts: Facts) -> LossPolicy:
    """Read how long silence and a late start are borne; a case that says nothing of a start bears any."""
    known = LossPolicy()
    return LossPolicy(
        node_grace_seconds=by_key(
            facts, {"node_grace_s": float, "grace_s": float}, default=known.node_grace_seconds
        ),
        cluster_grace_seconds=by_key(facts, {"grace_s": float}, default=known.cluster_grace_seconds),
        start_timeout_seconds=by_key(
            facts, {"start_deadline_s": float, "waited_s": lambda _: START_DEADLINE_SECONDS}, default=math.inf
        ),
    )


def logs_decide(facts: Facts) -> bool:
    """Read whether rules that read logs are on."""
    return bool(by_key(facts, {"hint_rules": _enabled}, default=True))


def _enabled(value: Any) -> Any:
    return by_type(value, {bool: bool, dict: lambda rules: rules["enabled"]})


def _lines(value: Any) -> tuple[str, ...]:
    lines: tuple[str, ...] = by_type(
        value,
        {
            str: lambda text: tuple(text.splitlines()),
            list: tuple,
            # Which pod's lines count is known once the cause is.
            dict: lambda _: (),
            type(None): lambda _: (),
        },
    )
    return lines


def log_of(facts: Facts, pod: str | None) -> tuple[str, ...]:
    """Read the log of the pod that is the cause, where a case gives the logs of several."""
    lines: tuple[str, ...] = by_type(
        facts.get("log_tail"),
        {dict: lambda by_pod: _lines(by_pod.get(pod)), object: lambda _: ()},
    )
    return lines


def _completion(value: Any) -> CompletionCheck | None:
    check: CompletionCheck | None = by_type(
        value,
        {
            type(None): lambda _: None,
            dict: lambda given: CompletionCheck(
                available=given.get("available", True), says_done=given.get("says_done")
            ),
        },
    )
    return check


# Pods


_OF_A_NODE = {key: lambda _: (_pod("Running"),) for key in ("node_ready", "node")}
"""A case that says how the node of a run is, and nothing of its pods, is about a pod that runs on it."""


def pods_of(facts: Facts) -> tuple[Pod, ...]:
    """Read the pods of the job; one that the API does not know is one that vanished."""
    pods: tuple[Pod, ...] = by_key(
        facts,
        {
            "pods": lambda many: tuple(_pod(one) for one in many),
            "pod": lambda one: (_pod(one),),
            **_OF_A_NODE,
        },
        default=(),
    )
    return pods


def _pod(value: Any) -> Pod:
    raw = by_type(
        without_nulls(value),
        {
            int: lambda _: lifted({}, POD_FIELDS),
            str: lambda phase: lifted({"phase": phase}, POD_FIELDS),
            dict: lambda given: lifted(given, POD_FIELDS),
        },
    )
    metadata = {"name": A_POD, **raw["metadata"]}
    status = {**raw["status"], "conditions": [condition(one) for one in raw["status"].get("conditions", [])]}
    return msgspec.convert(
        {
            "metadata": {"uid": metadata["name"], **metadata},
            "spec": {"nodeName": A_NODE, **raw["spec"]},
            "status": status,
        },
        Pod,
    )


def vanished_of(facts: Facts) -> tuple[str, ...]:
    """Return the uid of the pod that the API does not know."""
    vanished: tuple[str, ...] = by_key(
        facts, {"pod": lambda pod: by_type(pod, {int: lambda _: (A_POD,), object: lambda _: ()})}, default=()
    )
    return vanished


def seen_pods_of(facts: Facts) -> tuple[Pod, ...]:
    """Return the pods that the API shows."""
    pods: tuple[Pod, ...] = by_key(
        facts,
        {
            "pods": lambda many: tuple(_pod(one) for one in many),
            "pod": lambda one: by_type(one, {int: lambda _: (), object: lambda given: (_pod(given),)}),
            **_OF_A_NODE,
        },
        default=(),
    )
    return pods


# Job and workload


def job_of(facts: Facts, pods: tuple[Pod, ...]) -> Job | None:
    """Read the Job; one that a case does not mention has as many completions as there are pods."""
    assumed = {"spec": {"completions": len(pods)}}
    job: Job | None = by_key(
        facts,
        {"job": lambda job: read_if_found(job, lambda given: msgspec.convert(_job(given), Job), None)},
        otherwise=lambda: msgspec.convert(assumed, Job),
    )
    return job


def _job(value: Any) -> Mapping[str, Any]:
    raw: Mapping[str, Any] = by_type(
        without_nulls(value),
        {
            str: lambda name: lifted({"conditions": [name]}, JOB_FIELDS),
            dict: lambda given: lifted(given, JOB_FIELDS),
        },
    )
    conditions = [condition(one) for one in raw["status"].get("conditions", [])]
    return {**raw, "status": {**raw["status"], "conditions": conditions}}


def _workload(value: Any) -> Workload | None:
    workload: Workload | None = read_if_found(
        value, lambda given: msgspec.convert(raw_workload(without_nulls(given)), Workload), None
    )
    return workload


def raw_workload(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the parts of a workload where the API has them."""
    raw = lifted(given, WORKLOAD_FIELDS)
    conditions = [condition(one) for one in raw["status"].get("conditions", [])]
    return {**raw, "status": {**raw["status"], "conditions": conditions}}
