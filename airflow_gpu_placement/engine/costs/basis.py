"""All numbers of one pool that the terms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.costs.estimates import estimates_of
from airflow_gpu_placement.engine.costs.moves import moves
from airflow_gpu_placement.engine.lazy import lazy

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


class Basis:
    """What the job would take in one pool; the terms turn it into money.

    :param view: the pool and the question.
    """

    def __init__(self, view: PoolView) -> None:
        self.view = view
        self.estimates = estimates_of(view)
        self.moves = moves(view)
        self.staging_hours = sum(move.hours for move in self.moves)
        self.runtime_hours = self.estimates.runtime_hours.value
        self.wait_hours = self.estimates.wait_hours.value

    @lazy
    def rework_hours(self) -> float:
        """Return the expected time to do work again that losses destroy, and to restart."""
        known = self.estimates
        losses = known.interruptions_per_gpu_hour.value * self.view.question.total_gpus * self.runtime_hours
        lost_each = min(known.interval_hours.value, self.runtime_hours) / 2 + known.restart_hours.value
        return losses * lost_each

    @lazy
    def held_hours(self) -> float:
        """Time for which GPUs are paid."""
        return self.staging_hours + self.runtime_hours + self.rework_hours

    @lazy
    def egress_usd(self) -> float:
        """Money for moving data."""
        return sum(move.usd for move in self.moves)

    @lazy
    def cash_usd(self) -> float | None:
        """Money that would be spent; ``None``: the price is unknown."""
        price = self.view.cash_price
        return None if price is None else self.view.billed_gpus * price * self.held_hours + self.egress_usd
