"""One pool through the eyes of one request: what the filters and the cost terms look at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.beside import usable
from airflow_gpu_placement.engine.costs.basis import Basis
from airflow_gpu_placement.engine.growth import gpus_of_new_node, nodes_for_others, nodes_to_come
from airflow_gpu_placement.engine.lazy import lazy
from airflow_gpu_placement.engine.leaving import closed_by_maintenance
from airflow_gpu_placement.engine.located import silent_nodes
from airflow_gpu_placement.engine.nodes_view import NodesView
from airflow_gpu_placement.engine.room import Room, best_room
from airflow_gpu_placement.engine.shortage import shortage_of
from airflow_gpu_placement.model.pool import CapacityType, Execution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.reasons import ReasonCode
    from airflow_gpu_placement.model.signals import NodeCapacity, QuotaSignals


class PoolView(NodesView):
    """A pool, its signals and a question: what fits, where, and at which price."""

    @lazy
    def open_nodes(self) -> list[tuple[NodeCapacity, int]]:
        """List the allowed nodes that take new pods, each with the free GPUs that the job can use."""
        return usable(self.question, [node for node in self.allowed if node.unusable_because is None])

    @lazy
    def unseen_gpus(self) -> int:
        """GPUs that claims hold beside the pods that were seen."""
        return sum([size * pods for size, pods in self.unseen.items()])

    @lazy
    def free_gpus(self) -> int:
        """GPUs free on usable, allowed, matching nodes, and not claimed."""
        free = sum([gpus for _, gpus in self.open_nodes])
        return max(free - self.unseen_gpus, 0)

    @lazy
    def new_nodes(self) -> int:
        """Nodes that the pool can still add to itself for this job."""
        most = nodes_to_come(self)
        return most - nodes_for_others(self) if most else 0

    @lazy
    def gpus_of_new_node(self) -> int:
        """GPUs of such a node that the job can use."""
        return gpus_of_new_node(self)

    @property
    def places_on_new_node(self) -> int:
        """Pods of the request that one takes with all that they need."""
        return self.gpus_of_new_node // self.question.gpus_per_node

    @lazy
    def room(self) -> Room:
        """Where the gang fits best on what is free now and on what the pool can still add."""
        return best_room(self, self.open_nodes, self.new_nodes, self.unseen)

    @lazy
    def fits_now(self) -> int:
        """Pods of the request that fit on what is free now."""
        return self.room.now

    @lazy
    def fits(self) -> bool:
        """Whether the whole gang fits now, or once the pool has grown."""
        return self.room.grown >= self.question.pods

    @lazy
    def shortage(self) -> ReasonCode | None:
        """Return what the pool is short of; ``None``: nothing, or nobody knows."""
        return shortage_of(self)

    @property
    def pods_per_new_node(self) -> int:
        """Pods of the request for which a node that the pool would add has GPUs."""
        return (self.per_node or 0) // self.question.gpus_per_node

    @lazy
    def avoid_nodes(self) -> tuple[str, ...]:
        """Names of nodes that the scheduler could choose and must not.

        Wrong ones, those that history excludes, those that are to be stopped too early, and those that do not
        tell their region where the others' labels tell it.
        """
        by_name = self.excluded | closed_by_maintenance(self.nodes) | silent_nodes(self)
        return tuple(sorted(self.wrong_nodes | by_name))

    @lazy
    def wrong_nodes(self) -> frozenset[str]:
        """Names of nodes that are not what the job needs, nor are others like them.

        Those of another kind, shared ones, and, for a gang that must stay together, those outside the zone or
        fabric that it fits into.
        """
        good = {node.name for node in self.matching if node.whole}
        together = self.room.nodes
        if together is not None:
            good &= together
        return frozenset([node.name for node in self.nodes]) - good

    @lazy
    def may_be_taken_away(self) -> bool:
        """Whether the job may land on spot capacity: there, or on a node that the pool has yet to add."""
        spot = [kind for kind in self.matching_kinds if kind.capacity_type is CapacityType.SPOT]
        if not spot or len(spot) == len(self.matching_kinds) or self.fits_now < self.question.pods:
            return bool(spot)
        avoided = self.avoid_nodes
        return any(
            [
                kind in spot and node.name not in avoided
                for node, kind in zip(self.nodes, self.node_kinds, strict=True)
            ]
        )

    @lazy
    def local_queue(self) -> str | None:
        """LocalQueue through which this tenant reaches the pool; ``None``: none needed, or none there."""
        if self.pool.execution is Execution.JOB:
            return None
        tenant = self.question.setting.tenant
        queues = self.pool.kueue.local_queues
        return (queues.get(tenant.name) if tenant is not None else None) or queues.get("*")

    @lazy
    def quota(self) -> QuotaSignals | None:
        """Return what Kueue would admit for this tenant; ``None``: nothing was read, or it is not asked."""
        if self.signals is None or self.local_queue is None:
            return None
        return self.signals.quota.get(self.local_queue)

    @lazy
    def billed_gpus(self) -> int:
        """GPUs that are paid: whole nodes where the pool adds nodes for the job."""
        each = (self.places_on_new_node or self.pods_per_new_node) if self.grows else 0
        if not each:
            return self.question.total_gpus
        return math.ceil(self.question.pods / each) * (self.per_node or 0)

    @lazy
    def cash_price(self) -> float | None:
        """USD for a GPU and an hour; what is no finite price is unknown."""
        return _price(self.pool.price.gpu_hour_usd)

    @lazy
    def rank_price(self) -> float | None:
        """Return the same for ordering: the catalogue's other price when it has one."""
        rank = _price(self.pool.price.rank_gpu_hour_usd)
        return self.cash_price if rank is None else rank

    @lazy
    def basis(self) -> Basis:
        """Numbers that the cost of the request in this pool is made of."""
        return Basis(self)

    @lazy
    def hours_to_end(self) -> float:
        """Hours until the job would have ended; a pool that does not fit now counts as free at once."""
        return (self.basis.wait_hours if self.fits else 0.0) + self.basis.held_hours

    @property
    def usd_per_hour(self) -> float | None:
        """Price of the whole request for an hour."""
        return None if self.cash_price is None else self.cash_price * self.billed_gpus


def _price(usd: float | None) -> float | None:
    return None if usd is None or not math.isfinite(usd) or usd < 0 else usd


def few(names: Sequence[str], most: int = 3) -> str:
    """Join names, the first few of many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
