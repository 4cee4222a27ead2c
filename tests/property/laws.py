"""Laws of the decision, each as a check of one situation: it raises when the law is broken."""

from __future__ import annotations

import math
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.engine import counterfactual as why
from airflow_gpu_placement.engine import place as engine
from airflow_gpu_placement.engine.explain import details, from_json, line, table_text, to_json
from airflow_gpu_placement.model.money import Egress
from airflow_gpu_placement.model.pool import CapacityType, Execution, Price
from airflow_gpu_placement.model.reasons import Verdict
from tests.property.acceptable import (
    acceptable,
    bought,
    fitting,
    is_right,
    lost_in_cluster_of,
    places,
    region_of,
    stays,
)
from tests.property.fleet_parts import PRODUCT_LABEL
from tests.property.fleets import Situation, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.decision import PoolVerdict
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals


def a_fitting_pool_can_really_take_the_job(situation: Situation) -> None:
    """Every need is met, worked out in another way than the engine does."""
    request, setting = situation.request, situation.setting
    for pool, signals, verdict in fitting(situation):
        assert signals.gap is None
        assert (situation.now - signals.observed_at).total_seconds() <= pool.max_signal_age_seconds
        assert pool.name not in situation.history.excluded_pools
        _meets_rules(situation, pool)
        _is_bought_as_allowed(situation, pool, verdict)
        _affords(situation, pool, verdict)
        nodes = acceptable(situation, pool)
        new = 0
        if pool.growth.max_nodes is not None:
            each = pool.gpu.per_node or 0
            theirs = math.ceil(sum(gpus * n for gpus, n in signals.waiting.items() if gpus <= each) / each)
            left = max(pool.growth.max_nodes - len(signals.nodes) - theirs, 0)
            # A node to come may be like any that is there, but for what the catalogue tells.
            there = [msgspec.structs.replace(node, capacity=each) for node in signals.nodes]
            if all(is_right(situation, pool, node) for node in there):
                new = left * (each // request.gpus_per_node)
        assert _room(situation, nodes) + new >= request.nodes
        if pool.execution is Execution.KUEUE:
            queues = pool.kueue.local_queues
            name = queues.get(setting.tenant.name if setting.tenant else "*", queues.get("*", ""))
            assert signals.quota[name].stopped_because is None
            assert signals.quota[name].available >= request.total_gpus


def _room(situation: Situation, nodes: Sequence[NodeCapacity]) -> int:
    network = situation.request.network
    if situation.request.nodes == 1 or not (network.same_zone or network.same_fabric):
        return sum(places(situation, node) for node in nodes)
    rooms: Counter[object] = Counter()
    for node in nodes:
        zone, fabric = node.zone if network.same_zone else "", node.fabric if network.same_fabric else ""
        alone = network.same_fabric and node.fabric is None
        rooms[node.name if alone else (zone, fabric)] += places(situation, node)
    return max(rooms.values(), default=0)


def _is_bought_as_allowed(situation: Situation, pool: GpuPool, verdict: PoolVerdict) -> None:
    nodes = situation.snapshot.pools[pool.name].nodes
    left = {bought(pool, node) for node in nodes if node.name not in verdict.avoid_nodes}
    for allowed in (situation.request.where.capacity_types, situation.setting.profile.capacity_types):
        assert not allowed or (left or {pool.capacity_type}) <= set(allowed)
        if allowed and CapacityType.SPOT not in allowed:
            assert verdict.barred_labels
    rate = None if verdict.cost is None else verdict.cost.estimates["interruptions_per_gpu_hour"]
    fits_now = (verdict.gang_fits or 0) >= situation.request.nodes  # a node to come may be like any
    if rate is not None and rate.source == "default" and fits_now:
        assert (rate.value > 1e-3) is (CapacityType.SPOT in (left or {pool.capacity_type}))


def _meets_rules(situation: Situation, pool: GpuPool) -> None:
    request, setting, region = situation.request, situation.setting, region_of(situation, pool)
    where, network = request.where, request.network
    assert not where.regions or region in where.regions
    assert not where.denied_regions or region not in (*where.denied_regions, None)
    assert not network.kinds or pool.network.kind in network.kinds
    assert not network.min_gbps or (pool.network.gbps or 0) >= network.min_gbps
    for name in request.data:
        dataset = setting.datasets[name]
        assert dataset.egress is Egress.ALLOW or region in dataset.locations
        assert not dataset.residency or region in {*dataset.locations, *dataset.residency}
    tenant = setting.tenant
    if tenant is not None:
        assert not tenant.pools or any(fnmatchcase(pool.name, glob) for glob in tenant.pools)
        held = setting.knowledge.held_gpus.get(tenant.name, 0)
        assert tenant.max_gpus is None or held + request.total_gpus <= tenant.max_gpus


def _affords(situation: Situation, pool: GpuPool, verdict: PoolVerdict) -> None:
    request, setting, price = situation.request, situation.setting, pool.price.gpu_hour_usd
    for cap in (request.price_cap_usd_per_gpu_hour, setting.profile.price_cap_usd_per_gpu_hour):
        assert cap is None or (price is not None and price <= cap)
    tenant, cost = setting.tenant, verdict.cost
    assert cost is not None
    if tenant is not None and tenant.monthly_budget_usd is not None:
        left = tenant.monthly_budget_usd - setting.knowledge.spent_usd.get(tenant.name, 0)
        assert cost.cash_usd is not None
        assert cost.cash_usd <= left
    time = request.time
    if time.deadline_is_hard and cost.estimates["runtime_hours"].source != "default":
        begun = situation.history.since or situation.now
        left_hours = (
            (time.complete_within_hours or 0) - (situation.now - begun).total_seconds() / 3600
            if time.deadline is None
            else (time.deadline - situation.now).total_seconds() / 3600
        )
        assert cost.finish_hours <= left_hours


def every_pool_has_exactly_one_verdict(situation: Situation) -> None:
    """With reasons exactly when it does not fit, and ranks that count on."""
    decision = decide(situation)
    assert Counter(one.pool for one in decision.verdicts) == Counter(pool.name for pool in situation.pools)
    fit = [one for one in decision.verdicts if one.verdict is Verdict.FIT]
    assert list(decision.verdicts[: len(fit)]) == fit
    assert [one.rank for one in fit] == list(range(1, len(fit) + 1))
    for one in decision.verdicts:
        assert (one.reasons == ()) is (one.verdict is Verdict.FIT)
        assert (one.cost is not None) is (one.verdict is Verdict.FIT)
    assert decision.chosen == (fit[0].pool if fit else None)


def the_order_of_pools_is_irrelevant(situation: Situation, order: Sequence[GpuPool]) -> None:
    """Sort the catalogue and the snapshot differently: nothing changes."""
    turned = situation._replace(
        pools=tuple(order),
        snapshot=msgspec.structs.replace(
            situation.snapshot, pools=dict(reversed(situation.snapshot.pools.items()))
        ),
    )
    assert decide(turned) == decide(situation)


def another_pool_never_makes_a_feasible_request_infeasible(
    situation: Situation, another: tuple[GpuPool, PoolSignals | None]
) -> None:
    """And what was said of the other pools stays true."""
    pool, signals = another
    pools = dict(situation.snapshot.pools)
    if signals is not None:
        pools[pool.name] = signals
    more = situation._replace(
        pools=(*situation.pools, pool),
        snapshot=msgspec.structs.replace(situation.snapshot, pools=pools),
    )
    before, after = decide(situation), decide(more)
    assert (after.chosen is not None) or (before.chosen is None)
    verdicts = {one.pool: one.verdict for one in after.verdicts}
    assert all(verdicts[one.pool] is one.verdict for one in before.verdicts)


def unknown_never_counts_as_free(situation: Situation) -> None:
    """Refuse a pool that was not seen, or too long ago, and tell no number of it."""
    for one in decide(situation).verdicts:
        signals = situation.snapshot.pools.get(one.pool)
        age = None if signals is None else (situation.now - signals.observed_at).total_seconds()
        if signals is None or signals.gap is not None or (age or 0) > 120:
            assert one.verdict is not Verdict.FIT
            assert (one.free_gpus, one.gang_fits) == (None, None)


def an_excluded_node_is_never_chosen(situation: Situation) -> None:
    """Count no more than the acceptable nodes, and keep the job off all lost ones."""
    for pool, _, one in fitting(situation):
        usable = acceptable(situation, pool)
        assert (one.free_gpus or 0) <= sum(node.free for node in usable)
        assert set(one.avoid_nodes) >= lost_in_cluster_of(situation, pool)
        if not situation.request.network.same_zone and not situation.request.network.same_fabric:
            assert not set(one.avoid_nodes) & {node.name for node in usable}


def labels_keep_wrong_nodes_out_and_no_right_one(situation: Situation) -> None:
    """Let the job onto every node that counts in the chosen pool, and onto no other product, now or later."""
    for pool, signals, one in fitting(situation)[:1]:
        right = [node for node in signals.nodes if node.name not in one.avoid_nodes]
        assert all(_admitted(node.labels, one) for node in right)
        products = {node.labels.get(PRODUCT_LABEL) for node in right}
        grows_now = (one.gang_fits or 0) < situation.request.nodes
        if not right or None in products or grows_now or PRODUCT_LABEL in pool.node_selector:
            continue
        lost = lost_in_cluster_of(situation, pool)
        for node in signals.nodes:
            by_name = node.name in lost or not stays(situation, pool, node) or node.region is None
            other = node.labels.get(PRODUCT_LABEL) not in products and not by_name
            assert not (other and _admitted(node.labels, one))
        if situation.request.models:
            assert not _admitted({PRODUCT_LABEL: "Joined-Later", "kubernetes.io/arch": "amd64"}, one)


def _admitted(labels: Mapping[str, str], verdict: PoolVerdict) -> bool:
    return all(labels.get(key) in values for key, values in verdict.node_labels.items())


def terms_add_up_to_the_total(situation: Situation) -> None:
    """Nothing is hidden in the total; hours and money follow from the numbers that are shown."""
    for _, _, one in fitting(situation):
        cost = one.cost
        assert cost is not None
        assert cost.total_usd == pytest.approx(sum(term.usd for term in cost.terms))
        names = [term.name for term in cost.terms]
        assert len(set(names)) == len(names)
        assert cost.finish_hours == pytest.approx(cost.wait_hours + cost.held_hours)
        known = {name: estimate.value for name, estimate in cost.estimates.items()}
        runtime, interval = known["runtime_hours"], known["interval_hours"]
        rework = (
            known["interruptions_per_gpu_hour"]
            * situation.request.total_gpus
            * runtime
            * (min(interval, runtime) / 2 + known["restart_hours"])
        )
        staging = sum(term.hours or 0 for term in cost.terms if term.name == "egress")
        assert cost.held_hours == pytest.approx(staging + runtime + rework)
        assert cost.wait_hours > 0 or (one.gang_fits or 0) >= situation.request.nodes


def a_higher_price_never_makes_a_pool_preferred_more(situation: Situation, more: float | None) -> None:
    """Whichever pool it is, also from a known price to an unknown one."""
    before = {one.pool: one.rank for one in decide(situation).verdicts}
    for pool in situation.pools:
        rank = before[pool.name]
        if rank is None:
            continue
        price = pool.price.gpu_hour_usd
        dearer = msgspec.structs.replace(
            pool,
            price=Price(
                gpu_hour_usd=None if more is None or price is None else price + more,
                rank_gpu_hour_usd=pool.price.rank_gpu_hour_usd,
                preference_usd=pool.price.preference_usd,
            ),
        )
        changed = situation._replace(
            pools=tuple(dearer if one.name == pool.name else one for one in situation.pools)
        )
        after = {one.pool: one.rank for one in decide(changed).verdicts}[pool.name]
        assert after is None or after >= rank


def a_pool_with_a_loss_comes_last(situation: Situation) -> None:
    """Let a loss outweigh any price; use the pool when it is the only one that fits."""
    decision = decide(situation)
    if decision.chosen is not None and situation.history.losses.get(decision.chosen):
        fit = [one.pool for one in decision.verdicts if one.verdict is Verdict.FIT]
        assert all(situation.history.losses.get(name) for name in fit)


def the_whole_counterfactual_makes_a_pool_fit(situation: Situation) -> None:
    """Each refused pool: all that fails is listed, and changing all of it helps."""
    decision = decide(situation)
    for one in decision.verdicts:
        requirements = why.counterfactual(decision, one.pool)
        assert [need.code for need in requirements if not need.follows] == [
            reason.code for reason in one.reasons
        ]
        (after,) = why.apply_all(decision, one.pool, requirements).verdicts
        assert after.verdict is Verdict.FIT, (requirements, after.reasons)
        assert len(why.why_not(decision, one.pool).splitlines()) >= (2 * len(requirements) or 1)


def a_record_is_decided_again(situation: Situation) -> None:
    """Nothing is lost on the way through JSON, and nothing from outside is needed."""
    decision = decide(situation)
    again = from_json(to_json(decision))
    assert again == decision
    assert engine.replay(again) == decision


def every_decision_can_be_told(situation: Situation) -> None:
    """Each pool appears in each form; the line has the right counts."""
    decision = decide(situation)
    count = sum(one.verdict is Verdict.FIT for one in decision.verdicts)
    assert line(decision).startswith(f"{count}/{len(situation.pools)} GPU pools fit dag.task: ")
    assert "\n" not in line(decision)
    text, drawn = details(decision), table_text(decision, width=400)
    for pool in situation.pools:
        assert f"  {pool.name}: " in text
        assert pool.name in drawn
