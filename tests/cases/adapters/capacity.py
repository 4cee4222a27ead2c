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
from tests.cases.adapters.clusters import clusters_of, pools_of
from tests.cases.adapters.fit import could_ever_fit, eligible, fits_now
from tests.cases.adapters.reading import by_key, by_type, requests_of, shaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cases.adapters.answer import Answer
    from tests.cases.adapters.clusters import Cluster
    from tests.cases.adapters.reading import Facts


def _only(facts: Facts) -> Cluster:
    return next(iter(clusters_of(facts).values()))


def _reported(read: Callable[[CapacityReport], Any]) -> Answer:
    """Answer for the only cluster, or by pool name in a case that has several."""

    def answer(facts: Facts, _: Any) -> Any:
        answers = {name: read(report(*one)) for name, one in clusters_of(facts).items()}
        return by_key(facts, {"pools": lambda _: answers}, otherwise=lambda: next(iter(answers.values())))

    return answer


def _words(facts: Facts, _: Any) -> str:
    reports = [report(*one) for one in clusters_of(facts).values()]
    return " ".join(text for one in reports for text in (*one.reasons, *one.warnings))


def _nothing_raised(facts: Facts) -> list[str]:
    """Read everything once; an input that cannot be taken raises, and then there is no answer."""
    for one in clusters_of(facts).values():
        report(*one)
    return []


def _per_request(ask: Callable[[Facts, str, Any], Any]) -> Answer:
    """Answer for each request (and pool), in the shape of the expectation."""

    def answer(facts: Facts, expected: Any) -> Any:
        pools = pools_of(facts)
        requests = requests_of(facts, expected, pools)
        return shaped(expected, pools, requests, lambda pool, name: ask(facts, pool, requests[name]))

    return answer


def _texts(facts: Facts) -> list[str]:
    """Return the requests that are texts."""
    texts: list[str] = by_key(facts, {"requests": list, "request": lambda one: [one]}, default=[])
    return texts


def _pinned(facts: Facts, _: Any) -> dict[str, Any]:
    return {text: selector_for(*_only(facts), request_of(text)) for text in _texts(facts)}


def _resource_name(facts: Facts, _: Any) -> Any:
    return by_key(
        facts,
        {
            "request": lambda text: job_resource_name(*_only(facts), request_of(text)),
            "requests": lambda texts: {
                text: job_resource_name(*_only(facts), request_of(text)) for text in texts
            },
        },
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


def _memory_ok(facts: Facts, _: Any) -> Any:
    """Answer for each memory class, or for the only one."""
    return by_type(
        facts["min_gpu_memory_gb"],
        {
            list: lambda classes: {str(gb): min_memory_ok(*_only(facts), gb) for gb in classes},
            object: lambda gb: min_memory_ok(*_only(facts), gb),
        },
    )


def _model(facts: Facts, expected: Any) -> Any:
    """Name the only model, or that of each node."""
    of_all = _reported(lambda found: found.model)
    of_each = _reported(lambda found: found.models)
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
    "model_of": _reported(lambda found: found.models),
    "variants_distinguishable": _reported(lambda found: found.variants),
    "reason_mentions": _words,
    "must_not_say": _words,
    "errors": lambda facts, _: _nothing_raised(facts),
    "reclaimable": _reclaimable,
    "matches": _per_request(_matches),
    "eligible_nodes": lambda facts, _: {
        text: eligible_nodes(*_only(facts), request_of(text)) for text in _texts(facts)
    },
    "min_memory_ok": _memory_ok,
    "refused_as_ambiguous": lambda facts, _: [text for text in _texts(facts) if is_ambiguous(text)],
    "job_must_pin": _pinned,
    "job_resource_name": _resource_name,
    "fits_now": _per_request(fits_now),
    "could_ever_fit": _per_request(could_ever_fit),
    "eligible": _per_request(eligible),
}
"""Key of ``expect`` -> answer about nodes and their GPUs."""
