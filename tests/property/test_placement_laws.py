"""Laws of the decision that hold in every situation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from airflow_gpu_placement.model.reasons import ReasonCode
from tests.property import laws
from tests.property.copies import MoreCopies, another_copy_never_makes_a_pool_dearer, more_copies
from tests.property.fleets import Situation, contests, decide, pool_with_signals, situations

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import PoolSignals

LAWS = settings(max_examples=120, deadline=None, derandomize=True)


@LAWS
@given(situations(least_pools=1))
def test_a_fitting_pool_can_really_take_the_job(situation: Situation) -> None:
    """The chosen pool passed every filter."""
    laws.a_fitting_pool_can_really_take_the_job(situation)


@LAWS
@given(situations())
def test_every_pool_has_exactly_one_verdict(situation: Situation) -> None:
    """No pool is forgotten or told twice."""
    laws.every_pool_has_exactly_one_verdict(situation)


@LAWS
@given(situations(least_pools=2), st.data())
def test_the_order_of_pools_is_irrelevant(situation: Situation, data: st.DataObject) -> None:
    """Neither in the catalogue nor in the snapshot."""
    laws.the_order_of_pools_is_irrelevant(situation, data.draw(st.permutations(situation.pools)))


@LAWS
@given(situations(), pool_with_signals("pool-new"))
def test_another_pool_never_makes_a_feasible_request_infeasible(
    situation: Situation, another: tuple[GpuPool, PoolSignals | None]
) -> None:
    """More choice is never worse."""
    laws.another_pool_never_makes_a_feasible_request_infeasible(situation, another)


@LAWS
@given(situations(least_pools=1))
def test_unknown_never_counts_as_free(situation: Situation) -> None:
    """Silence is no promise."""
    laws.unknown_never_counts_as_free(situation)


@LAWS
@given(situations(least_pools=1))
def test_an_excluded_node_is_never_chosen(situation: Situation) -> None:
    """A node that was lost once is not counted nor left open."""
    laws.an_excluded_node_is_never_chosen(situation)


@LAWS
@given(situations(least_pools=1))
def test_labels_keep_wrong_nodes_out_and_no_right_one(situation: Situation) -> None:
    """What the job asks of a node is true of those that were counted, and of no other product."""
    laws.labels_keep_wrong_nodes_out_and_no_right_one(situation)


@LAWS
@given(st.one_of(situations(least_pools=1), contests()))
def test_terms_add_up_to_the_total(situation: Situation) -> None:
    """The cost of each pool can be checked by hand."""
    laws.terms_add_up_to_the_total(situation)


@LAWS
@given(st.one_of(situations(least_pools=2), contests()), st.sampled_from((0.5, 10.0, None)))
def test_a_higher_price_never_makes_a_pool_preferred_more(situation: Situation, more: float | None) -> None:
    """The order follows the money."""
    laws.a_higher_price_never_makes_a_pool_preferred_more(situation, more)


@settings(LAWS, max_examples=400)
@given(more_copies())
def test_another_copy_of_the_data_never_makes_a_pool_dearer(copies: MoreCopies) -> None:
    """The copy that is brought is the one that the whole job is cheapest with."""
    another_copy_never_makes_a_pool_dearer(copies)


@LAWS
@given(st.one_of(situations(), contests()))
def test_a_pool_with_a_loss_comes_last(situation: Situation) -> None:
    """It is used when it is the only one that fits."""
    laws.a_pool_with_a_loss_comes_last(situation)


@settings(LAWS, max_examples=80)
@given(situations(least_pools=1))
def test_the_whole_counterfactual_makes_a_pool_fit(situation: Situation) -> None:
    """Whatever refuses a pool can be cleared, and the list is complete."""
    laws.the_whole_counterfactual_makes_a_pool_fit(situation)


@LAWS
@given(situations())
def test_a_record_is_decided_again(situation: Situation) -> None:
    """The record holds all that it takes."""
    laws.a_record_is_decided_again(situation)


@settings(LAWS, max_examples=40)
@given(situations())
def test_every_decision_can_be_told(situation: Situation) -> None:
    """As a line, a text and a table."""
    laws.every_decision_can_be_told(situation)


def test_the_situations_are_worth_the_laws() -> None:
    """At least three in ten can be placed, and every reason occurs, among at most 2,000.

    What hypothesis draws depends on which modules are loaded, so a fixed number may just miss a rare one.
    """
    decisions: list[Decision] = []
    missing = set(ReasonCode)
    for number in range(4):

        @seed(number)
        @settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(situations(least_pools=1))
        def gather(situation: Situation) -> None:
            decision = decide(situation)
            decisions.append(decision)
            missing.difference_update(
                reason.code for verdict in decision.verdicts for reason in verdict.reasons
            )

        gather()
        if not missing:
            break
    assert not missing
    assert sum(decision.chosen is not None for decision in decisions) >= 0.3 * len(decisions)
