"""Answers about GPUs on nodes: what they are, how many are free, and which requests they suit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.engine.capacity_report import (
    CapacityReport,
    reclaimable,
    reclaimable_by_admission,
    report,
)
from airflow_gpu_placement.engine.gpu_wanted import (
    eligible_nodes,
    is_ambiguous,
    job_resource_name,
    matches,
    min_memory_ok,
    request_of,
    selector_for,
)
from airflow_gpu_placement.model.reasons import Verdict
from tests.cases.adapters.clusters import all_pools_of, clusters_of, pools_of
from tests.cases.adapters.fit import could_ever_fit, eligible, fits_now, reasons
from tests.cases.adapters.prices import verdict_on
from tests.cases.adapters.reading import by_key, by_type, for_nodes, for_requests, requests_of, shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cases.adapters.answer import Answer
    from tests.cases.adapters.clusters import Cluster
    from tests.cases.adapters.reading import Facts


_NOW = {Verdict.FIT: True, Verdict.UNSCHEDULABLE: False, Verdict.UNRESOLVABLE: False}
_EVER = {Verdict.FIT: True, Verdict.UNSCHEDULABLE: True, Verdict.UNRESOLVABLE: False}


def _only(facts: Facts) -> Cluster:
    return next(iter(clusters_of(facts).values()))


def _reported(read: Callable[[CapacityReport], Any]) -> Answer:
    """Answer for the only cluster, for each of its nodes, or by pool name in a case that has several."""

    def together(facts: Facts) -> Any:
        answers = {name: read(report(*one)) for name, one in clusters_of(facts).items()}
        return by_key(facts, {"pools": lambda _: answers}, otherwise=lambda: next(iter(answers.values())))

    def answer(facts: Facts, expected: Any) -> Any:
        nodes, pods, pool = _only(facts)
        by_name = {node.metadata.name: node for node in nodes}
        return for_nodes(
            expected,
            by_name,
            lambda name: read(report((by_name[name],), pods, pool)),
            lambda: together(facts),
        )

    return answer


def _of_all_nodes(read: Callable[[CapacityReport], Any]) -> Answer:
    """Answer for the only cluster with what is told by node anyway."""
    return lambda facts, _: _reported(read)(facts, None)


def _words(facts: Facts, _: Any) -> str:
    reports = [report(*one) for one in clusters_of(facts).values()]
    said = [text for one in reports for text in (*one.reasons, *one.warnings)]
    wanted = requests_of(facts, {}, ())
    against = [
        text for pool in pools_of(facts) for one in wanted.values() for text in reasons(facts, pool, one)
    ]
    return " ".join((*said, *against))


def _nothing_raised(facts: Facts) -> list[str]:
    """Read everything once; an input that cannot be taken raises, and then there is no answer."""
    for one in clusters_of(facts).values():
        report(*one)
    return []


def _per_request(ask: Callable[[Facts, str, Any], Any]) -> Answer:
    """Answer for each request (and pool), in the shape of the expectation."""

    def answer(facts: Facts, expected: Any) -> Any:
        pools = all_pools_of(facts)
        requests = requests_of(facts, expected, pools)
        return shaped(expected, pools, requests, lambda pool, name: ask(facts, pool, requests[name]))

    return answer


def _of_row(ask: Callable[[Facts, str, Any], Any], words: Mapping[Verdict, bool]) -> Answer:
    """Answer for each request and pool, also for one of which a case gives only a row."""
    return _per_request(
        lambda facts, pool, request: by_key(
            clusters_of(facts),
            {pool: lambda _: ask(facts, pool, request)},
            otherwise=lambda: words[verdict_on(facts, pool, request)],
        )
    )


def _texts(facts: Facts) -> list[str]:
    """Return the requests that are texts."""
    texts: list[str] = by_key(facts, {"requests": list, "request": lambda one: [one]}, default=[])
    return texts


def _pinned(facts: Facts, expected: Any) -> Any:
    return for_requests(expected, _texts(facts), lambda text: selector_for(*_only(facts), request_of(text)))


def _resource_name(facts: Facts, expected: Any) -> Any:
    def of_each(_: Any) -> Any:
        return for_requests(
            expected, _texts(facts), lambda text: job_resource_name(*_only(facts), request_of(text))
        )

    return by_key(
        facts,
        {"request": of_each, "requests": of_each},
        otherwise=lambda: job_resource_name(*_only(facts)),
    )


def _reclaimable(facts: Facts, _: Any) -> Any:
    priority = facts.get("job_priority", 0)
    return by_key(
        facts,
        {"admission": lambda name: reclaimable(*_only(facts), priority=priority, admission=name)},
        otherwise=lambda: reclaimable_by_admission(*_only(facts), priority=priority),
    )


def _matches(facts: Facts, pool: str, text: str) -> bool:
    return matches(*clusters_of(facts)[pool], request_of(text))


def _memory_ok(facts: Facts, expected: Any) -> Any:
    """Answer for each memory class, by class or in their order, or for the only one."""
    answers = by_type(
        facts["min_gpu_memory_gb"],
        {
            list: lambda classes: {str(gb): min_memory_ok(*_only(facts), gb) for gb in classes},
            object: lambda gb: {str(gb): min_memory_ok(*_only(facts), gb)},
        },
    )
    return by_type(
        expected,
        {
            dict: lambda _: answers,
            list: lambda _: list(answers.values()),
            object: lambda _: next(iter(answers.values())),
        },
    )


def _model(facts: Facts, expected: Any) -> Any:
    """Name the only model, or that of each node."""
    of_all = _reported(lambda found: found.model)
    of_each = _of_all_nodes(lambda found: found.models)
    return by_type(
        expected,
        {
            dict: lambda _: by_key(facts, {"pools": lambda _: of_all, "nodes": lambda _: of_each})(facts, _),
            object: lambda _: of_all(facts, _),
        },
    )


ANSWERS: dict[str, Answer] = {
    "total": _reported(lambda found: found.total),
    "withdrawn": _reported(lambda found: found.withdrawn),
    "used": _reported(lambda found: found.used),
    "free": _reported(lambda found: found.free),
    "pending_demand": _reported(lambda found: found.pending_demand),
    "usable_nodes": _reported(lambda found: found.usable_nodes),
    "largest_block": _reported(lambda found: found.largest_block),
    "gpu_nodes": _reported(lambda found: found.gpu_nodes),
    "warn_nodes": _reported(lambda found: found.warn_nodes),
    "warnings_at_least": _reported(lambda found: found.warnings),
    "excluded_by_taint": _reported(lambda found: found.excluded_by_taint),
    "mig": _reported(lambda found: found.mig),
    "mig_free": _reported(lambda found: found.mig_free),
    "slice_units_used": _reported(lambda found: found.slice_units_used),
    "slice_units_per_card": _reported(lambda found: found.slice_units_per_card),
    "whole_gpus": _reported(lambda found: found.whole_gpus),
    "whole_gpus_trusted": _reported(lambda found: found.whole_gpus_trusted),
    "physical_gpus": _reported(lambda found: found.physical_gpus),
    "shared_slots_free": _reported(lambda found: found.shared_slots_free),
    "kind": _reported(lambda found: found.kind),
    "model": _model,
    "memory_gb_class": _reported(lambda found: found.memory_gb),
    "form_factor": _reported(lambda found: found.form_factor),
    "arch": _reported(lambda found: found.architecture),
    "model_of": _of_all_nodes(lambda found: found.models),
    "variants_distinguishable": _of_all_nodes(lambda found: found.variants),
    "reason_mentions": _words,
    "must_not_say": _words,
    "errors": lambda facts, _: _nothing_raised(facts),
    "reclaimable": _reclaimable,
    "matches": _per_request(_matches),
    "eligible_nodes": lambda facts, expected: for_requests(
        expected, _texts(facts), lambda text: eligible_nodes(*_only(facts), request_of(text))
    ),
    "min_memory_ok": _memory_ok,
    "refused_as_ambiguous": lambda facts, _: [text for text in _texts(facts) if is_ambiguous(text)],
    "job_must_pin": _pinned,
    "job_resource_name": _resource_name,
    "fits_now": _of_row(fits_now, _NOW),
    "could_ever_fit": _of_row(could_ever_fit, _EVER),
    "eligible": _of_row(eligible, _EVER),
}
"""Key of ``expect`` -> answer about nodes and their GPUs."""
