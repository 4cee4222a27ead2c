"""Changes of a pool's nodes that make room for a request: opened, freed, or more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.engine.gpu_models import complete, may_satisfy
from airflow_gpu_placement.engine.matching import HGX_GPUS, SWITCHED_MODELS
from airflow_gpu_placement.engine.potential import best_sizes
from airflow_gpu_placement.engine.room import best_room
from airflow_gpu_placement.model.pool import GpuIdentity
from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView

Edits = list[tuple[tuple[str | int, ...], Any]]


def free_up(view: PoolView) -> Edits:
    """Open and free as few GPUs of the pool's nodes as the gang needs; claims go first."""
    if view.unseen:
        return [(("claims",), [])]
    size = view.question.gpus_per_node
    free = {node.name: 0 for node in view.allowed} | {node.name: gpus for node, gpus in view.open_nodes}
    best = best_sizes(view, view.matching)
    most = {node.name: gpus // size for node, gpus in zip(view.matching, best, strict=True)}
    inside = _largest_part(view)
    free = {name: gpus for name, gpus in free.items() if inside is None or name in inside}
    grown = 0 if view.question.together else view.new_nodes * view.places_on_new_node
    missing = view.question.pods - grown - sum(gpus // size for gpus in free.values())
    changed: set[str] = set()
    while missing > 0:
        options = [name for name, gpus in free.items() if gpus // size < most.get(name, 0)]
        if not options:
            return more_nodes(view)
        name = min(options, key=lambda name: (size - free[name] % size, name))
        free[name] = (free[name] // size + 1) * size
        changed.add(name)
        missing -= 1
    return _node_edits(view, {name: free[name] for name in changed}) or more_nodes(view)


def _largest_part(view: PoolView) -> frozenset[str] | None:
    if not view.question.together:
        return None
    sized = list(zip(view.matching, best_sizes(view, view.matching), strict=True))
    return best_room(view, sized, 0, {}).nodes


def _node_edits(view: PoolView, free: dict[str, int]) -> Edits:
    found: Edits = []
    for index, node in enumerate(view.signals.nodes if view.signals is not None else ()):
        if node.name not in free:
            continue
        path = ("signals", "nodes", index)
        (allocatable,) = best_sizes(view, (node,))
        gpus = max(free[node.name], node.free if node.unusable_because is None else 0)
        values: dict[str, Any] = {
            "unusable_because": None,
            "closed": False,
            "leaves_at": None,
            "capacity": max(node.capacity, allocatable),
            "allocatable": allocatable,
            "used": allocatable - gpus,
            "free": gpus,
            "spare": _spare_for(view, node, free[node.name]),
        }
        found += [((*path, key), value) for key, value in values.items() if getattr(node, key) != value]
    return found


def _spare_for(view: PoolView, node: NodeCapacity, gpus: int) -> dict[str, int]:
    """Return what a node has to spare when it has all that pods on so many GPUs need beside them."""
    pods = gpus // view.question.gpus_per_node
    needed = {resource: amount * pods for resource, amount in view.question.beside.items()}
    if SLOTS not in node.spare:
        del needed[SLOTS]
    return {**node.spare, **{one: max(node.spare.get(one, 0), least) for one, least in needed.items()}}


def more_nodes(view: PoolView) -> Edits:
    """Add nodes that hold the whole gang to those that were seen."""
    there = view.signals.nodes if view.signals is not None else ()
    nodes = _nodes_for(view)
    return [(("signals", "nodes"), _builtins((*there, *nodes))), *_switched(view, nodes)]


def _switched(view: PoolView, nodes: tuple[NodeCapacity, ...]) -> Edits:
    """Declare NVSwitch where the job needs it and the model of the new nodes does not tell of it."""
    gpu = nodes[0].gpu
    if view.request.interconnect != "nvswitch" or view.pool.gpu.interconnect is not None:
        return []
    if gpu is not None and gpu.model in SWITCHED_MODELS:
        return []
    return [(("pool", "gpu", "interconnect"), "nvswitch")]


def seen_again(view: PoolView) -> Edits:
    """Put readable signals in the place of missing ones: the nodes that the gang needs, all free."""
    now, nodes = view.question.now, _nodes_for(view)
    if view.signals is None:
        seen = PoolSignals(pool=view.pool.name, observed_at=now, source="counterfactual", nodes=nodes)
        return [(("signals",), msgspec.to_builtins(seen)), *_switched(view, nodes)]
    found: Edits = [
        (("signals", "gap"), None),
        (("signals", "nodes"), _builtins(nodes)),
        *_switched(view, nodes),
    ]
    if (view.age_seconds or 0.0) > view.pool.max_signal_age_seconds:
        found.append((("signals", "observed_at"), msgspec.to_builtins(now)))
    return found


def _builtins(nodes: tuple[NodeCapacity, ...]) -> list[Any]:
    return [msgspec.to_builtins(node) for node in nodes]


def _nodes_for(view: PoolView) -> tuple[NodeCapacity, ...]:
    request = view.request
    board = "HGX" in request.form_factors or request.interconnect == "nvswitch"
    like = view.matching[0] if view.matching and not view.untold else None
    gpu = _wanted_gpu(view) if like is None else like.gpu
    size = max(request.gpus_per_node, HGX_GPUS if board else 1, like.capacity if like is not None else 1)
    architecture = request.architecture if like is None else like.architecture
    taken = {node.name for node in view.nodes} | view.excluded
    names = (name for number in range(len(taken) + request.nodes) if (name := f"new-{number}") not in taken)
    return tuple(
        NodeCapacity(
            name=name,
            gpu=gpu,
            capacity=size,
            allocatable=size,
            free=size,
            zone=view.pool.place.zone or "zone",
            region=view.pool.place.region,
            fabric="fabric",
            spare={resource: amount * size for resource, amount in view.question.beside.items()},
            architecture=architecture,
            capacity_type=None if like is None else like.capacity_type,
        )
        for name, _ in zip(names, range(request.nodes), strict=False)
    )


def _wanted_gpu(view: PoolView) -> GpuIdentity:
    """Return a GPU that has what the request asks for, as far as the catalogue does not say otherwise."""
    request, declared = view.request, view.declared
    wanted = view.question.wanted
    possible = [one for one in wanted if declared is None or may_satisfy(declared, one)] or wanted
    gpu = complete(possible[0]) if possible else declared or GpuIdentity(model="GPU")
    if request.min_memory_gb is not None and (gpu.memory_gb or 0.0) < request.min_memory_gb:
        gpu = msgspec.structs.replace(gpu, memory_gb=request.min_memory_gb)
    if request.form_factors:
        asked = request.form_factors[0]
        return msgspec.structs.replace(gpu, form_factor="SXM" if asked == "HGX" else asked)
    if request.interconnect is not None:
        return msgspec.structs.replace(gpu, form_factor="SXM")
    return gpu
