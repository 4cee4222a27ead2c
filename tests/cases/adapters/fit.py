"""Whether a request fits a pool now, by growing, or ever: by the decision itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.gpu_wanted import request_of, slice_pods
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.pool import Growth
from airflow_gpu_placement.model.reasons import Verdict
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import PoolSignals, Snapshot
from tests.cases.adapters.answer import AnyOf
from tests.cases.adapters.clusters import clusters_of
from tests.cases.adapters.reading import by_key, by_type
from tests.cases.adapters.units import processor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_gpu_placement.model.decision import PoolVerdict
    from airflow_gpu_placement.model.pool import GpuPool
    from tests.cases.adapters.reading import Facts

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)

BY_GROWING = "elastic"
"""The vocabulary's word for what fits once a pool has added nodes to itself."""

_FIT, _LATER, _NEVER = Verdict.FIT, Verdict.UNSCHEDULABLE, Verdict.UNRESOLVABLE

_ONCE_GROWN = AnyOf((BY_GROWING, False))
"""It does not fit on what is free now, and fits by growing: both are said of it."""

_EVER_GROWN = AnyOf((BY_GROWING, True))

_NOW_WORDS: dict[tuple[Verdict, Verdict], Any] = {
    (_FIT, _FIT): True,
    (_FIT, _LATER): _ONCE_GROWN,
    (_FIT, _NEVER): _ONCE_GROWN,
    (_LATER, _LATER): False,
    (_LATER, _NEVER): False,
    (_NEVER, _NEVER): False,
    (_NEVER, _LATER): False,
}
"""Verdict on the pool as it is, verdict on the same pool if it could not grow -> word."""

_EVER_WORDS: dict[tuple[Verdict, Verdict], Any] = {
    (_FIT, _FIT): True,
    (_FIT, _LATER): _EVER_GROWN,
    (_FIT, _NEVER): _EVER_GROWN,
    (_LATER, _LATER): True,
    (_LATER, _NEVER): _EVER_GROWN,
    (_NEVER, _NEVER): False,
    (_NEVER, _LATER): False,
}


_EVER_WORDS_OF_NO_NODE = {**_EVER_WORDS, (_LATER, _LATER): False}
"""A pool that has no node and does not grow holds nothing; the product waits in case its nodes come back."""


def fits_now(facts: Facts, pool: str, request: Any) -> Any:
    """Say whether a request fits now."""
    return _of_slices(facts, pool, request, if_empty=False)(
        lambda: _NOW_WORDS[_verdicts(facts, pool, request)]
    )


def could_ever_fit(facts: Facts, pool: str, request: Any) -> Any:
    """Say whether a request could ever fit."""
    nodes, _, _ = clusters_of(facts)[pool]
    words = {True: _EVER_WORDS, False: _EVER_WORDS_OF_NO_NODE}[bool(nodes)]
    return _of_slices(facts, pool, request, if_empty=True)(lambda: words[_verdicts(facts, pool, request)])


def eligible(facts: Facts, pool: str, request: Any) -> Any:
    """Say whether a pool is one that the request may use at all."""
    return could_ever_fit(facts, pool, request)


def _of_slices(
    facts: Facts, pool: str, request: Any, *, if_empty: bool
) -> Callable[[Callable[[], Any]], Any]:
    """Answer a request for slices, which a job of the product never asks for, from the nodes alone.

    :return: takes the answer for whole GPUs.
    """
    profile = by_type(request, {str: lambda text: request_of(text).profile, object: lambda _: None})

    def answer(of_whole: Callable[[], Any]) -> Any:
        return by_type(
            profile,
            {
                type(None): lambda _: of_whole(),
                str: lambda _: bool(
                    slice_pods(*clusters_of(facts)[pool], request_of(request), if_empty=if_empty)
                ),
            },
        )

    return answer


def request_from(value: Any, facts: Facts) -> GpuRequest:
    """Read a request: ``MODEL:count``, a size, or a number of GPUs."""
    more = by_key(facts, {"image_platforms": _architecture}, default={})
    size: Mapping[str, Any] = by_type(
        value,
        {
            str: lambda text: {
                "models": (request_of(text).name,),
                "gpus_per_node": request_of(text).count,
            },
            int: lambda count: {"gpus_per_node": count},
            dict: lambda given: {
                "gpus_per_node": given["gpus_per_pod"],
                "nodes": given.get("pods", 1),
                "models": by_key(
                    given, {"gpu": lambda name: (name,), "model": lambda name: (name,)}, default=()
                ),
            },
        },
    )
    return GpuRequest(**size, **more)


def _architecture(platforms: list[str]) -> dict[str, str | None]:
    """Return the processor of an image that is built for only one."""
    found = list(dict.fromkeys(processor(one) for one in platforms))
    return {1: {"architecture": found[0]}}.get(len(found), {})


def reasons(facts: Facts, pool: str, request: Any) -> tuple[str, ...]:
    """Return what the decision says against a pool."""
    _, _, grown = clusters_of(facts)[pool]
    judged = _judged(request_from(request, facts), grown, signals_of(facts, pool))
    return tuple(reason.message for reason in judged.reasons)


def signals_of(facts: Facts, pool: str) -> PoolSignals:
    """Return what the nodes and pods of a pool show."""
    nodes, pods, itself = clusters_of(facts)[pool]
    capacities = node_capacities(nodes, pods, itself)
    return PoolSignals(pool=pool, observed_at=NOW, source="a case", nodes=capacities)


def _verdicts(facts: Facts, pool: str, request: Any) -> tuple[Verdict, Verdict]:
    _, _, grown = clusters_of(facts)[pool]
    bare = msgspec.structs.replace(grown, growth=Growth())
    seen = signals_of(facts, pool)
    wanted = request_from(request, facts)
    return _judged(wanted, grown, seen).verdict, _judged(wanted, bare, seen).verdict


def _judged(request: GpuRequest, pool: GpuPool, seen: PoolSignals) -> PoolVerdict:
    decision = place(
        request,
        [pool],
        Snapshot(taken_at=NOW, pools={pool.name: seen}),
        History(),
        now=NOW,
        subject="a case",
        catalog_hash="",
    )
    return decision.verdicts[0]
