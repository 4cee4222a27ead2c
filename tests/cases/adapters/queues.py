"""Answers about quota: what a queue could admit, and whether it admits at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.gpu_wanted import request_of
from airflow_gpu_placement.engine.kueue import (
    QueueQuota,
    QuotaTree,
    admit_in_order,
    forecast,
    quota_of_queue,
    stopped,
)
from airflow_gpu_placement.engine.kueue.admission import GPU_RESOURCE
from airflow_gpu_placement.engine.kueue.flavors import flavors_for
from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, LocalQueue, ResourceFlavor, Workload
from tests.cases.adapters.reading import by_key, by_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.model.pool import GpuIdentity
    from tests.cases.adapters.answer import Answer
    from tests.cases.adapters.reading import Facts

A_QUEUE = "the-queue"


def _available(facts: Facts, expected: Any) -> Any:
    return by_key(
        facts,
        {
            "clusterQueues": lambda queues: _tree(queues, facts.get("cohort")).available_now(),
            "clusterQueue": lambda _: by_type(
                expected,
                {
                    dict: lambda _: {
                        text: _in_best_flavor(facts, (request_of(text).gpu,)) for text in expected
                    },
                    object: lambda _: _in_best_flavor(facts, ()),
                },
            ),
        },
    )


def _tree(queues: list[Mapping[str, Any]], cohort: str | None) -> QuotaTree:
    return QuotaTree([_quota(one, cohort) for one in queues])


def _in_best_flavor(facts: Facts, wanted: tuple[GpuIdentity, ...]) -> int:
    """Return what one flavour can give; flavours are never added."""
    objects, queue = _objects(facts), _queue(facts)
    flavors = flavors_for(objects, queue, GPU_RESOURCE, selector={}, wanted=wanted)
    return quota_of_queue(objects, queue, LocalQueue(), flavors, resource=GPU_RESOURCE).available


def _quota(short: Mapping[str, Any], cohort: str | None) -> QueueQuota:
    return QueueQuota(
        name=short["name"],
        nominal=short["nominal"],
        reserved=short.get("usage", 0),
        borrowing_limit=short.get("borrowingLimit"),
        lending_limit=short.get("lendingLimit"),
        cohort=short.get("cohort", cohort),
        active=short.get("active", True),
        reclaim=short.get("reclaimWithinCohort", "Never"),
    )


def _queue(facts: Facts) -> ClusterQueue:
    raw = facts["clusterQueue"]
    metadata = {"name": A_QUEUE, **raw.get("metadata", {})}
    return msgspec.convert({**raw, "metadata": metadata}, ClusterQueue)


def _objects(facts: Facts) -> KueueObjects:
    flavors = [
        {"metadata": {"name": name}, "spec": {"nodeLabels": labels}}
        for name, labels in facts.get("flavor_labels", {}).items()
    ]
    workloads = [*facts.get("workloads", []), *facts.get("existing", [])]
    return KueueObjects(
        cluster_queues=(_queue(facts),),
        flavors=msgspec.convert(flavors, tuple[ResourceFlavor, ...]),
        workloads=msgspec.convert(workloads, tuple[Workload, ...]),
    )


def _fits(facts: Facts, text: str) -> bool:
    wanted = request_of(text)
    queue = _queue(facts)
    return forecast(_objects(facts), queue.metadata.name, wanted.count, wanted=(wanted.gpu,)).fits_now


def _eligible(facts: Facts, _: Any) -> bool:
    answers: dict[type, bool] = {type(None): True}
    return answers.get(type(stopped(_queue(facts))), False)


def _why(facts: Facts, _: Any) -> str:
    found = stopped(_queue(facts))
    text: str = by_type(found, {type(None): lambda _: "", object: lambda one: one.because})
    return text


ANSWERS: dict[str, Answer] = {
    "available_now": _available,
    "quota_fits": lambda facts, _: {text: _fits(facts, text) for text in facts["requests"]},
    "eligible_for_new": _eligible,
    "reason": _why,
    "reason_mentions": _why,
    "placed": lambda facts, _: admit_in_order(facts["pools"], facts["arrivals"]).placed,
    "left": lambda facts, _: admit_in_order(facts["pools"], facts["arrivals"]).left,
}
"""Key of ``expect`` -> answer about queues."""
