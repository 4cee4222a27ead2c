"""How certain it is that no pool can ever take a job: by what is written, or by what clusters show now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.model.signals import Snapshot

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals


def never_by_declaration(decision: Decision) -> bool:
    """Whether catalogue, request and history alone say never of every pool, whatever its nodes look like."""
    unseen = Snapshot(taken_at=decision.snapshot.taken_at, pools={})
    return decision.never and replay(msgspec.structs.replace(decision, snapshot=unseen)).never


def never_in_order(decision: Decision) -> bool:
    """Whether every pool would say never too if no GPU of its nodes were withdrawn.

    A withdrawn GPU does not come back by waiting, and does once somebody repairs or boots its node.
    """
    seen = decision.snapshot
    whole = msgspec.structs.replace(seen, pools={name: _repaired(one) for name, one in seen.pools.items()})
    return decision.never and replay(msgspec.structs.replace(decision, snapshot=whole)).never


def _repaired(signals: PoolSignals) -> PoolSignals:
    if all(node.allocatable >= node.capacity for node in signals.nodes):
        return signals
    return msgspec.structs.replace(signals, nodes=tuple(map(_with_all_devices, signals.nodes)))


def _with_all_devices(node: NodeCapacity) -> NodeCapacity:
    return msgspec.structs.replace(node, allocatable=max(node.allocatable, node.capacity))
