"""What a pool could hold once its nodes are back, told and in order: how "never" is kept from "not now".

A node whose device plugin restarts offers nothing, a fresh one has no labels yet, and one that is repaired is
not there at all. As unknown is never free, so is unknown never a no: such a node counts as what it had, or
else as enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.engine.matching import could_match
from airflow_gpu_placement.engine.room import best_room
from airflow_gpu_placement.model.signals import NodeCapacity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.engine.nodes_view import NodesView
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.pool import GpuIdentity, GpuPool

_GONE = "gone"


def largest_by_gpu(pool: GpuPool, nodes: Sequence[NodeCapacity]) -> dict[GpuIdentity | None, int]:
    """Return the most GPUs that a node with each kind of them has."""
    found: dict[GpuIdentity | None, int] = {}
    for gpu, capacity in {(node.gpu, node.capacity) for node in nodes}:
        kind = effective_gpu(pool, gpu)
        found[kind] = max(found.get(kind, 0), capacity)
    return found


def usual_gpus(pool: GpuPool, gpu: GpuIdentity | None, largest: Mapping[GpuIdentity | None, int]) -> int:
    """Return the GPUs of a node that shows none: the catalogue's word, else those of the largest one like it.

    0: nothing tells.
    """
    return pool.gpu.per_node or (0 if gpu is None else largest.get(gpu, 0))


def best_sizes(view: NodesView, nodes: Sequence[NodeCapacity]) -> list[int]:
    """Return the GPUs that each node can have free at best.

    Devices that were withdrawn do not come back by waiting, so allocatable counts. Nothing allocatable at
    all is how a node looks while its device plugin restarts, so there capacity counts; no capacity either is
    how it looks when that takes longer.
    """
    found = [node.allocatable or (node.capacity if node.whole else 0) for node in nodes]
    if 0 not in found:
        return found
    return [size or _presumed(view, node) for size, node in zip(found, nodes, strict=True)]


def _presumed(view: NodesView, node: NodeCapacity) -> int:
    if not node.whole:
        return 0
    gpu = effective_gpu(view.pool, node.gpu)
    return usual_gpus(view.pool, gpu, view.largest_by_gpu) or view.question.total_gpus


def possible_nodes(view: NodesView) -> tuple[NodeCapacity, ...]:
    """Return the nodes that may hold pods of the job once all is in order.

    Beside those that match: those of which it is not told yet whether they do, and those that the job was
    lost on and that are gone, for the cloud to bring back.
    """
    seen = view.matching
    if not view.all_match:
        kinds = set(view.matching_kinds)
        hopeful = {
            kind for kind in view.kinds if kind in kinds or could_match(view.question, view.pool, kind)
        }
        seen = tuple(
            [node for node, kind in zip(view.nodes, view.node_kinds, strict=True) if kind in hopeful]
        )
    return (*seen, *gone_nodes(view)) if view.excluded else seen


def gone_nodes(view: NodesView) -> tuple[NodeCapacity, ...]:
    """Return the nodes that this task has lost in this pool and that are not there any more."""
    here = view.question.history.lost_nodes.get(view.pool.name, ())
    there = {node.name for node in view.nodes}
    return tuple(
        NodeCapacity(name=name, gpu=view.declared, capacity=view.per_node or 0, unusable_because=_GONE)
        for name in here
        if name in view.excluded and name not in there
    )


def pods_ever(view: PoolView, nodes: Sequence[NodeCapacity]) -> int:
    """Return how many pods these nodes could hold if they were empty and in order, with growth."""
    gpus_per_node = view.question.gpus_per_node
    sizes = view.possible_sizes if nodes is view.possible else best_sizes(view, nodes)
    now = sum([size // gpus_per_node for size in sizes])
    if view.pool.growth.max_nodes is None:
        return now
    return max(now, view.pool.growth.max_nodes * view.pods_per_new_node)


def together_ever(view: PoolView, nodes: Sequence[NodeCapacity]) -> int:
    """Return the same for one zone or fabric when the gang must stay inside one.

    A node that is gone, or that does not tell its place while others do, may turn out to be in any.
    """
    if not view.question.together:
        return pods_ever(view, nodes)
    new = max((view.pool.growth.max_nodes or 0) - len(view.nodes), 0)
    sizes = view.possible_sizes if nodes is view.possible else best_sizes(view, nodes)
    placed: list[tuple[NodeCapacity, int]] = []
    anywhere = 0
    for node, size in zip(nodes, sizes, strict=True):
        if _may_be_anywhere(view, node):
            anywhere += size // view.question.gpus_per_node
        else:
            placed.append((node, size))
    return best_room(view, placed, new, {}, view.per_node).grown + anywhere


def _may_be_anywhere(view: NodesView, node: NodeCapacity) -> bool:
    network, default = view.request.network, view.pool.place.zone
    tells_zone = not network.same_zone or bool(node.zone or default)
    tells_fabric = not network.same_fabric or bool(node.fabric)
    if tells_zone and tells_fabric:
        return False
    if node.unusable_because == _GONE:
        return True
    others_tell_zone = tells_zone or any([one.zone for one in view.nodes])
    return others_tell_zone and (tells_fabric or any([one.fabric for one in view.nodes]))


def untold_nodes(view: NodesView) -> tuple[NodeCapacity, ...]:
    """Return the nodes that may turn out to have all that is asked for, in a pool where no node is known to.

    Of each of them either the labels or the devices do not tell yet.
    """
    if not view.nodes or view.has_a_match:
        return ()
    hopeful = {kind for kind in view.kinds if could_match(view.question, view.pool, kind)}
    return tuple(
        [
            node
            for node, kind in zip(view.nodes, view.node_kinds, strict=True)
            if kind in hopeful and node.whole
        ]
    )
