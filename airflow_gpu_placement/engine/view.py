"""One pool through the eyes of one request: what the filters look at."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.engine.capacity import gang_fits
from airflow_gpu_placement.engine.gpu_models import complete, satisfies, wanted_model
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.decision import History
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.request import GpuRequest
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals, SignalGap


class Offered(NamedTuple):
    """One node of a pool with the GPU it counts as: the catalogue's word, else that of the labels."""

    node: NodeCapacity
    gpu: GpuIdentity | None

    @property
    def size(self) -> int:
        """GPUs that the node can have free at best.

        Devices that were withdrawn do not come back by waiting, so allocatable counts. Nothing allocatable at
        all
        is how a node looks while its device plugin restarts, so there capacity counts.
        """
        return self.node.allocatable or self.node.capacity


class PoolView:
    """A pool, its signals and a request; everything here is derived from those and computed at most once.

    :param excluded: names of nodes that this logical task must not use again.
    :param offered_models: models of all pools, for messages.
    """

    def __init__(
        self,
        request: GpuRequest,
        pool: GpuPool,
        signals: PoolSignals | None,
        excluded: frozenset[str],
        offered_models: tuple[str, ...],
    ) -> None:
        self.request = request
        self.pool = pool
        self.signals = signals
        self.excluded = excluded
        self.offered_models = offered_models

    @property
    def gap(self) -> SignalGap | None:
        """What is missing of the signals, when something is."""
        return None if self.signals is None else self.signals.gap

    @property
    def known(self) -> bool:
        """Whether the pool's nodes were seen."""
        return self.signals is not None and self.signals.gap is None

    @cached_property
    def nodes(self) -> tuple[Offered, ...]:
        """Nodes that were seen, with the GPU that each counts as."""
        if self.signals is None or self.signals.gap is not None:
            return ()
        return tuple(Offered(node, effective_gpu(self.pool, node.gpu)) for node in self.signals.nodes)

    @cached_property
    def declared(self) -> GpuIdentity | None:
        """GPU of the pool as far as the catalogue alone tells it."""
        return effective_gpu(self.pool, None)

    @cached_property
    def identities(self) -> tuple[GpuIdentity, ...]:
        """Different GPUs of the pool, by name; the catalogue's word when no node was seen."""
        seen = {one.gpu for one in self.nodes if one.gpu is not None}
        if not self.nodes and self.declared is not None:
            seen = {self.declared}
        return tuple(sorted(seen, key=str))

    @cached_property
    def matching_identities(self) -> tuple[GpuIdentity, ...]:
        """Different GPUs of the matching nodes, by name: what the job would get."""
        seen = {one.gpu for one in self.matching if one.gpu is not None}
        return tuple(sorted(seen, key=str)) or self.identities

    @cached_property
    def avoid_nodes(self) -> tuple[str, ...]:
        """Names of nodes that the scheduler could choose and must not."""
        good = {one.node.name for one in self.matching if one.node.whole} - self.excluded
        return tuple(sorted(self.excluded | {one.node.name for one in self.nodes} - good))

    @cached_property
    def wanted(self) -> tuple[GpuIdentity, ...]:
        """GPUs that the request names; empty: any."""
        return tuple(wanted_model(text) for text in self.request.models)

    def is_wanted(self, gpu: GpuIdentity | None) -> bool:
        """Whether a GPU is one of those that the request names."""
        return not self.wanted or any(satisfies(gpu, wanted) for wanted in self.wanted)

    def is_large_enough(self, gpu: GpuIdentity | None) -> bool:
        """Whether a GPU has the memory that the request asks for; unknown is never enough."""
        least = self.request.min_memory_gb
        if least is None:
            return True
        return gpu is not None and gpu.memory_gb is not None and gpu.memory_gb >= least

    @cached_property
    def matching(self) -> tuple[Offered, ...]:
        """Nodes whose GPU is wanted and large enough; all of them when there is none such.

        The second half keeps the filters independent: a pool with the wrong GPU is still told whether it is
        full.
        """
        return (
            tuple(one for one in self.nodes if self.is_wanted(one.gpu) and self.is_large_enough(one.gpu))
            or self.nodes
        )

    @property
    def has_whole_gpus(self) -> bool:
        """Whether the pool can have a whole GPU at all: not when each node's devices are shares or slices."""
        return (
            not self.matching
            or self.pool.max_nodes is not None
            or any(one.node.whole for one in self.matching)
        )

    @cached_property
    def allowed(self) -> tuple[NodeCapacity, ...]:
        """Matching nodes that history does not exclude."""
        return tuple(one.node for one in self.matching if one.node.name not in self.excluded)

    @cached_property
    def free_gpus(self) -> int:
        """GPUs free on usable, allowed, matching nodes."""
        return sum(node.free for node in self.allowed if node.unusable_because is None)

    @cached_property
    def fits_now(self) -> int:
        """Pods of the request that fit on what is free now."""
        return gang_fits(self.allowed, self.request.gpus_per_node, ())

    @cached_property
    def per_node(self) -> int | None:
        """GPUs of a node that the pool would add; ``None``: nothing tells."""
        if self.pool.gpu.per_node is not None:
            return self.pool.gpu.per_node
        return max((one.node.capacity for one in self.matching), default=0) or None

    @cached_property
    def new_nodes(self) -> int:
        """Nodes that the pool can still add to itself."""
        if self.pool.max_nodes is None or not self.known:
            return 0
        return max(self.pool.max_nodes - len(self.nodes), 0)

    @cached_property
    def fits_by_growing(self) -> int:
        """Pods of the request that would fit on nodes that the pool can still add."""
        return self.new_nodes * ((self.per_node or 0) // self.request.gpus_per_node)

    @property
    def fits(self) -> bool:
        """Whether the whole gang fits now, or once the pool has grown."""
        return self.fits_now + self.fits_by_growing >= self.request.nodes

    def pods_ever(self, nodes: Sequence[Offered]) -> int:
        """Return how many pods these nodes could hold if they were empty and in order, with growth."""
        now = sum(one.size // self.request.gpus_per_node for one in nodes)
        if self.pool.max_nodes is None:
            return now
        return max(now, self.pool.max_nodes * ((self.per_node or 0) // self.request.gpus_per_node))

    @property
    def usd_per_hour(self) -> float | None:
        """Price of the whole request for an hour; what is no finite price is unknown."""
        price = self.pool.gpu_hour_usd
        if price is None or not math.isfinite(price) or price < 0:
            return None
        return price * self.request.total_gpus


def effective_gpu(pool: GpuPool, observed: GpuIdentity | None) -> GpuIdentity | None:
    """Lay the catalogue's word over what the labels say.

    :return: ``None``: neither says a model.
    """
    declared = pool.gpu
    if declared.model is not None and (observed is None or observed.model != declared.model):
        observed = complete(
            GpuIdentity(model=declared.model, memory_gb=declared.memory_gb, form_factor=declared.form_factor)
        )
    if observed is None:
        return None
    return msgspec.structs.replace(
        observed,
        memory_gb=observed.memory_gb if declared.memory_gb is None else declared.memory_gb,
        form_factor=declared.form_factor or observed.form_factor,
    )


def contradictions(pool: GpuPool, signals: PoolSignals | None) -> tuple[str, ...]:
    """Name the nodes whose labels contradict what the catalogue says of their GPU."""
    if signals is None:
        return ()
    by_text: dict[str, list[str]] = {}
    for node in signals.nodes:
        for field, said, seen in _pairs(pool, node.gpu):
            if said is not None and seen is not None and said != seen:
                by_text.setdefault(f"{field}={_spelled(said)} but labels say {_spelled(seen)}", []).append(
                    node.name
                )
        if pool.gpu.per_node is not None and node.capacity not in {0, pool.gpu.per_node}:
            text = f"per_node={pool.gpu.per_node} but the node has {node.capacity}"
            by_text.setdefault(text, []).append(node.name)
    return tuple(
        f"SignalContradictsCatalog: gpu.{text} on {few(names)}; the catalogue is believed"
        for text, names in sorted(by_text.items())
    )


def _spelled(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _pairs(
    pool: GpuPool, seen: GpuIdentity | None
) -> tuple[tuple[str, str | float | None, str | float | None], ...]:
    if seen is None:
        return ()
    said = pool.gpu
    return (
        ("model", said.model, seen.model),
        ("memory_gb", said.memory_gb, seen.memory_gb),
        ("form_factor", said.form_factor, seen.form_factor),
    )


def few(names: Sequence[str], most: int = 3) -> str:
    """Join names, the first few of many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def excluded_nodes(pools: Sequence[GpuPool], history: History) -> Mapping[str, frozenset[str]]:
    """Return the lost nodes by pool name: a node lost in one pool is lost for every pool of its cluster."""
    clusters = {pool.name: (pool.kubernetes_conn_id, pool.context) for pool in pools}
    lost: dict[tuple[str, str | None], set[str]] = {}
    for pool_name, nodes in history.lost_nodes.items():
        if pool_name in clusters:
            lost.setdefault(clusters[pool_name], set()).update(nodes)
    return {
        pool.name: frozenset(lost.get(clusters[pool.name], ()))
        | frozenset(history.lost_nodes.get(pool.name, ()))
        for pool in pools
    }
