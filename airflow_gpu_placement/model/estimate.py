"""Numbers that nobody knows for sure, each with where it comes from; and the terms of a cost made of them.

A decision makes thousands of the plain ones, in no circle: the garbage collector need not look at them.
"""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A number and its source: ``given``, ``history(7)``, ``prior``, ``default`` or ``observed``."""

    value: float
    source: str


class Knowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What was learnt from stored attempts; the engine takes it as it is.

    :param runtime_hours: canonical GPU model -> runtime of this task's successes; key ``*``: any model.
    :param interruptions_per_gpu_hour: pool name -> rate, the prior updated by what was observed, decaying.
    :param wait_seconds: pool name -> observed wait for admission or start.
    :param spent_usd: tenant name -> money spent and promised in this calendar month.
    :param held_gpus: tenant name -> GPUs held and promised now.
    :param checkpoint_region: region of the newest checkpoint; ``None``: there is none.
    """

    runtime_hours: dict[str, Estimate] = {}
    interruptions_per_gpu_hour: dict[str, Estimate] = {}
    wait_seconds: dict[str, Estimate] = {}
    spent_usd: dict[str, float] = {}
    held_gpus: dict[str, int] = {}
    checkpoint_region: str | None = None


class CostTerm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One part of the objective.

    :param name: ``compute``, ``rework``, ``egress``, ``time`` or ``preference``.
    :param usd: what it adds to the total.
    :param hours: the hours behind it; ``None``: it has none.
    :param formula: how it was computed, with the numbers.
    """

    name: str
    usd: float
    hours: float | None = None
    formula: str = ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a request would cost in one pool.

    :param total_usd: sum of the terms: the objective.
    :param cash_usd: the money that would be spent; ``None``: the price is unknown.
    :param wait_hours: until the job starts, growth of the pool included.
    :param held_hours: time for which GPUs are paid: staging, runtime, expected rework.
    :param finish_hours: from now to the end.
    :param estimates: name -> number used, with its source.
    """

    terms: tuple[CostTerm, ...]
    total_usd: float
    cash_usd: float | None
    wait_hours: float
    held_hours: float
    finish_hours: float
    estimates: dict[str, Estimate] = {}
