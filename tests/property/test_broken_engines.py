"""Each law notices an engine that was broken on purpose: a law that cannot fail proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine import counterfactual as why
from airflow_gpu_placement.engine import growth, located, nodes_view
from airflow_gpu_placement.engine import place as engine
from airflow_gpu_placement.engine import view as view_module
from airflow_gpu_placement.engine.costs import basis as basis_module
from airflow_gpu_placement.engine.costs.total import cost_of
from airflow_gpu_placement.engine.filters import gap, region, signal_age
from airflow_gpu_placement.engine.registry import FILTERS
from airflow_gpu_placement.model.decision import Decision, PoolVerdict, Setting
from airflow_gpu_placement.model.reasons import Reason, ReasonCode, Verdict
from tests.property import laws
from tests.property.claimed import SCRIPTS, claims_and_pods_are_counted_once
from tests.property.copies import another_copy_never_makes_a_pool_dearer, more_copies
from tests.property.fleet_parts import PRODUCT_LABEL
from tests.property.fleets import Situation, contests, pool_with_signals, situations

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.costs.basis import Basis
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.counterfactual import Requirement
    from airflow_gpu_placement.model.estimate import Cost

SEARCH = settings(
    max_examples=2000,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
ANY = st.one_of(situations(least_pools=2), contests())


def breaks(law: Callable[..., None], *arguments: st.SearchStrategy[Any]) -> bool:
    """Tell whether a law fails somewhere."""

    @SEARCH
    @given(st.tuples(*arguments))
    def search(drawn: tuple[Any, ...]) -> None:
        law(*drawn)

    try:
        search()
    except (AssertionError, RuntimeError):
        return True
    return False


def without(monkeypatch: pytest.MonkeyPatch, *checks: Callable[[PoolView], Reason | None]) -> None:
    """Take filters out of the engine."""
    monkeypatch.setattr(engine, "FILTERS", tuple(one for one in FILTERS if one not in checks))


def test_a_missing_filter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets regions chooses a pool where the job may not run."""
    without(monkeypatch, region.check)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


def test_maintenance_that_is_not_heeded_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that uses nodes which are stopped before the job would end."""
    monkeypatch.setattr(engine, "until_the_end", lambda _, __, signals: signals)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


def test_a_region_of_one_node_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes the first node's region for that of the pool."""
    monkeypatch.setattr(located, "region_agreed_on", lambda nodes: nodes[0].region if nodes else None)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (view_module, "usable", lambda _, nodes: [(node, node.free) for node in nodes]),
        (view_module, "nodes_for_others", lambda _: 0),
    ],
)
def test_counting_gpus_alone_is_noticed(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, broken: Callable[..., Any]
) -> None:
    """An engine that forgets CPU, memory and pod slots, or those who wait for the nodes to come."""
    monkeypatch.setattr(module, name, broken)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


def test_a_verdict_without_its_reasons_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that lets every second pool fit with reasons left."""
    monkeypatch.setattr(
        engine, "_verdict", lambda _, reasons: Verdict.FIT if len(reasons) <= 1 else Verdict.UNSCHEDULABLE
    )
    assert breaks(laws.every_pool_has_exactly_one_verdict, situations())


def test_an_order_of_the_catalogue_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that prefers what comes first."""
    monkeypatch.setattr(engine, "sorted", lambda values, **_: list(values), raising=False)

    def law(situation: Situation) -> None:
        laws.the_order_of_pools_is_irrelevant(situation, tuple(reversed(situation.pools)))

    assert breaks(law, situations(least_pools=2))


def test_pools_that_stand_in_each_other_s_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that refuses everything when there is much to choose from."""

    def check(view: PoolView) -> Reason | None:
        if len(view.question.offered_models) < 2:
            return None
        return Reason(code=ReasonCode.SIGNALS_MISSING, needed="", observed="", message="too much")

    monkeypatch.setattr(engine, "FILTERS", (*FILTERS, check))
    assert breaks(
        laws.another_pool_never_makes_a_feasible_request_infeasible,
        situations(),
        pool_with_signals("pool-new"),
    )


@pytest.mark.parametrize("check", [gap.check, signal_age.check], ids=["silent pools", "old signals"])
def test_unknown_taken_for_free_is_noticed(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[PoolView], Reason | None]
) -> None:
    """An engine that takes silence, or an old answer, for a promise."""
    without(monkeypatch, check)
    assert breaks(laws.unknown_never_counts_as_free, situations(least_pools=1))


def test_a_forgotten_lost_node_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine without memory."""
    monkeypatch.setattr(
        engine, "excluded_nodes", lambda pools, *_: {pool.name: frozenset() for pool in pools}
    )
    assert breaks(laws.an_excluded_node_is_never_chosen, situations(least_pools=1))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda _: {}, id="no label is asked for"),
        pytest.param(
            lambda view: {
                PRODUCT_LABEL: tuple(node.labels.get(PRODUCT_LABEL, "") for node in view.nodes[:1])
            },
            id="the first node's label is asked for",
        ),
    ],
)
def test_a_job_that_may_land_on_another_gpu_is_noticed(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[PoolView], dict[str, tuple[str, ...]]]
) -> None:
    """An engine that leaves the choice of the node to the scheduler, or pins the job to a wrong one."""
    monkeypatch.setattr(engine, "node_labels", broken)
    assert breaks(laws.labels_keep_wrong_nodes_out_and_no_right_one, situations(least_pools=1))


