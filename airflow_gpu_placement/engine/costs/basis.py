"""All numbers of one pool that the terms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.budget import covers
from airflow_gpu_placement.engine.costs.estimates import estimates_of
from airflow_gpu_placement.engine.costs.moves import cheapest, options_of, worth_a_look

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.moves import Moves
    from airflow_gpu_placement.engine.view import PoolView


class Basis:
    """What the job would take in one pool; the terms turn it into money.

    :param view: the pool and the question.
    """

    def __init__(self, view: PoolView) -> None:
        self.view = view
        self.estimates = estimates_of(view)
        self.runtime_hours = self.estimates.runtime_hours.value
        self.wait_hours = self.estimates.wait_hours.value
        self.rework_hours = self._rework_hours()
        """Expected time to do work again that losses destroy, and to restart."""
        self.moves = self._moves()
        self.staging_hours = sum([move.hours for move in self.moves])
        """Time that bringing the data takes."""
        self.held_hours = self.staging_hours + self.runtime_hours + self.rework_hours
        """Time for which GPUs are paid."""
        self.egress_usd = sum([move.usd for move in self.moves])
        """Money for moving data."""
        self.cash_usd = self._cash_usd(self.held_hours, self.egress_usd)
        """Money that would be spent; ``None``: the price is unknown."""

    def _moves(self) -> Moves:
        """Choose for all data to bring the copies with which the whole job is cheapest.

        Money for moving and time for which GPUs wait are weighed together. Where that breaks a budget or a
        deadline, another choice that keeps them is taken when there is one.
        """
        options = options_of(self.view)
        if all([len(one) == 1 for one in options]):
            return tuple([one[0] for one in options])  # there is no choice
        price = self.view.rank_price or 0.0
        usd_per_hour = (
            self.view.billed_gpus * price + self.view.question.setting.profile.value_of_time_usd_per_hour
        )
        best = cheapest(options, usd_per_hour)
        if not any(self._breaks(best)):
            return best

        def badness(moves: Moves) -> tuple[bool, bool, float]:
            return *self._breaks(moves), sum(move.usd + move.hours * usd_per_hour for move in moves)

        return min((best, *worth_a_look(options)), key=badness)

    def _breaks(self, moves: Moves) -> tuple[bool, bool]:
        """Whether the job would exceed the tenant's budget, and whether it would end after the deadline."""
        question = self.view.question
        held = sum([move.hours for move in moves]) + self.runtime_hours + self.rework_hours
        cash = self._cash_usd(held, sum([move.usd for move in moves]))
        budget, left = question.budget_left_usd, question.hours_left
        hours = (self.wait_hours if self.view.fits else 0.0) + held
        return (
            budget is not None and cash is not None and not covers(budget, cash),
            left is not None and hours > left,
        )

    def _rework_hours(self) -> float:
        known = self.estimates
        losses = known.interruptions_per_gpu_hour.value * self.view.question.total_gpus * self.runtime_hours
        lost_each = min(known.interval_hours.value, self.runtime_hours) / 2 + known.restart_hours.value
        return losses * lost_each

    def _cash_usd(self, held_hours: float, egress_usd: float) -> float | None:
        price = self.view.cash_price
        return None if price is None else self.view.billed_gpus * price * held_hours + egress_usd
