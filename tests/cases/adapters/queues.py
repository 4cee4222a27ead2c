"""Answers about quota: what a queue could admit, and whether it admits at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.gpu_models import wanted_model
from airflow_gpu_placement.engine.gpu_wanted import request_of
from airflow_gpu_placement.engine.kueue import (
    CohortQuota,
    QueueQuota,
    QuotaTree,
    admit_in_order,
    forecast,
    quota_of_queue,
    stopped,
)
from airflow_gpu_placement.engine.kueue.admission import GPU_RESOURCE
from airflow_gpu_placement.engine.kueue.flavors import flavors_for
from airflow_gpu_placement.engine.quantity import whole
from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, LocalQueue, ResourceFlavor, Workload
from tests.cases.adapters.fit import request_from
from tests.cases.adapters.reading import by_key, by_type, requests_of, shaped, without_nulls
from tests.cases.adapters.remote_job import raw_workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_gpu_placement.engine.kueue import AdmissionForecast
    from airflow_gpu_placement.model.pool import GpuIdentity
    from tests.cases.adapters.answer import Answer
    from tests.cases.adapters.reading import Facts

A_QUEUE = "the-queue"

_ACTIVE = {"conditions": [{"type": "Active", "status": "True"}]}
"""Status of a queue of which a case says nothing else: only the parts that matter are there."""

_LISTED: dict[type, Callable[[Any], list[Any]]] = {list: list, dict: lambda one: [one]}


def _by_form(of_short: Answer, of_raw: Answer) -> Answer:
    """Answer for queues in short form, or for a single raw one."""

    def answer(facts: Facts, expected: Any) -> Any:
        return by_key(
            facts,
            {
                "clusterQueues": lambda _: of_short(facts, expected),
                "clusterQueue": lambda _: of_raw(facts, expected),
            },
        )

    return answer


# Queues in short form


def _tree(facts: Facts) -> QuotaTree:
    """Read the queues of a cohort, which a case names, or of which it gives the cohort's own quota too."""
    name, cohorts = by_type(
        facts.get("cohort"),
        {
            dict: lambda own: (own["name"], [_cohort(own)]),
            object: lambda name: (name, []),
        },
    )
    return QuotaTree([_quota(one, name) for one in facts["clusterQueues"]], cohorts)


def _cohort(short: Mapping[str, Any]) -> CohortQuota:
    return CohortQuota(
        name=short["name"],
        nominal=whole(short.get("nominal", 0)),
        borrowing_limit=_limit(short.get("borrowingLimit")),
        lending_limit=_limit(short.get("lendingLimit")),
        parent=short.get("parent"),
    )


def _quota(short: Mapping[str, Any], cohort: str | None) -> QueueQuota:
    return QueueQuota(
        name=short["name"],
        nominal=whole(short.get("nominal", 0)),
        reserved=whole(short.get("usage", 0)),
        borrowing_limit=_limit(short.get("borrowingLimit")),
        lending_limit=_limit(short.get("lendingLimit")),
        cohort=short.get("cohort", cohort),
        active=short.get("active", True),
        reclaim=short.get("reclaimWithinCohort", "Never"),
    )


def _limit(value: Any) -> int | None:
    return by_type(value, {type(None): lambda _: None, object: whole})  # type: ignore[no-any-return]  # any JSON


def _of_each(read: Callable[[QuotaTree, str], Any]) -> Answer:
    """Answer by the name of the queue, or for the only one."""

    def answer(facts: Facts, expected: Any) -> Any:
        tree = _tree(facts)
        found = {name: read(tree, name) for name in tree.queues}
        return by_type(expected, {dict: lambda _: found, object: lambda _: next(iter(found.values()))})

    return answer


def _reclaimable(tree: QuotaTree, name: str) -> int:
    """Return what others give back to a queue that may take back whatever is its own."""
    return {"Any": tree.withheld(name)}.get(tree.queues[name].reclaim, 0)


def _fit_of_each(read: Callable[[QuotaTree, str], int]) -> Answer:
    """Answer for each request and queue whether all of it finds room there."""

    def answer(facts: Facts, expected: Any) -> Any:
        tree = _tree(facts)
        requests = requests_of(facts, expected, tree.queues)

        def ask(name: str, text: str) -> bool:
            gpus = request_from(requests[text], facts).total_gpus
            (placed,) = admit_in_order({name: read(tree, name)}, [gpus]).placed
            return by_type(placed, {type(None): lambda _: False, str: lambda _: True})  # type: ignore[no-any-return]  # any JSON

        return shaped(expected, tree.queues, requests, ask)

    return answer


# A raw queue


def _available(facts: Facts, expected: Any) -> Any:
    return by_type(
        expected,
        {
            dict: lambda _: {text: _available_of(facts, text) for text in expected},
            object: lambda _: _in_best_flavor(facts, ()),
        },
    )


def _available_of(facts: Facts, text: str) -> Any:
    """Answer for a flavour, for the queue itself, or for what a request names."""
    queue = _queue(facts)
    return by_key(
        {
            **{name: lambda name: _in_flavors(facts, (name,)) for name in _flavors_of(queue)},
            queue.metadata.name: lambda _: _in_best_flavor(facts, ()),
        },
        {text: lambda ask: ask(text)},
        otherwise=lambda: _in_best_flavor(facts, (request_of(text).gpu,)),
    )


