"""What would have to be different for a refused pool to take a job."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_gpu_placement.model.reasons import ReasonCode


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the request, the setting, the pool or its signals, and what it would have to be.

    :param path: JSON pointer below ``request``, ``pool``, ``signals``, ``setting``, ``history``, ``claims``.
    """

    path: str
    before: Any
    after: Any


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One failing requirement and what clears it.

    :param changes: empty when the changes of an earlier requirement clear it too.
    :param follows: it failed only after earlier changes, such as a budget that is short at the new price.
    """

    code: ReasonCode
    needed: str
    observed: str
    changes: tuple[Change, ...] = ()
    follows: bool = False
