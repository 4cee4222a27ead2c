"""The numbers that nobody knows for sure, each with its source, the best one first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.model.estimate import Estimate
from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.pool import GpuIdentity

DEFAULT_RUNTIME = Estimate(value=1.0, source="default")
RESTART = Estimate(value=0.1, source="default")
"""Hours from the loss of a node until the job trains again: noticing, placing, starting, loading."""

DEFAULT_INTERRUPTIONS = {
    CapacityType.RESERVED: Estimate(value=2e-5, source="default"),
    CapacityType.ON_DEMAND: Estimate(value=2e-5, source="default"),
    CapacityType.SPOT: Estimate(value=2e-3, source="default"),
}
"""Interruptions of a GPU in an hour: two in 100,000 GPU hours by faults, a hundred times that on spot."""

DEFAULT_QUEUE_WAIT = Estimate(value=0.5, source="default")
"""Hours behind other workloads when nothing tells how long they take."""

AT_ONCE = Estimate(value=0.0, source="observed")


class Estimates(NamedTuple):
    """What the terms of a cost are made of.

    :param interval_hours: work that a loss can destroy: time between checkpoints, else all of it.
    :param wait_hours: until the job starts, growth of the pool included.
    """

    runtime_hours: Estimate
    interruptions_per_gpu_hour: Estimate
    interval_hours: Estimate
    restart_hours: Estimate
    wait_hours: Estimate


def estimates_of(view: PoolView) -> Estimates:
    """Gather the numbers of one pool."""
    runtime = _runtime(view)
    return Estimates(
        runtime_hours=runtime,
        interruptions_per_gpu_hour=_interruptions(view),
        interval_hours=_interval(view, runtime),
        restart_hours=RESTART,
        wait_hours=_wait(view),
    )


def _runtime(view: PoolView) -> Estimate:
    known, gpus = view.question.runtimes, view.matching_identities
    found = known.get(gpus)
    if found is None:
        found = known[gpus] = runtime_on(gpus, view.question)
    return found


def runtime_on(gpus: Sequence[GpuIdentity], question: Question) -> Estimate:
    """Take the request's word for this model, then its word for any, then what was learnt.

    A pool with several models that would do counts as its slowest: which node it will be is not known.
    """
    given = [question.runtime_given(gpu) for gpu in gpus]
    known = [hours for hours in given if hours is not None]
    if known and len(known) == len(given):
        return Estimate(value=max(known), source="given")
    of_any = question.request.time.runtime_hours
    if of_any is not None:
        return Estimate(value=max(of_any, *known, 0.0), source="given")
    learnt = question.setting.knowledge.runtime_hours
    of_models = [learnt[gpu.model] for gpu in gpus if gpu.model in learnt]
    if of_models:
        return max(of_models, key=lambda estimate: estimate.value)
    return learnt.get("*", DEFAULT_RUNTIME)


def _interruptions(view: PoolView) -> Estimate:
    """Return the rate of the pool; what was learnt while it counted as firm tells nothing of spot nodes."""
    declared, kind = view.pool.interruptions_per_gpu_hour, view.pool.capacity_type
    if view.may_be_taken_away and kind is not CapacityType.SPOT:
        return interruption_prior(declared, CapacityType.SPOT)
    learnt = view.question.setting.knowledge.interruptions_per_gpu_hour.get(view.pool.name)
    return learnt or interruption_prior(declared, kind)


def interruption_prior(declared: float | None, capacity_type: CapacityType) -> Estimate:
    """Return the interruption rate to start from: the catalogue's, else that of the kind of capacity."""
    if declared is not None:
        return Estimate(value=declared, source="prior")
    return DEFAULT_INTERRUPTIONS[capacity_type]


def _interval(view: PoolView, runtime: Estimate) -> Estimate:
    """Return the work that a loss destroys; without checkpoints, or their interval, that is all of it."""
    return view.question.checkpoint_interval or runtime


def _wait(view: PoolView) -> Estimate:
    """Nothing when the GPUs are free now; the time to grow; the time behind others in a queue."""
    quota = view.quota
    if quota is None and view.fits_now >= view.question.pods:
        return AT_ONCE
    observed = view.question.setting.knowledge.wait_seconds.get(view.pool.name)
    learnt = None if observed is None else Estimate(value=observed.value / 3600, source=observed.source)
    if quota is not None and quota.pending_ahead > 0:
        if quota.wait_seconds is not None:
            queued = Estimate(value=quota.wait_seconds / 3600, source="observed")
        else:
            queued = learnt or DEFAULT_QUEUE_WAIT
    else:
        queued = AT_ONCE
    if view.fits_now >= view.question.pods:
        return queued
    growth = learnt or Estimate(value=view.pool.growth.provisioning_seconds / 3600, source="prior")
    if not queued.value:
        return growth
    return Estimate(value=queued.value + growth.value, source=f"{queued.source}+{growth.source}")
