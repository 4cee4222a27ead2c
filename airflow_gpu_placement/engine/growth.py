"""Nodes that a pool adds to itself: how many of them are for the job, and what it can use of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.beside import pods_beside
from airflow_gpu_placement.engine.matching import could_match

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.engine.view import PoolView


def nodes_to_come(view: PoolView) -> int:
    """Return the nodes that a pool can still add to itself and that the job can use."""
    most = most_to_come(view)
    return most if most and new_nodes_match(view) else 0


def most_to_come(view: PoolView) -> int:
    """Return the nodes of whatever kind that a pool can still add to itself."""
    if view.pool.growth.max_nodes is None or not view.known:
        return 0
    return max(view.pool.growth.max_nodes - len(view.nodes), 0)


def new_nodes_match(view: PoolView) -> bool:
    """Whether a node that the pool would add has all that is asked for.

    It may be like any that was seen, as far as the catalogue does not tell; one that does not tell yet what
    it is says nothing of it.
    """
    if view.all_match:
        return True
    per_node = view.pool.gpu.per_node
    kinds = {kind if per_node is None else kind._replace(gpus=per_node) for kind in view.kinds}
    return all([could_match(view.question, view.pool, kind) for kind in kinds])


def nodes_for_others(view: PoolView) -> int:
    """Return how many of them, the first ones, are for pods that wait already."""
    if view.signals is None or not view.signals.waiting:
        return 0
    return _nodes_for(view.signals.waiting, view.per_node or 0, nodes_to_come(view))


def gpus_of_new_node(view: PoolView) -> int:
    """Return the GPUs of such a node that the job can use, beside which it has what else the job needs."""
    there = view.per_node or 0
    if view.signals is None or not view.signals.largest:
        return there  # no node was seen: only the catalogue tells what one has
    pods = pods_beside(view.question.beside, view.signals.largest, view.pods_per_new_node)
    return there if pods == view.pods_per_new_node else pods * view.question.gpus_per_node


def _nodes_for(waiting: Mapping[int, int], per_node: int, most: int) -> int:
    """Return how many nodes pods fill, the large ones first; a pod that fits none of them counts for nothing.

    :param waiting: GPUs a pod -> pods.
    """
    gaps: Counter[int] = Counter()  # GPUs free on a filled node -> such nodes
    nodes = 0
    for size in sorted((size for size in waiting if 0 < size <= per_node), reverse=True):
        left = waiting[size]
        for gap in sorted(gap for gap in gaps if gap >= size):
            each = gap // size
            filled, rest = divmod(min(left, gaps[gap] * each), each)
            left -= filled * each + rest
            gaps[gap] -= filled + (rest > 0)
            gaps[gap % size] += filled
            if rest:
                gaps[gap - rest * size] += 1
        each = per_node // size
        filled, rest = divmod(left, each)
        nodes += filled + (rest > 0)
        gaps[per_node % size] += filled
        if rest:
            gaps[per_node - rest * size] += 1
    return min(nodes, most)
