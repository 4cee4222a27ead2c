"""Laws of the decision that hold in every situation."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine.capacity import gang_fits
from airflow_gpu_placement.engine.explain import details, from_json, line, table_text, to_json
from airflow_gpu_placement.engine.gpu_models import satisfies, wanted_model
from airflow_gpu_placement.engine.place import place, replay
from airflow_gpu_placement.engine.view import effective_gpu
from airflow_gpu_placement.model.reasons import ReasonCode, Verdict
from tests.property.fleets import Situation, contests, pool_with_signals, situations
from tests.unit.engine.builders import NOW

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity

LAWS = settings(max_examples=100, deadline=None, derandomize=True)


def decide(situation: Situation) -> Decision:
    """Decide in a situation."""
    return place(
        situation.request,
        situation.pools,
        situation.snapshot,
        situation.history,
        now=NOW + timedelta(seconds=3),
        subject="dag.task",
        catalog_hash="hash",
    )


def pool_of(situation: Situation, name: str) -> GpuPool:
    """Return a pool of a situation."""
    (pool,) = [pool for pool in situation.pools if pool.name == name]
    return pool


def lost_in_cluster_of(situation: Situation, pool: GpuPool) -> set[str]:
    """Return all nodes lost in a pool's cluster."""
    return {
        node
        for other in situation.pools
        if other.kubernetes_conn_id == pool.kubernetes_conn_id
        for node in situation.history.lost_nodes.get(other.name, ())
    }


def acceptable(situation: Situation, pool: GpuPool) -> tuple[NodeCapacity, ...]:
    """Return the nodes that a job may really use, worked out in another way than the engine does."""
    request = situation.request
    lost = lost_in_cluster_of(situation, pool)
    found = []
    for node in situation.snapshot.pools[pool.name].nodes:
        gpu = effective_gpu(pool, node.gpu)
        right_model = not request.models or any(satisfies(gpu, wanted_model(name)) for name in request.models)
        memory = None if gpu is None else gpu.memory_gb
        enough = request.min_memory_gb is None or (memory is not None and memory >= request.min_memory_gb)
        if right_model and enough and node.name not in lost and node.unusable_because is None:
            found.append(node)
    return tuple(found)


