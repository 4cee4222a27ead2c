"""Data that has to be moved before the job can start: datasets that are not there, the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.money import EgressRoute

DEFAULT_CHECKPOINT_GIB = 20.0
_GIBIBIT_IN_GIGABIT = 1.073741824
_SECONDS_AN_HOUR = 3600.0


class Move(NamedTuple):
    """One thing to move, and the route that it takes.

    :param what: name for people.
    """

    what: str
    gib: float
    route: EgressRoute
    source: str

    @property
    def usd(self) -> float:
        """Price of moving it."""
        return self.gib * self.route.usd_per_gib

    @property
    def hours(self) -> float:
        """Time that moving it takes."""
        return self.gib * 8 * _GIBIBIT_IN_GIGABIT / self.route.gbps / _SECONDS_AN_HOUR


def moves(view: PoolView) -> tuple[Move, ...]:
    """List what has to be moved to the pool's region, each from where that is cheapest."""
    region = view.pool.place.region
    known = view.question.moves.get(region)
    if known is None:
        known = view.question.moves[region] = _moves(view, region)
    return known


def _moves(view: PoolView, region: str | None) -> tuple[Move, ...]:
    question = view.question
    found = []
    for name in view.request.data:
        dataset = question.setting.datasets.get(name)
        if dataset is None or not dataset.locations or region in dataset.locations:
            continue
        options = [
            Move(name, dataset.size_gib, question.route(source, region or "unknown"), source)
            for source in dataset.locations
        ]
        found.append(min(options, key=lambda move: (move.usd, move.hours, move.source)))
    there = question.setting.knowledge.checkpoint_region
    if there is not None and there != region:
        size = view.request.checkpoint.size_gib
        gib = DEFAULT_CHECKPOINT_GIB if size is None else size
        found.append(Move("checkpoint", gib, question.route(there, region or "unknown"), there))
    return tuple(found)
