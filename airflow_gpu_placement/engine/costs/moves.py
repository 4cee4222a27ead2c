"""Data that has to be moved before the job can start: datasets that are not there, the newest checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.money import EgressRoute

DEFAULT_CHECKPOINT_GIB = 20.0
_GIBIBIT_IN_GIGABIT = 1.073741824
_SECONDS_AN_HOUR = 3600.0
_MOST_CHOICES = 256


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


Moves = tuple[Move, ...]
"""Everything that is moved, each from one place."""

Options = tuple[tuple[Move, ...], ...]
"""For each thing to move, one move from every place that has it."""


def options_of(view: PoolView) -> Options:
    """List what has to be moved to the pool's region, each with all places that it may come from."""
    region = view.pool.place.region
    known = view.question.moves.get(region)
    if known is None:
        known = view.question.moves[region] = tuple(_options(view, region))
    return known


def _options(view: PoolView, region: str | None) -> Iterator[tuple[Move, ...]]:
    question = view.question
    for name in view.request.data:
        dataset = question.setting.datasets.get(name)
        if dataset is None or not dataset.locations or region in dataset.locations:
            continue
        yield tuple(
            Move(name, dataset.size_gib, question.route(source, region or "unknown"), source)
            for source in dataset.locations
        )
    there = question.setting.knowledge.checkpoint_region
    if there is not None and there != region:
        size = view.request.checkpoint.size_gib
        gib = DEFAULT_CHECKPOINT_GIB if size is None else size
        yield (Move("checkpoint", gib, question.route(there, region or "unknown"), there),)


def cheapest(options: Options, usd_per_hour: float) -> Moves:
    """Take each thing from where it costs least in all.

    :param usd_per_hour: what an hour of staging costs: the GPUs that wait for it, and the author's time.
    """
    return tuple(
        min(one, key=lambda move: (move.usd + move.hours * usd_per_hour, move.usd, move.hours, move.source))
        for one in options
    )


def worth_a_look(options: Options) -> list[Moves]:
    """List all choices of a source for each thing that no other choice beats in both money and time.

    Of very many, some that lie evenly between the least money and the least time.
    """
    front: list[tuple[float, float, Moves]] = [(0.0, 0.0, ())]
    for one in options:
        sums = [
            (usd + move.usd, hours + move.hours, (*moves, move))
            for usd, hours, moves in front
            for move in one
        ]
        front = []
        for found in sorted(sums, key=lambda found: (*found[:2], [move.source for move in found[2]])):
            if not front or found[1] < front[-1][1]:
                front.append(found)
        if len(front) > _MOST_CHOICES:
            last = len(front) - 1
            front = [front[index * last // (_MOST_CHOICES - 1)] for index in range(_MOST_CHOICES)]
    return [moves for _, _, moves in front]