@LAWS
@given(situations())
def test_a_chosen_pool_can_really_take_the_job(situation: Situation) -> None:
    """Enough right, open, free nodes that were never lost, or room to grow."""
    decision = decide(situation)
    for verdict in decision.verdicts:
        if verdict.verdict is not Verdict.FIT:
            continue
        pool = pool_of(situation, verdict.pool)
        signals = situation.snapshot.pools[pool.name]
        assert signals.gap is None
        now = gang_fits(acceptable(situation, pool), situation.request.gpus_per_node, ())
        grown = 0
        if pool.max_nodes is not None:
            new = max(pool.max_nodes - len(signals.nodes), 0)
            grown = new * ((pool.gpu.per_node or 0) // situation.request.gpus_per_node)
        assert now + grown >= situation.request.nodes


@LAWS
@given(situations())
def test_every_pool_has_exactly_one_verdict(situation: Situation) -> None:
    """With reasons exactly when it does not fit, and ranks that count on."""
    decision = decide(situation)
    assert Counter(one.pool for one in decision.verdicts) == Counter(pool.name for pool in situation.pools)
    fitting = [one for one in decision.verdicts if one.verdict is Verdict.FIT]
    assert list(decision.verdicts[: len(fitting)]) == fitting
    assert [one.rank for one in fitting] == list(range(1, len(fitting) + 1))
    for one in decision.verdicts:
        assert (one.reasons == ()) is (one.verdict is Verdict.FIT)
    assert decision.chosen == (fitting[0].pool if fitting else None)


@LAWS
@given(situations(least_pools=2), st.data())
def test_the_order_of_pools_is_irrelevant(situation: Situation, data: st.DataObject) -> None:
    """The catalogue may be sorted as its authors like."""
    turned = situation._replace(
        pools=tuple(data.draw(st.permutations(situation.pools))),
        snapshot=msgspec.structs.replace(
            situation.snapshot, pools=dict(reversed(situation.snapshot.pools.items()))
        ),
    )
    assert decide(turned) == decide(situation)


@LAWS
@given(situations(), pool_with_signals("pool-new"))
def test_another_pool_never_makes_a_feasible_request_infeasible(
    situation: Situation, another: tuple[GpuPool, object]
) -> None:
    """And what was said of the other pools stays true."""
    pool, signals = another
    pools = dict(situation.snapshot.pools)
    if signals is not None:
        pools[pool.name] = signals  # type: ignore[assignment]  # drawn together with the pool
    more = situation._replace(
        pools=(*situation.pools, pool),
        snapshot=msgspec.structs.replace(situation.snapshot, pools=pools),
    )
    before, after = decide(situation), decide(more)
    assert (after.chosen is not None) or (before.chosen is None)
    verdicts = {one.pool: one.verdict for one in after.verdicts}
    assert all(verdicts[one.pool] is one.verdict for one in before.verdicts)


@LAWS
@given(situations())
def test_unknown_never_counts_as_free(situation: Situation) -> None:
    """A pool that was not seen does not fit, and no number is told of it."""
    for one in decide(situation).verdicts:
        signals = situation.snapshot.pools.get(one.pool)
        if signals is None or signals.gap is not None:
            assert one.verdict is not Verdict.FIT
            assert (one.free_gpus, one.gang_fits) == (None, None)


@LAWS
@given(situations())
def test_an_excluded_node_is_never_counted_nor_left_open(situation: Situation) -> None:
    """The free GPUs are those of acceptable nodes, and the job is kept off all lost ones."""
    for one in decide(situation).verdicts:
        if one.verdict is Verdict.FIT:
            pool = pool_of(situation, one.pool)
            usable = acceptable(situation, pool)
            assert one.free_gpus == sum(node.free for node in usable)
            assert set(one.avoid_nodes) >= lost_in_cluster_of(situation, pool)
            assert not set(one.avoid_nodes) & {node.name for node in usable}


@LAWS
@given(st.one_of(situations(least_pools=2), contests()), st.sampled_from((0.5, 10.0, None)))
def test_a_higher_price_never_makes_a_pool_preferred_more(situation: Situation, more: float | None) -> None:
    """Whichever pool it is, also from a known price to an unknown one."""
    before = {one.pool: one.rank for one in decide(situation).verdicts}
    for pool in situation.pools:
        if before[pool.name] is None:
            continue
        price = None if more is None or pool.gpu_hour_usd is None else pool.gpu_hour_usd + more
        dearer = msgspec.structs.replace(pool, gpu_hour_usd=price)
        changed = situation._replace(
            pools=tuple(dearer if one.name == pool.name else one for one in situation.pools)
        )
        after = {one.pool: one.rank for one in decide(changed).verdicts}
        rank = after[pool.name]
        assert rank is not None
        assert rank >= (before[pool.name] or 0)


@LAWS
@given(st.one_of(situations(), contests()))
def test_a_pool_with_a_loss_is_chosen_only_when_no_other_fits(situation: Situation) -> None:
    """A loss outweighs any price."""
    decision = decide(situation)
    if decision.chosen is not None and situation.history.losses.get(decision.chosen):
        fitting = [one.pool for one in decision.verdicts if one.verdict is Verdict.FIT]
        assert all(situation.history.losses.get(name) for name in fitting)


@LAWS
@given(situations())
def test_a_record_goes_through_json_and_is_decided_again(situation: Situation) -> None:
    """Nothing is lost, and nothing from outside is needed."""
    decision = decide(situation)
    again = from_json(to_json(decision))
    assert again == decision
    assert replay(again) == decision


@settings(LAWS, max_examples=40)
@given(situations())
def test_every_decision_can_be_told(situation: Situation) -> None:
    """Each pool appears in each form; the line has the right counts."""
    decision = decide(situation)
    fitting = sum(one.verdict is Verdict.FIT for one in decision.verdicts)
    assert line(decision).startswith(f"{fitting}/{len(situation.pools)} GPU pools fit dag.task: ")
    assert "\n" not in line(decision)
    text, drawn = details(decision), table_text(decision, width=400)
    for pool in situation.pools:
        assert f"  {pool.name}: " in text
        assert pool.name in drawn


def test_the_situations_are_worth_the_laws() -> None:
    """At least three in ten can be placed, and every reason occurs."""
    decisions: list[Decision] = []

    @settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(situations(least_pools=1))
    def gather(situation: Situation) -> None:
        decisions.append(decide(situation))

    gather()
    feasible = sum(decision.chosen is not None for decision in decisions)
    assert feasible >= 0.3 * len(decisions)
    seen = {reason.code for one in decisions for verdict in one.verdicts for reason in verdict.reasons}
    assert seen == set(ReasonCode)
