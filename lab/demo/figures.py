"""The figures that the demo prints, computed from what was recorded and from nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.pool import GpuPool
    from lab.demo.facts import Facts


class NothingMovedError(Exception):
    """The records show no job that lost the node and went on elsewhere; the message says what they show."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt would have cost.

    :param seconds: from the decision to launch it until its end was noticed: GPUs are held for as long.
    :param usd_per_gpu_hour: ``None``: the catalogue has no price.
    """

    pool: str
    try_number: int
    outcome: str
    gpus: int
    seconds: float
    gpu_seconds: float
    usd_per_gpu_hour: float | None
    usd: float | None


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """From one pool to another, in seconds after the power went.

    :param node_grace_seconds: silence after which the pool's nodes count as lost. It began with the last sign
        of life, a little before the power went.
    :param suspected_seconds: ``None``: the node was lost before anybody said that it is suspected.
    """

    node: str
    from_pool: str
    to_pool: str
    processes_killed: int
    node_grace_seconds: float
    suspected_seconds: float | None
    lost_seconds: float
    next_job_seconds: float
    next_epoch_seconds: float


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """What the training lost and kept.

    :param saved_before_loss: last epoch that the lost attempt saved.
    :param repeated: epochs that were saved before the loss and trained again all the same.
    """

    epochs: int
    saved_before_loss: int
    resumed_from_epoch: int
    repeated: int
    trained_after: int
    accuracy: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one run of the demo."""

    move: Move
    training: Training
    costs: tuple[Cost, ...]
    total_usd: float | None


def figures_of(facts: Facts) -> Figures:
    """Compute the figures.

    :raises NothingMovedError: no attempt lost the node whose power went, or none followed it.
    """
    lost, following = _moved(facts)
    costs = tuple(_cost(facts, attempt) for attempt in facts.record.attempts)
    priced = [cost.usd for cost in costs if cost.usd is not None]
    return Figures(
        move=_move(facts, lost, following),
        training=_training(facts, lost),
        costs=costs,
        total_usd=sum(priced) if len(priced) == len(costs) else None,
    )


def _moved(facts: Facts) -> tuple[AttemptRecord, AttemptRecord]:
    attempts = facts.record.attempts
    for lost, following in pairwise(attempts):
        if facts.power_off.node in lost.lost_nodes:
            return lost, following
    ends = ", ".join(f"try {one.try_number} in {one.pool}: {one.outcome or one.phase}" for one in attempts)
    raise NothingMovedError(
        f"node {facts.power_off.node} lost its power, but no attempt lost it and was followed by another "
        f"({ends or 'there was no attempt'})"
    )


def _move(facts: Facts, lost: AttemptRecord, following: AttemptRecord) -> Move:
    def after(moment: datetime) -> float:
        return (moment - facts.power_off.at).total_seconds()

    log = [line for line in facts.logs.get(lost.try_number, ()) if line.said_at >= facts.power_off.at]
    suspected = next((line.said_at for line in log if line.text.startswith("suspected: ")), None)
    noticed = next((line.said_at for line in log if line.text.startswith(f"{lost.cause}: ")), lost.ended_at)
    resumed = facts.result["resumed_from_epoch"] or 0
    first_new = next(
        (one for one in facts.saved if one.fence == following.fence and one.epoch > resumed), None
    )
    if noticed is None or following.started_at is None or first_new is None:
        raise NothingMovedError(f"the record of the move from {lost.pool} to {following.pool} has gaps")
    return Move(
        node=facts.power_off.node,
        from_pool=lost.pool,
        to_pool=following.pool,
        processes_killed=facts.power_off.processes,
        node_grace_seconds=_pool(facts, lost).loss.node_grace_seconds,
        suspected_seconds=None if suspected is None else after(suspected),
        lost_seconds=after(noticed),
        next_job_seconds=after(following.started_at),
        next_epoch_seconds=after(first_new.saved_at),
    )


def _training(facts: Facts, lost: AttemptRecord) -> Training:
    saved_before_loss = max((one.epoch for one in facts.saved if one.fence == lost.fence), default=0)
    resumed = facts.result["resumed_from_epoch"] or 0
    return Training(
        epochs=facts.result["epochs"],
        saved_before_loss=saved_before_loss,
        resumed_from_epoch=resumed,
        repeated=max(saved_before_loss - resumed, 0),
        trained_after=facts.result["epochs_run"],
        accuracy=facts.result["accuracy"],
    )


def _pool(facts: Facts, attempt: AttemptRecord) -> GpuPool:
    return next(pool for pool in facts.decisions[attempt.fence].pools if pool.name == attempt.pool)


def _cost(facts: Facts, attempt: AttemptRecord) -> Cost:
    decision = facts.decisions[attempt.fence]
    gpus = int(decision.request["nodes"]) * int(decision.request["gpus_per_node"])
    price = _pool(facts, attempt).price.gpu_hour_usd
    if attempt.started_at is None or attempt.ended_at is None:
        raise NothingMovedError(f"try {attempt.try_number} in {attempt.pool} has not ended")
    seconds = (attempt.ended_at - attempt.started_at).total_seconds()
    return Cost(
        pool=attempt.pool,
        try_number=attempt.try_number,
        outcome=str(attempt.outcome),
        gpus=gpus,
        seconds=seconds,
        gpu_seconds=gpus * seconds,
        usd_per_gpu_hour=price,
        usd=None if price is None else gpus * seconds / 3600 * price,
    )
