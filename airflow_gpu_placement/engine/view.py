"""One pool through the eyes of one request: what the filters and the cost terms look at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.costs.basis import Basis
from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.engine.lazy import lazy
from airflow_gpu_placement.engine.matching import Kind, Stage, stages
from airflow_gpu_placement.engine.room import Room, best_room
from airflow_gpu_placement.model.pool import Execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.model.pool import GpuIdentity, GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals, QuotaSignals


def sizes(nodes: Sequence[NodeCapacity]) -> list[int]:
    """Return the GPUs that each node can have free at best.

    Devices that were withdrawn do not come back by waiting, so allocatable counts. Nothing allocatable at
    all is how a node looks while its device plugin restarts, so there capacity counts.
    """
    return [node.allocatable or node.capacity for node in nodes]


class PoolView:
    """A pool, its signals and a question; everything here is derived from those and computed at most once.

    :param excluded: names of nodes that this logical task must not use again.
    :param unseen: GPUs a pod -> pods of other attempts that will land here and were not seen yet.
    """

    def __init__(
        self,
        question: Question,
        pool: GpuPool,
        signals: PoolSignals | None,
        excluded: frozenset[str],
        unseen: Mapping[int, int],
    ) -> None:
        self.question = question
        self.request = question.request
        self.pool = pool
        self.signals = signals
        self.excluded = excluded
        self.unseen = unseen
        self.known = signals is not None and signals.gap is None
        """Whether the pool's nodes were seen."""
        self.nodes = signals.nodes if signals is not None and self.known else ()

    @lazy
    def age_seconds(self) -> float | None:
        """Age of the signals; ``None``: there are none."""
        if self.signals is None:
            return None
        return (self.question.now - self.signals.observed_at).total_seconds()

    @lazy
    def fresh(self) -> bool:
        """Whether the nodes were seen recently enough to say what is free."""
        age = self.age_seconds
        return self.known and age is not None and age <= self.pool.max_signal_age_seconds

    @lazy
    def node_kinds(self) -> tuple[Kind, ...]:
        """Kind that each node counts as: the catalogue's word, else that of the labels."""
        labels = [(node.gpu, node.architecture, node.capacity) for node in self.nodes]
        # Mostly all are alike, and comparing them is cheaper than looking their kind up.
        if labels and labels.count(labels[0]) == len(labels):
            return (self._kind(*labels[0]),) * len(labels)
        kinds = {label: self._kind(*label) for label in set(labels)}
        return tuple([kinds[label] for label in labels])

    def _kind(self, gpu: GpuIdentity | None, architecture: str | None, capacity: int) -> Kind:
        return Kind(effective_gpu(self.pool, gpu), self.pool.architecture or architecture, capacity)

    @lazy
    def declared(self) -> GpuIdentity | None:
        """GPU of the pool as far as the catalogue alone tells it."""
        return effective_gpu(self.pool, None)

    @lazy
    def kinds(self) -> tuple[Kind, ...]:
        """Different kinds of node; what the catalogue says of one when none was seen."""
        kinds = self.node_kinds
        if kinds:
            alike = kinds.count(kinds[0]) == len(kinds)
            return kinds[:1] if alike else tuple(dict.fromkeys(kinds))
        return (Kind(self.declared, self.pool.architecture, self.pool.gpu.per_node or 0),)

    @lazy
    def _narrowed(self) -> tuple[dict[str, Stage], tuple[Kind, ...]]:
        return stages(self.question, self.pool, self.kinds)

    def stage(self, name: str) -> Stage | None:
        """Return which kinds have a property among those that passed before it; ``None``: not asked for."""
        return self._narrowed[0].get(name)

    @lazy
    def matching_kinds(self) -> tuple[Kind, ...]:
        """Kinds of node that have all that is asked for, or as much of it as any has."""
        return self._narrowed[1]

    @lazy
    def identities(self) -> tuple[GpuIdentity, ...]:
        """Different GPUs of the pool, by name; the catalogue's word when no node was seen."""
        return _distinct(self.kinds)

    @lazy
    def matching_identities(self) -> tuple[GpuIdentity, ...]:
        """Different GPUs of the matching nodes, by name: what the job would get."""
        if len(self.matching_kinds) == len(self.kinds):
            return self.identities
        return _distinct(self.matching_kinds) or self.identities

    @lazy
    def matching(self) -> tuple[NodeCapacity, ...]:
        """Nodes of the matching kinds.

        When none has all that is asked for, those that come nearest: a pool with the wrong GPU is still told
        whether it is full.
        """
        kinds = self.matching_kinds
        if len(kinds) == len(self.kinds):
            return self.nodes
        return tuple([node for node, kind in zip(self.nodes, self.node_kinds, strict=True) if kind in kinds])

    @lazy
    def has_whole_gpus(self) -> bool:
        """Whether the pool can have a whole GPU at all: not when each node's devices are shares or slices."""
        return not self.matching or self.grows or any(node.whole for node in self.matching)

    @property
    def grows(self) -> bool:
        """Whether the pool adds nodes to itself."""
        return self.pool.growth.max_nodes is not None

    @lazy
    def allowed(self) -> tuple[NodeCapacity, ...]:
        """List the matching nodes that history does not exclude."""
        excluded = self.excluded
        if not excluded:
            return self.matching
        return tuple([node for node in self.matching if node.name not in excluded])

    @lazy
    def open_nodes(self) -> list[tuple[NodeCapacity, int]]:
        """List the allowed nodes that take new pods, each with its free GPUs."""
        return [(node, node.free) for node in self.allowed if node.unusable_because is None]

    @lazy
    def unseen_gpus(self) -> int:
        """GPUs that claims hold beside the pods that were seen."""
        return sum(size * pods for size, pods in self.unseen.items())

    @lazy
    def free_gpus(self) -> int:
        """GPUs free on usable, allowed, matching nodes, and not claimed."""
        free = sum([gpus for _, gpus in self.open_nodes])
        return max(free - self.unseen_gpus, 0)

    @lazy
    def per_node(self) -> int | None:
        """GPUs of a node that the pool would add; ``None``: nothing tells."""
        if self.pool.gpu.per_node is not None:
            return self.pool.gpu.per_node
        return max((node.capacity for node in self.matching), default=0) or None

    @lazy
    def new_nodes(self) -> int:
        """Nodes that the pool can still add to itself."""
        if self.pool.growth.max_nodes is None or not self.known:
            return 0
        return max(self.pool.growth.max_nodes - len(self.nodes), 0)

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

    def pods_ever(self, nodes: Sequence[NodeCapacity]) -> int:
        """Return how many pods these nodes could hold if they were empty and in order, with growth."""
        gpus_per_node = self.question.gpus_per_node
        now = sum([size // gpus_per_node for size in sizes(nodes)])
        if self.pool.growth.max_nodes is None:
            return now
        return max(now, self.pool.growth.max_nodes * self.pods_per_new_node)

    def together_ever(self, nodes: Sequence[NodeCapacity]) -> int:
        """Return the same for one zone or fabric when the gang must stay inside one."""
        if not self.question.together:
            return self.pods_ever(nodes)
        new = max((self.pool.growth.max_nodes or 0) - len(self.nodes), 0)
        return best_room(self, list(zip(nodes, sizes(nodes), strict=True)), new, {}).grown

    @property
    def pods_per_new_node(self) -> int:
        """Pods of the request that a node holds that the pool would add."""
        return (self.per_node or 0) // self.question.gpus_per_node

    @lazy
    def avoid_nodes(self) -> tuple[str, ...]:
        """Names of nodes that the scheduler could choose and must not.

        Those that history excludes, those of another kind, shared ones, and, for a gang that must stay
        together, those outside the zone or fabric that it fits into.
        """
        good = {node.name for node in self.matching if node.whole} - self.excluded
        if self.room.nodes is not None:
            good &= self.room.nodes
        return tuple(sorted(self.excluded | {node.name for node in self.nodes} - good))

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
        if not self.grows or not self.pods_per_new_node:
            return self.question.total_gpus
        return math.ceil(self.question.pods / self.pods_per_new_node) * (self.per_node or 0)

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


def _distinct(kinds: Sequence[Kind]) -> tuple[GpuIdentity, ...]:
    if len(kinds) == 1:
        return () if kinds[0].gpu is None else (kinds[0].gpu,)
    return tuple(sorted({kind.gpu for kind in kinds if kind.gpu is not None}, key=str))


def _price(usd: float | None) -> float | None:
    return None if usd is None or not math.isfinite(usd) or usd < 0 else usd


def few(names: Sequence[str], most: int = 3) -> str:
    """Join names, the first few of many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
