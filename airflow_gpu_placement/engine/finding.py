"""One piece of evidence: what it is evidence of, and when it happened."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from airflow_gpu_placement.model.outcome import OutcomeKind

CLOCK_SKEW = timedelta(seconds=5)
"""Times come from the clocks of several machines; within this much none of them is believed to be first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Why one pod failed or cannot start.

    :param what: words that follow the pod's name, such as ``exited with code 1``.
    :param at: when; ``None``: not known.
    :param by_exit: told by the exit code alone.
    :param blames_node: the node itself is at fault, so that it is avoided from now on; a preemption does not.
    :param secondary: the pod was stopped by something else (its deletion, a signal), so look for the cause
    first.
    """

    kind: OutcomeKind
    cause: str
    what: str
    at: datetime | None = None
    exit_code: int | None = None
    by_exit: bool = False
    secondary: bool = False
    blames_node: bool = False
    ambiguous: bool = False
    pod: str = ""
    node: str = ""
    never_started: bool = False
