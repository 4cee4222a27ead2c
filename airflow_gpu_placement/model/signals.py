"""Observed facts about pools: what was seen, when, by what, and what could not be seen."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.pool import GpuIdentity


class GapKind(StrEnum):
    """Why a pool's signals are missing."""

    CONNECTION_MISSING = "connection_missing"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    WRONG_CLUSTER = "wrong_cluster"
    INVALID = "invalid"


class SignalGap(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing and why; unknown is never free."""

    kind: GapKind
    message: str


class NodeCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Whole GPUs of one node, for a job with the pool's tolerations.

    :param capacity: devices that the node has.
    :param allocatable: devices that pods may use (unhealthy ones are not in it).
    :param used: devices held by pods that are bound and not ended, terminating ones included.
    :param free: devices that a new pod could get now; 0 when the node is not usable.
    :param whole: its devices are whole GPUs; shares of a GPU and slices of one are not, and count as none.
    :param unusable_because: short reason such as ``cordoned`` or ``taint gpu=maintenance:NoSchedule``;
        ``None``: usable.
    """

    name: str
    gpu: GpuIdentity | None = None
    capacity: int = 0
    allocatable: int = 0
    used: int = 0
    free: int = 0
    zone: str | None = None
    whole: bool = True
    unusable_because: str | None = None


class PoolSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Everything observed about one pool at one moment; with a ``gap`` the rest is empty.

    :param source: what was read, such as ``nodes and pods of https://10.0.0.1:6443``.
    :param cluster_uid: uid of the ``kube-system`` namespace that answered.
    """

    pool: str
    observed_at: datetime
    source: str
    cluster_uid: str | None = None
    nodes: tuple[NodeCapacity, ...] = ()
    gap: SignalGap | None = None
    warnings: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All signals of one decision, keyed by pool name."""

    taken_at: datetime
    pools: dict[str, PoolSignals]
