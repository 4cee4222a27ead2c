"""The decision: every pool against every filter, then the order of those that fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement import __version__
from airflow_gpu_placement.engine.registry import FILTERS
from airflow_gpu_placement.engine.view import PoolView, contradictions, excluded_nodes
from airflow_gpu_placement.model.decision import Decision, PoolVerdict
from airflow_gpu_placement.model.reasons import TIERS, Verdict, verdict_of
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_gpu_placement.model.decision import History
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.reasons import Reason
    from airflow_gpu_placement.model.signals import Snapshot


def place(
    request: GpuRequest,
    pools: Sequence[GpuPool],
    snapshot: Snapshot,
    history: History,
    *,
    now: datetime,
    subject: str,
    catalog_hash: str,
) -> Decision:
    """Decide where a request can run now, and say why for every pool.

    Among the pools that fit: those where this logical task lost nothing come first, then the cheaper (an
    unknown
    price after every known one), then the name. The order of ``pools`` changes nothing.

    :param snapshot: all signals; a pool without any is unknown, which is never free.
    :param history: what earlier attempts taught.
    :param now: when this is decided, for the age of the signals.
    :param subject: the logical task as text, for people.
    :param catalog_hash: hash of the catalogue that the pools come from.
    """
    excluded = excluded_nodes(pools, history)
    views = [
        PoolView(request, pool, snapshot.pools.get(pool.name), excluded[pool.name], ())
        for pool in sorted(pools, key=lambda pool: pool.name)
    ]
    on_offer = tuple(sorted({gpu.model for view in views for gpu in view.identities}))
    for view in views:
        view.offered_models = on_offer
    judged = [(view, _judge(view, now)) for view in views]
    fitting = sorted(
        (pair for pair in judged if pair[1].verdict is Verdict.FIT),
        key=lambda pair: _preference(pair[1], history),
    )
    verdicts = [
        msgspec.structs.replace(verdict, rank=rank) for rank, (_, verdict) in enumerate(fitting, start=1)
    ]
    verdicts += [verdict for _, verdict in judged if verdict.verdict is not Verdict.FIT]
    return Decision(
        engine_version=__version__,
        decided_at=now,
        subject=subject,
        request=request.model_dump(mode="json"),
        history=history,
        catalog_hash=catalog_hash,
        snapshot=snapshot,
        pools=tuple(view.pool for view in views),
        verdicts=tuple(verdicts),
        chosen=fitting[0][1].pool if fitting else None,
    )


def replay(decision: Decision) -> Decision:
    """Decide again what is in a decision record, with the engine of today and nothing from outside."""
    return place(
        GpuRequest.model_validate(decision.request),
        decision.pools,
        decision.snapshot,
        decision.history,
        now=decision.decided_at,
        subject=decision.subject,
        catalog_hash=decision.catalog_hash,
    )


def _judge(view: PoolView, now: datetime) -> PoolVerdict:
    reasons = [reason for check in FILTERS if (reason := check(view)) is not None]
    reasons.sort(key=lambda reason: TIERS[reason.code])  # stable: the registry's order within a tier
    signals = view.signals
    return PoolVerdict(
        pool=view.pool.name,
        verdict=_verdict(reasons),
        reasons=tuple(reasons),
        usd_per_hour=view.usd_per_hour,
        gpu=", ".join(str(gpu) for gpu in view.matching_identities) or None,
        free_gpus=view.free_gpus if view.known else None,
        gang_fits=view.fits_now if view.known else None,
        avoid_nodes=view.avoid_nodes if view.known else (),
        age_seconds=None if signals is None else (now - signals.observed_at).total_seconds(),
        source=None if signals is None else signals.source,
        notes=_notes(view, fits=not reasons),
    )


def _verdict(reasons: Sequence[Reason]) -> Verdict:
    if not reasons:
        return Verdict.FIT
    if any(verdict_of(reason.code) is Verdict.UNRESOLVABLE for reason in reasons):
        return Verdict.UNRESOLVABLE
    return Verdict.UNSCHEDULABLE


def _notes(view: PoolView, *, fits: bool) -> tuple[str, ...]:
    notes = [*contradictions(view.pool, view.signals)]
    if view.signals is not None:
        notes += view.signals.warnings
    if fits and view.fits_now < view.request.nodes:
        per_node = (view.per_node or 0) // view.request.gpus_per_node
        missing = math.ceil((view.request.nodes - view.fits_now) / per_node)
        notes.append(f"fits by growing: the pool must add {missing} node{'s' if missing > 1 else ''}")
    return tuple(notes)


def _preference(verdict: PoolVerdict, history: History) -> tuple[bool, bool, float, str]:
    price = verdict.usd_per_hour
    return (
        history.losses.get(verdict.pool, 0) > 0,
        price is None,
        0.0 if price is None else price,
        verdict.pool,
    )