def _flavors_of(queue: ClusterQueue) -> list[str]:
    return [one.name for group in queue.spec.resource_groups for one in group.flavors]


def _in_best_flavor(facts: Facts, wanted: tuple[GpuIdentity, ...]) -> int:
    """Return what one flavour can give; flavours are never added."""
    return _in_flavors(
        facts, flavors_for(_objects(facts), _queue(facts), GPU_RESOURCE, selector={}, wanted=wanted)
    )


def _in_flavors(facts: Facts, flavors: tuple[str, ...]) -> int:
    return quota_of_queue(
        _objects(facts),
        _queue(facts),
        LocalQueue(),
        flavors,
        resource=GPU_RESOURCE,
        priority=facts.get("job_priority", 0),
    ).available


def _queue(facts: Facts) -> ClusterQueue:
    raw = without_nulls(facts["clusterQueue"])
    metadata = {"name": A_QUEUE, **raw.get("metadata", {})}
    return msgspec.convert({**raw, "metadata": metadata, "status": _status(raw)}, ClusterQueue)


def _objects(facts: Facts) -> KueueObjects:
    queue = _queue(facts)
    labels = {**{name: {} for name in _flavors_of(queue)}, **facts.get("flavor_labels", {})}
    flavors = [
        {"metadata": {"name": name}, "spec": {"nodeLabels": node_labels}}
        for name, node_labels in labels.items()
    ]
    others = [
        _told_apart(without_nulls(one))
        for key in ("workloads", "existing")
        for one in by_type(facts.get(key, []), _LISTED)
    ]
    workloads = tuple([one for one in others if isinstance(one, Workload)])
    return KueueObjects(
        cluster_queues=(queue, *[one for one in others if isinstance(one, ClusterQueue)]),
        flavors=msgspec.convert(flavors, tuple[ResourceFlavor, ...]),
        local_queues=tuple([_door(one, queue) for one in workloads]),
        workloads=workloads,
    )


def _told_apart(raw: Mapping[str, Any]) -> ClusterQueue | Workload:
    """Read a raw object: a ClusterQueue by what only it has, else a workload."""
    read: ClusterQueue | Workload = by_key(
        raw.get("spec", {}),
        {"resourceGroups": lambda _: msgspec.convert({**raw, "status": _status(raw)}, ClusterQueue)},
        otherwise=lambda: msgspec.convert(raw_workload(raw), Workload),
    )
    return read


def _status(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {**_ACTIVE, **raw.get("status", {})}


def _door(workload: Workload, queue: ClusterQueue) -> LocalQueue:
    """Return the LocalQueue through which a workload of the case waits: a case has only one ClusterQueue."""
    metadata = {"namespace": workload.metadata.namespace, "name": workload.spec.queue_name}
    return msgspec.convert({"metadata": metadata, "spec": {"clusterQueue": queue.metadata.name}}, LocalQueue)


def _forecast(facts: Facts, request: Any) -> AdmissionForecast:
    wanted = request_from(request, facts)
    return forecast(
        _objects(facts),
        _queue(facts).metadata.name,
        wanted.total_gpus,
        wanted=[wanted_model(name) for name in wanted.models],
        priority=facts.get("job_priority", 0),
        pods=wanted.nodes,
    )


def _forecast_of_each(read: Callable[[AdmissionForecast], bool]) -> Answer:
    def answer(facts: Facts, expected: Any) -> Any:
        requests = requests_of(facts, expected, ())
        return shaped(expected, (A_QUEUE,), requests, lambda _, text: read(_forecast(facts, requests[text])))

    return answer


def _eligible(facts: Facts, _: Any) -> bool:
    answers: dict[type, bool] = {type(None): True}
    return answers.get(type(stopped(_queue(facts))), False)


def _why(facts: Facts, _: Any) -> str:
    found = stopped(_queue(facts))
    text: str = by_type(found, {type(None): lambda _: "", object: lambda one: one.because})
    return text


# Queues that share nothing


def _arrivals(facts: Facts) -> Any:
    """Let requests arrive at pools of which a case says what is free, or their quota."""
    free = {
        name: by_type(
            pool,
            {
                dict: lambda row: by_key(
                    row,
                    {"free": whole},
                    otherwise=lambda: QuotaTree([_quota({"name": A_QUEUE, **row}, None)]).available(A_QUEUE),
                ),
                object: whole,
            },
        )
        for name, pool in facts["pools"].items()
    }
    return admit_in_order(free, facts["arrivals"])


ANSWERS: dict[str, Answer] = {
    "available_now": _by_form(_of_each(QuotaTree.available), _available),
    "quota_fits": _by_form(
        _fit_of_each(QuotaTree.available), _forecast_of_each(lambda found: found.fits_now)
    ),
    "fits_now": _by_form(_fit_of_each(QuotaTree.available), _forecast_of_each(lambda found: found.fits_now)),
    "could_ever_fit": _by_form(
        _fit_of_each(QuotaTree.potential), _forecast_of_each(lambda found: found.fits_ever)
    ),
    "reclaimable": _of_each(_reclaimable),
    "eligible_for_new": _by_form(_of_each(QuotaTree.admits), _eligible),
    "reason": _why,
    "reason_mentions": _why,
    "placed": lambda facts, _: _arrivals(facts).placed,
    "left": lambda facts, _: _arrivals(facts).left,
}
"""Key of ``expect`` -> answer about queues."""
