"""The nodes of one pool through the eyes of one request: what kinds there are, and which of them match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.bought import counts_as
from airflow_gpu_placement.engine.identity import are_alike, effective_gpu
from airflow_gpu_placement.engine.lazy import lazy
from airflow_gpu_placement.engine.matching import Kind, Stage, narrow
from airflow_gpu_placement.engine.potential import (
    best_sizes,
    largest_by_gpu,
    possible_nodes,
    untold_nodes,
    usual_gpus,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.model.pool import CapacityType, GpuIdentity, GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals


class NodesView:
    """The nodes of a pool and a question; everything here is derived from those and computed at most once.

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
        self.grows = pool.growth.max_nodes is not None
        """Whether the pool adds nodes to itself."""
        self.known = signals is not None and signals.gap is None
        """Whether the pool's nodes were seen."""
        self.nodes = signals.nodes if signals is not None and self.known else ()
        age = None if signals is None else (question.now - signals.observed_at).total_seconds()
        self.age_seconds = age
        """Age of the signals; ``None``: there are none."""
        self.fresh = self.known and age is not None and age <= pool.max_signal_age_seconds
        """Whether the nodes were seen recently enough to say what is free."""
        self.alike = signals is None or are_alike(signals.nodes)
        """Whether all nodes in the signals say the same of themselves."""
        self.kinds = self._kinds()
        """Different kinds of node; what the catalogue says of one when none was seen."""
        narrowed = narrow(question, pool, self.kinds)
        self._stages = narrowed.stages
        self.matching_kinds = narrowed.kinds
        """Kinds of node that have all that is asked for, or as much of it as any has."""
        self.has_a_match = narrowed.met
        """Whether any kind of node has all that is asked for."""
        self.all_match = len(narrowed.kinds) == len(self.kinds)
        """Whether all kinds are among the matching ones."""
        self.identities = _distinct(self.kinds)
        """Different GPUs of the pool, by name; the catalogue's word when no node was seen."""
        there = self.identities if self.all_match else _distinct(self.matching_kinds)
        self.matching_identities = there or self.identities
        """Different GPUs of the matching nodes, by name: what the job would get."""

    @lazy
    def node_kinds(self) -> tuple[Kind, ...]:
        """Kind that each node counts as: the catalogue's word, else that of the labels."""
        if self.alike:
            return self.kinds * len(self.nodes) if self.nodes else ()
        labels = [_labels(node) for node in self.nodes]
        kinds = {label: self._kind(*label) for label in set(labels)}
        return tuple([kinds[label] for label in labels])

    def _kind(
        self,
        gpu: GpuIdentity | None,
        architecture: str | None,
        capacity: int,
        capacity_type: CapacityType | None,
    ) -> Kind:
        architecture = self.pool.architecture or architecture
        effective = effective_gpu(self.pool, gpu)
        gpus = capacity or usual_gpus(self.pool, effective, self.largest_by_gpu)
        return Kind(effective, architecture, gpus, counts_as(self.pool, capacity_type), gpu is not None)

    @lazy
    def largest_by_gpu(self) -> dict[GpuIdentity | None, int]:
        """Most GPUs that a node with each kind of them shows."""
        return largest_by_gpu(self.pool, self.nodes)

    @lazy
    def declared(self) -> GpuIdentity | None:
        """GPU of the pool as far as the catalogue alone tells it."""
        return effective_gpu(self.pool, None)

    def _kinds(self) -> tuple[Kind, ...]:
        if not self.nodes:
            return (self.declared_kind,)
        if self.alike:
            return (self._kind(*_labels(self.nodes[0])),)
        return tuple(dict.fromkeys(self.node_kinds))

    @lazy
    def declared_kind(self) -> Kind:
        """Return what the catalogue alone says of a node."""
        pool = self.pool
        return Kind(self.declared, pool.architecture, pool.gpu.per_node or 0, pool.capacity_type)

    def stage(self, name: str) -> Stage | None:
        """Return which kinds have a property among those that passed before it; ``None``: not asked for."""
        return self._stages.get(name)

    def failed(self, name: str) -> Stage | None:
        """Return a property that is asked for and that no node has, nor any may turn out to have."""
        if self.has_a_match:
            return None
        stage = self._stages.get(name)
        return None if stage is None or stage.passed or self.untold else stage

    @lazy
    def untold(self) -> tuple[NodeCapacity, ...]:
        """Nodes that may turn out to match, where none is known to."""
        return untold_nodes(self)

    @lazy
    def possible(self) -> tuple[NodeCapacity, ...]:
        """Nodes that may hold pods of the job once all is in order, lost ones that are gone included."""
        return possible_nodes(self)

    @lazy
    def possible_sizes(self) -> list[int]:
        """GPUs that each of them can have free at best."""
        return best_sizes(self, self.possible)

    @lazy
    def matching(self) -> tuple[NodeCapacity, ...]:
        """Nodes of the matching kinds.

        When none has all that is asked for, those that come nearest: a pool with the wrong GPU is still told
        whether it is full.
        """
        if self.all_match:
            return self.nodes
        kinds = self.matching_kinds
        return tuple([node for node, kind in zip(self.nodes, self.node_kinds, strict=True) if kind in kinds])

    @lazy
    def has_whole_gpus(self) -> bool:
        """Whether the pool can have a whole GPU at all: not when each node's devices are shares or slices."""
        nodes = self.matching
        return not nodes or nodes[0].whole or self.grows or any([node.whole for node in nodes])

    @lazy
    def allowed(self) -> tuple[NodeCapacity, ...]:
        """List the matching nodes that history does not exclude."""
        excluded = self.excluded
        if not excluded:
            return self.matching
        return tuple([node for node in self.matching if node.name not in excluded])

    @lazy
    def per_node(self) -> int | None:
        """GPUs of a node that the pool would add; ``None``: nothing tells."""
        if self.pool.gpu.per_node is not None:
            return self.pool.gpu.per_node
        return max([node.capacity for node in self.matching], default=0) or None


def _labels(node: NodeCapacity) -> tuple[GpuIdentity | None, str | None, int, CapacityType | None]:
    return node.gpu, node.architecture, node.capacity, node.capacity_type


def _distinct(kinds: Sequence[Kind]) -> tuple[GpuIdentity, ...]:
    if len(kinds) == 1:
        return () if kinds[0].gpu is None else (kinds[0].gpu,)
    return tuple(sorted({kind.gpu for kind in kinds if kind.gpu is not None}, key=str))