def test_a_spot_node_taken_for_a_firm_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that believes the catalogue alone."""
    monkeypatch.setattr(nodes_view, "counts_as", lambda pool, _: pool.capacity_type)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


def test_a_node_to_come_taken_for_a_right_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that hopes for the best of a pool with several kinds."""
    monkeypatch.setattr(growth, "new_nodes_match", lambda _: True)
    assert breaks(laws.a_fitting_pool_can_really_take_the_job, situations(least_pools=1))


def test_a_hidden_cost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that leaves the last term out of the list."""
    whole = cost_of

    def hiding(basis: Basis) -> Cost:
        cost = whole(basis)
        return msgspec.structs.replace(cost, terms=cost.terms[:-1])

    monkeypatch.setattr(engine, "cost_of", hiding)
    assert breaks(laws.terms_add_up_to_the_total, ANY)


def test_a_liking_for_dear_pools_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that orders by price the wrong way round."""

    def upside_down(_: PoolView, verdict: PoolVerdict, **__: bool) -> tuple[float, str]:
        return -(verdict.cost.total_usd if verdict.cost is not None else 0.0), verdict.pool

    monkeypatch.setattr(engine, "_preference", upside_down)
    assert breaks(
        laws.a_higher_price_never_makes_a_pool_preferred_more, ANY, st.sampled_from((0.5, 10.0, None))
    )


def test_a_loss_that_is_shrugged_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that looks at money alone."""
    monkeypatch.setattr(
        engine,
        "_preference",
        lambda _, verdict, **__: (verdict.cost.total_usd if verdict.cost is not None else 0.0, verdict.pool),
    )
    assert breaks(laws.a_pool_with_a_loss_comes_last, ANY)


def test_a_counterfactual_that_leaves_something_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that tells all but the last change."""
    whole = why.counterfactual

    def short(decision: Decision, pool_name: str) -> tuple[Requirement, ...]:
        found = whole(decision, pool_name)
        return (*found[:-1], msgspec.structs.replace(found[-1], changes=())) if found else found

    monkeypatch.setattr(why, "counterfactual", short)
    assert breaks(laws.the_whole_counterfactual_makes_a_pool_fit, situations(least_pools=1))


def test_a_replay_with_another_setting_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that replays with the preferences of today."""
    again = engine.replay
    monkeypatch.setattr(
        engine, "replay", lambda decision: again(msgspec.structs.replace(decision, setting=Setting()))
    )
    assert breaks(laws.a_record_is_decided_again, situations())


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda *_: {}, id="claims are missed"),
        pytest.param(
            lambda pools, snapshot: {
                pool.name: {claim.gpus_per_node: claim.nodes for claim in snapshot.claims} for pool in pools
            },
            id="claims and their pods are both counted",
        ),
    ],
)
def test_a_claim_missed_or_counted_twice_is_noticed(monkeypatch: pytest.MonkeyPatch, broken: Any) -> None:
    """An engine that forgets what it promised, or what it already sees."""
    monkeypatch.setattr(engine, "unseen_claims", broken)
    assert breaks(claims_and_pods_are_counted_once, SCRIPTS)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("cheapest", lambda options, _: tuple(min(one, key=lambda move: move.usd) for one in options)),
        ("worth_a_look", lambda _: []),
    ],
)
def test_a_copy_chosen_for_its_fee_alone_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., Any]
) -> None:
    """An engine that forgets what waiting for data costs, or that a budget or a deadline is to be kept."""
    monkeypatch.setattr(basis_module, name, broken)
    assert breaks(another_copy_never_makes_a_pool_dearer, more_copies())
