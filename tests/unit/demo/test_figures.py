"""The demo's figures follow from what was recorded."""

from __future__ import annotations

import msgspec
import pytest

from airflow_gpu_placement.model.attempt import TaskRecord
from airflow_gpu_placement.model.pool import Price
from lab.demo.figures import NothingMovedError, figures_of
from tests.unit.demo.stories import A100_USD, H100_USD, NODE, facts


def test_the_move_is_measured_from_the_moment_the_power_went() -> None:
    """Suspected and lost from the log, the next job from the record, the epoch from its checkpoint."""
    move = figures_of(facts(kill_at_epoch=5)).move
    assert (move.node, move.from_pool, move.to_pool) == (NODE, "us", "eu")
    assert (move.suspected_seconds, move.lost_seconds) == (3.0, 6.0)
    assert (move.next_job_seconds, move.next_epoch_seconds) == (8.0, 9.0)


def test_another_kill_epoch_gives_other_figures() -> None:
    """Nothing that is counted or paid stays the same."""
    early, late = figures_of(facts(kill_at_epoch=4)), figures_of(facts(kill_at_epoch=7))
    assert (early.training.resumed_from_epoch, late.training.resumed_from_epoch) == (4, 7)
    assert (early.training.trained_after, late.training.trained_after) == (8, 5)
    assert [cost.usd for cost in early.costs] != [cost.usd for cost in late.costs]
    assert early.costs[0].gpu_seconds < late.costs[0].gpu_seconds
    assert early.costs[1].gpu_seconds > late.costs[1].gpu_seconds


def test_saved_epochs_that_are_trained_again_are_counted() -> None:
    """A resume from an older checkpoint than the newest repeats what lies between."""
    training = figures_of(facts(kill_at_epoch=6, saved_too_much=2)).training
    assert (training.saved_before_loss, training.resumed_from_epoch, training.repeated) == (6, 4, 2)


def test_cost_is_gpu_seconds_at_the_price_of_the_pool() -> None:
    """Each attempt at its own pool's price, from the decision to its end."""
    figures = figures_of(facts(kill_at_epoch=5))
    first, second = figures.costs
    assert (first.pool, first.gpus, first.seconds, first.gpu_seconds) == ("us", 4, 12.5, 50.0)
    assert first.usd == pytest.approx(50.0 / 3600 * A100_USD)
    assert second.usd == pytest.approx(second.gpu_seconds / 3600 * H100_USD)
    assert figures.total_usd == pytest.approx((first.usd or 0) + (second.usd or 0))


def test_an_unknown_price_leaves_the_total_unknown() -> None:
    """A sum without one of its parts would look like a price."""
    story = facts()
    decision = story.decisions[2]
    pools = tuple(msgspec.structs.replace(pool, price=Price()) for pool in decision.pools)
    unpriced = {**story.decisions, 2: msgspec.structs.replace(decision, pools=pools)}
    figures = figures_of(msgspec.structs.replace(story, decisions=unpriced))
    assert (figures.costs[0].usd is None, figures.costs[1].usd, figures.total_usd) == (False, None, None)


def test_a_loss_that_nobody_suspected_first_has_no_such_time() -> None:
    """With a short grace the loss can be the first that is said."""
    story = facts()
    logs = {**story.logs, 1: story.logs[1][1:]}
    assert figures_of(msgspec.structs.replace(story, logs=logs)).move.suspected_seconds is None


def test_a_suspicion_before_the_power_went_is_not_the_one() -> None:
    """A busy machine may have stalled a node earlier in the same try."""
    story = facts()
    early = msgspec.structs.replace(story.logs[1][0], said_at=story.record.attempts[0].started_at)
    logs = {**story.logs, 1: (early, *story.logs[1])}
    assert figures_of(msgspec.structs.replace(story, logs=logs)).move.suspected_seconds == 3.0


def test_a_run_without_a_move_says_what_the_records_show() -> None:
    """The job that went on although its node was off is not passed off as a move."""
    story = facts()
    alone = TaskRecord(attempts=story.record.attempts[1:], last_fence=2)
    with pytest.raises(NothingMovedError, match=r"us-1 lost its power.*try 2 in eu: succeeded"):
        figures_of(msgspec.structs.replace(story, record=alone))
