"""Why a queue admits nothing at all, whatever its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Condition
    from airflow_gpu_placement.model.kueue import ClusterQueue, LocalQueue

_HELD = frozenset({"Hold", "HoldAndDrain"})


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that admits nothing.

    :param because: in words, such as ``queue stopped: ClusterQueue ml has stopPolicy Hold``.
    :param drains: what already runs there is evicted too; otherwise it is left alone.
    """

    because: str
    drains: bool = False


def stopped(queue: ClusterQueue, local_queue: LocalQueue | None = None) -> Stopped | None:
    """Say why nothing new is admitted.

    :param local_queue: the door that would be used; ``None``: only the ClusterQueue is asked.
    :return: ``None``: it admits.
    """
    found = _of_cluster_queue(queue)
    if local_queue is None:
        return found
    if found is not None and found.drains:
        return found
    door = _of_local_queue(local_queue)
    return door if door is not None and (found is None or door.drains) else found


def _of_cluster_queue(queue: ClusterQueue) -> Stopped | None:
    name = f"ClusterQueue {queue.metadata.name}".rstrip()
    held = _held(name, queue.spec.stop_policy)
    if held is not None:
        return held
    if queue.metadata.deletion_timestamp is not None:
        return Stopped(because=f"queue stopped: {name} is being deleted")
    active = _active(queue.status.conditions)
    if active is None:
        if queue.status.flavors_reservation is None:
            return Stopped(because=f"queue stopped: {name} has no status, Kueue has not taken it up yet")
        return None
    return _inactive(name, active)


def _of_local_queue(queue: LocalQueue) -> Stopped | None:
    name = f"LocalQueue {queue.metadata.namespace}/{queue.metadata.name}"
    held = _held(name, queue.spec.stop_policy)
    active = _active(queue.status.conditions)
    return held or (None if active is None else _inactive(name, active))


def _held(name: str, policy: str | None) -> Stopped | None:
    if policy not in _HELD:
        return None
    return Stopped(because=f"queue stopped: {name} has stopPolicy {policy}", drains=policy == "HoldAndDrain")


def _active(conditions: tuple[Condition, ...]) -> Condition | None:
    return next((one for one in conditions if one.type == "Active"), None)


def _inactive(name: str, active: Condition) -> Stopped | None:
    if active.status == "True":
        return None
    why = ": ".join(part for part in (active.reason, active.message) if part) or f"Active={active.status}"
    return Stopped(because=f"queue stopped: {name} is not active ({why})")
