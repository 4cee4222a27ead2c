"""The decision: every pool against every filter, then the order of those that fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement import __version__
from airflow_gpu_placement.engine.amounts import apart, deadline_words
from airflow_gpu_placement.engine.bought import SPOT_LABELS
from airflow_gpu_placement.engine.claims import unseen_claims
from airflow_gpu_placement.engine.costs.total import cost_of
from airflow_gpu_placement.engine.growth import most_to_come, new_nodes_match
from airflow_gpu_placement.engine.history import excluded_nodes
from airflow_gpu_placement.engine.identity import contradictions
from airflow_gpu_placement.engine.located import located, region_note
from airflow_gpu_placement.engine.pinning import node_labels
from airflow_gpu_placement.engine.question import Question
from airflow_gpu_placement.engine.registry import FILTERS
from airflow_gpu_placement.engine.staying import until_the_end
from airflow_gpu_placement.engine.view import PoolView
from airflow_gpu_placement.model.decision import Decision, PoolVerdict, Setting
from airflow_gpu_placement.model.reasons import TIERS, ReasonCode, Verdict, verdict_of
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_gpu_placement.model.decision import History
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.reasons import Reason
    from airflow_gpu_placement.model.signals import PoolSignals, Snapshot


def place(
    request: GpuRequest,
    pools: Sequence[GpuPool],
    snapshot: Snapshot,
    history: History,
    setting: Setting = Setting(),  # noqa: B008 - a frozen value
    *,
    now: datetime,
    subject: str,
    catalog_hash: str,
) -> Decision:
    """Decide where a request can run now, and say why for every pool.

    Among the pools that fit: those where this logical task lost nothing come first, then those that make the
    deadline, then the lower total cost (an unknown price after every known one), then the name. When no pool
    makes the deadline, the one that ends earliest comes first. The order of ``pools`` changes nothing.

    :param snapshot: all signals; a pool without any is unknown, which is never free.
    :param history: what earlier attempts taught.
    :param setting: profile, tenant, data and what was learnt.
    :param now: when this is decided, for the age of the signals and the deadline.
    :param subject: the logical task as text, for people.
    :param catalog_hash: hash of the catalogue that the pools come from.
    """
    question = Question(request, setting, history, now)
    views = views_of(question, pools, snapshot)
    judged = [(view, judge(view)) for view in views]
    fitting = [pair for pair in judged if pair[1].verdict is Verdict.FIT]
    late = _late(question, fitting)
    fitting.sort(key=lambda pair: _preference(*pair, all_late=late))
    verdicts = [
        msgspec.structs.replace(verdict, rank=rank, node_labels=node_labels(view) if rank == 1 else {})
        for rank, (view, verdict) in enumerate(fitting, start=1)
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
        setting=setting,
        warnings=_warnings(question, fitting, late=late),
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
        decision.setting,
        now=decision.decided_at,
        subject=decision.subject,
        catalog_hash=decision.catalog_hash,
    )


def views_of(question: Question, pools: Sequence[GpuPool], snapshot: Snapshot) -> list[PoolView]:
    """Look at every pool through one question, by name."""
    excluded = excluded_nodes(pools, question.history, snapshot)
    unseen = unseen_claims(pools, snapshot)
    views = [
        _view_of(
            question, pool, snapshot.pools.get(pool.name), excluded[pool.name], unseen.get(pool.name, {})
        )
        for pool in sorted(pools, key=lambda pool: pool.name)
    ]
    question.offered_models = tuple(sorted({gpu.model for view in views for gpu in view.identities}))
    return views


def _view_of(
    question: Question,
    pool: GpuPool,
    signals: PoolSignals | None,
    excluded: frozenset[str],
    unseen: Mapping[int, int],
) -> PoolView:
    """Look at one pool where its nodes say that it is, without nodes that leave before the job would end."""
    seen = None if signals is None else until_the_end(question, pool, signals)
    return PoolView(question, located(pool, signals), seen, excluded, unseen)


def judge(view: PoolView) -> PoolVerdict:
    """Ask every filter about one pool."""
    reasons = [reason for check in FILTERS if (reason := check(view)) is not None]
    reasons.sort(key=lambda reason: TIERS[reason.code])  # stable: the registry's order within a tier
    fits = not reasons
    return PoolVerdict(
        pool=view.pool.name,
        verdict=_verdict(view, reasons),
        reasons=tuple(reasons),
        usd_per_hour=view.usd_per_hour,
        cost=cost_of(view.basis) if fits else None,
        gpu=view.question.words(view.matching_identities) or None,
        free_gpus=view.free_gpus if view.fresh else None,
        gang_fits=view.fits_now if view.fresh else None,
        avoid_nodes=view.avoid_nodes if fits else (),
        barred_labels=SPOT_LABELS if fits and view.question.refuses_spot else {},
        age_seconds=view.age_seconds,
        source=None if view.signals is None else view.signals.source,
        notes=_notes(view, fits=fits),
    )


def _verdict(view: PoolView, reasons: Sequence[Reason]) -> Verdict:
    if not reasons:
        return Verdict.FIT
    for reason in reasons:
        waits = reason.code is ReasonCode.BUDGET_EXHAUSTED and view.question.setting.may_wait_for_budget
        if verdict_of(reason.code) is Verdict.UNRESOLVABLE and not waits:
            return Verdict.UNRESOLVABLE
    return Verdict.UNSCHEDULABLE


def _notes(view: PoolView, *, fits: bool) -> tuple[str, ...]:
    notes: list[str] = []
    if view.signals is not None:
        notes += contradictions(view.pool, view.signals.nodes, alike=view.alike)
        notes += view.signals.warnings
    where = region_note(view)
    if where is not None:
        notes.append(where)
    if most_to_come(view) and not new_nodes_match(view):
        notes.append(
            "the nodes that it may add are not counted: they may be like those that the job cannot use; say "
            "in the catalogue what they have, or make a pool of each kind with its own node_selector"
        )
    if fits and view.fits_now < view.question.pods <= view.room.grown:
        missing = math.ceil((view.question.pods - view.fits_now) / view.places_on_new_node)
        notes.append(f"fits by growing: the pool must add {missing} node{'s' if missing > 1 else ''}")
    return tuple(notes)


def _late(question: Question, fitting: Sequence[tuple[PoolView, PoolVerdict]]) -> bool:
    """Whether there is a deadline and no pool that fits makes it."""
    left = question.hours_left
    return left is not None and bool(fitting) and all(view.hours_to_end > left for view, _ in fitting)


def _preference(
    view: PoolView, verdict: PoolVerdict, *, all_late: bool
) -> tuple[bool, bool, bool, float, bool, float, str]:
    left = view.question.hours_left
    cost, history = verdict.cost, view.question.history
    return (
        history.leave_spot and view.may_be_taken_away,
        history.losses.get(verdict.pool, 0) > 0,
        left is not None and view.hours_to_end > left,
        view.hours_to_end if all_late else 0.0,
        view.rank_price is None,
        0.0 if cost is None else cost.total_usd,
        verdict.pool,
    )


def _warnings(
    question: Question, fitting: Sequence[tuple[PoolView, PoolVerdict]], *, late: bool
) -> tuple[str, ...]:
    if not late:
        return ()
    view, source = fitting[0][0], fitting[0][0].basis.estimates.runtime_hours.source
    needed, left = apart(view.hours_to_end, question.hours_left or 0.0)
    return (
        f"no pool makes the deadline, which {deadline_words(left)}: {view.pool.name} ends earliest, in "
        f"{needed} h (runtime: {source})",
    )
