"""What stored attempts teach: how long this task takes on each GPU model, how often pools lose jobs."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.costs.estimates import interruption_prior
from airflow_gpu_placement.engine.start import START_TIMEOUT
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.pool import GpuPool

ANY_MODEL = "*"
_LATEST_RUNS = 10
"""Successes of a model that count; older ones were of another program."""

_HALF_LIFE_DAYS = 14.0
"""After this time an attempt counts half as much in an interruption rate."""

_PRIOR_GPU_HOURS = 1000.0
"""The prior rate weighs as much as this many observed GPU hours."""

_SECONDS_AN_HOUR = 3600.0
_SECONDS_A_DAY = 86400.0


def learn(
    of_task: Iterable[AttemptRecord],
    of_pools: Iterable[AttemptRecord],
    pools: Sequence[GpuPool],
    *,
    now: datetime,
) -> Knowledge:
    """Learn from stored attempts.

    :param of_task: attempts of this task in all its runs, for the runtime.
    :param of_pools: attempts of any task, for the interruption rates.
    :param pools: pools of the catalogue, for the rates to start from.
    :param now: how old an attempt is counts from here.
    """
    return Knowledge(
        runtime_hours=_runtimes(of_task),
        interruptions_per_gpu_hour=_interruptions(of_pools, pools, now),
    )


def _runtimes(attempts: Iterable[AttemptRecord]) -> dict[str, Estimate]:
    """Take the median of the latest successes by model.

    Only first attempts count: a later one resumes from a checkpoint and looks shorter than the work is.
    """
    hours: dict[str, list[float]] = {}
    for attempt in sorted(attempts, key=_ended):
        took = _hours(attempt)
        if attempt.outcome is not OutcomeKind.SUCCEEDED or attempt.fence > 1 or took is None:
            continue
        hours.setdefault(ANY_MODEL, []).append(took)
        if attempt.gpu_model is not None:
            hours.setdefault(attempt.gpu_model, []).append(took)
    return {
        model: Estimate(value=median(latest), source=f"history({len(latest)})")
        for model, all_of_it in sorted(hours.items())
        if (latest := all_of_it[-_LATEST_RUNS:])
    }


def _interruptions(
    attempts: Iterable[AttemptRecord], pools: Sequence[GpuPool], now: datetime
) -> dict[str, Estimate]:
    """Update each pool's prior by its losses an observed GPU hour; an old attempt counts less and less."""
    gpu_hours: dict[str, float] = {}
    losses: dict[str, float] = {}
    counted: dict[str, int] = {}
    for attempt in attempts:
        took = _hours(attempt)
        if took is None or attempt.ended_at is None or attempt.gpus is None or _never_started(attempt):
            continue  # it held no GPU and lost none
        age_days = max((now - attempt.ended_at).total_seconds(), 0.0) / _SECONDS_A_DAY
        weight = 0.5 ** (age_days / _HALF_LIFE_DAYS)
        name = attempt.pool
        gpu_hours[name] = gpu_hours.get(name, 0.0) + weight * took * attempt.gpus
        counted[name] = counted.get(name, 0) + 1
        if attempt.outcome is OutcomeKind.INFRASTRUCTURE:
            losses[name] = losses.get(name, 0.0) + weight
    found = {}
    for pool in pools:
        if pool.name in gpu_hours:
            prior = interruption_prior(pool.interruptions_per_gpu_hour, pool.capacity_type).value
            rate = (prior * _PRIOR_GPU_HOURS + losses.get(pool.name, 0.0)) / (
                _PRIOR_GPU_HOURS + gpu_hours[pool.name]
            )
            found[pool.name] = Estimate(value=rate, source=f"history({counted[pool.name]})")
    return found


def _never_started(attempt: AttemptRecord) -> bool:
    return attempt.cause == START_TIMEOUT or attempt.refusal is not None


def _hours(attempt: AttemptRecord) -> float | None:
    if attempt.started_at is None or attempt.ended_at is None or attempt.ended_at < attempt.started_at:
        return None
    return (attempt.ended_at - attempt.started_at).total_seconds() / _SECONDS_AN_HOUR


def _ended(attempt: AttemptRecord) -> tuple[float, str]:
    return (0.0 if attempt.ended_at is None else attempt.ended_at.timestamp()), attempt.attempt_id
