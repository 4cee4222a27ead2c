"""Nodes whose machine stays until a job on it would have ended; the others are closed to it.

A cloud tells maintenance weeks ahead. A short job on such a node is done long before, and one that would
still run then is lost with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.costs.estimates import DEFAULT_RUNTIME, runtime_on
from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.engine.leaving import closed_from

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.model.pool import GpuIdentity, GpuPool
    from airflow_gpu_placement.model.signals import PoolSignals

HORIZON_HOURS = 24.0
"""How far ahead maintenance keeps a job off when nothing tells how long it takes."""

LEEWAY_HOURS = 1.0
"""What a job gets beside its expected runtime: to start, to bring its data, to take longer."""


def horizon(now: datetime) -> datetime:
    """Return until when a node has to stay for a job of which nothing is known."""
    return now + timedelta(hours=HORIZON_HOURS)


def until_the_end(question: Question, pool: GpuPool, signals: PoolSignals) -> PoolSignals:
    """Close the nodes that are to be stopped before the job would have ended on them."""
    if not any([node.leaves_at is not None for node in signals.nodes]):
        return signals
    nodes = tuple(
        [
            node
            if node.leaves_at is None
            else closed_from(node, question.now + _needed(question, effective_gpu(pool, node.gpu)))
            for node in signals.nodes
        ]
    )
    return msgspec.structs.replace(signals, nodes=nodes)


def _needed(question: Question, gpu: GpuIdentity | None) -> timedelta:
    """Return how long a node is needed.

    A job that keeps checkpoints is not kept waiting for maintenance that is farther ahead than the horizon:
    what it does until then is not lost.
    """
    runtime = runtime_on(() if gpu is None else (gpu,), question)
    if runtime.source == DEFAULT_RUNTIME.source:
        return timedelta(hours=HORIZON_HOURS)
    hours = runtime.value + LEEWAY_HOURS
    if question.request.checkpoint.uri is not None:
        hours = min(hours, HORIZON_HOURS)
    return timedelta(hours=hours)
