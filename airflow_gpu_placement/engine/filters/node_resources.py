"""Beside the free GPUs is what else a pod needs of its node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.beside import name_of, pods_beside, words
from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose free GPUs would do, where other pods hold the pod slots, the CPU or the memory."""
    if view.shortage is not ReasonCode.NODE_RESOURCES_TAKEN:
        return None
    size, beside = view.question.gpus_per_node, view.question.beside
    asked = {resource: amount for resource, amount in beside.items() if resource != SLOTS} or beside
    with_gpus = [node for node, _ in view.open_nodes if node.free >= size]
    enough = sum(gpus >= size for _, gpus in view.open_nodes)
    short = ", ".join(f"{name_of(one)} on {nodes}" for one, nodes in too_little(view).most_common())
    needed = f"{words(asked)} beside {size} GPU{'s' if size > 1 else ''}"
    return Reason(
        code=ReasonCode.NODE_RESOURCES_TAKEN,
        needed=needed,
        observed=f"{enough} of {len(with_gpus)} nodes",
        message=(
            f"a pod of the job needs {needed}; {enough} of {len(with_gpus)} nodes of pool {view.pool.name} "
            f"with {size} free GPUs have that, room for {view.room.grown} of {view.question.pods} pods "
            f"(too little: {short})"
        ),
    )


def too_little(view: PoolView) -> Counter[str]:
    """Return what keeps pods of the job from free GPUs, and on how many nodes.

    A node that the pool would add counts as one, whose size is that of the largest which was seen.
    """
    question, size = view.question, view.question.gpus_per_node
    places = [(node.free // size, node.spare) for node, _ in view.open_nodes]
    if view.new_nodes and view.signals is not None and view.signals.largest:
        places.append((view.pods_per_new_node, view.signals.largest))
    found: Counter[str] = Counter()
    for pods, spare in places:
        for resource, amount in question.beside.items():
            if pods > pods_beside({resource: amount}, spare, pods):
                found[resource] += 1
    return found
