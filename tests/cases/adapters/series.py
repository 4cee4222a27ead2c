"""The same remote job seen several times, through the store that the watcher fills from its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.watch.followed import JobRef
from airflow_gpu_placement.watch.store import ClusterStore
from tests.cases.adapters.job_nodes import raw_nodes_of
from tests.cases.adapters.reading import first_final
from tests.cases.adapters.remote_job import (
    job_of,
    logs_decide,
    loss_policy,
    observation,
    seen_pods_of,
)
from tests.cases.adapters.units import Hands, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.outcome import Observation, Outcome
    from tests.cases.adapters.reading import Facts

REF = JobRef("the-namespace", "the-job", "the-uid")
_IDENTITY = {"name": REF.name, "namespace": REF.namespace, "uid": REF.uid}
_OF_JOB = {"batch.kubernetes.io/controller-uid": REF.uid}


def last_outcome(facts: Facts, looks: Sequence[Facts]) -> Outcome:
    """Follow a job through several looks as the watcher does: to the first outcome that is final."""
    hands = Hands()
    store = ClusterStore(hands.seconds, hands.today)
    store.subscribe(REF)
    outcome: Outcome = first_final([_look(store, hands, {**facts, **look}) for look in looks])
    return outcome


def _look(store: ClusterStore, hands: Hands, facts: Facts) -> Outcome:
    hands.turn_to(facts["t"])
    return classify(
        _observed(store, facts),
        loss_policy(facts),
        logs_decide=logs_decide(facts),
    )


def _observed(store: ClusterStore, facts: Facts) -> Observation:
    """Hand to the store what its streams would bring; what no stream of it brings is added to its answer."""
    pods = seen_pods_of(facts)
    job = job_of(facts, pods)
    store.pods_listed(REF.namespace, [_ours(pod) for pod in pods])
    known = [_ours_job(one) for one in (job,) if one]
    store.jobs_listed(REF.namespace, known)
    store.answered(REF, next(iter(known), None))
    store.nodes_listed(raw_nodes_of(facts, pods))
    direct = observation(facts)
    return msgspec.structs.replace(
        store.observation(REF, unreachable_seconds=direct.unreachable_seconds),
        workload=direct.workload,
        log_tail=direct.log_tail,
        completion=direct.completion,
        cancelled=direct.cancelled,
        waited_seconds=direct.waited_seconds,
        now=moment(facts.get("now", facts["t"])),
    )


def _ours(pod: Any) -> Any:
    metadata = msgspec.structs.replace(
        pod.metadata, namespace=REF.namespace, labels={**pod.metadata.labels, **_OF_JOB}
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def _ours_job(job: Any) -> Any:
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, **_IDENTITY))
