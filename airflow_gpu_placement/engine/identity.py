"""What a pool's GPUs count as: the catalogue's word over what the nodes say, and where the two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.bought import counts_as
from airflow_gpu_placement.engine.gpu_models import complete
from airflow_gpu_placement.model.pool import CapacityType, GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity

_MOST_NAMES = 3

_Told = tuple[GpuIdentity | None, str | None, int, CapacityType | None, str | None]
"""What a node says of itself that the catalogue may say otherwise."""


def effective_gpu(pool: GpuPool, observed: GpuIdentity | None) -> GpuIdentity | None:
    """Lay the catalogue's word over what the labels say.

    :return: ``None``: neither says a model.
    """
    declared = pool.gpu
    if declared.model is not None and (observed is None or observed.model != declared.model):
        observed = complete(
            GpuIdentity(model=declared.model, memory_gb=declared.memory_gb, form_factor=declared.form_factor)
        )
    if observed is None or (declared.memory_gb is None and declared.form_factor is None):
        return observed
    return msgspec.structs.replace(
        observed,
        memory_gb=observed.memory_gb if declared.memory_gb is None else declared.memory_gb,
        form_factor=declared.form_factor or observed.form_factor,
    )


def are_alike(nodes: Sequence[NodeCapacity]) -> bool:
    """Whether all nodes say the same of themselves, as they mostly do: then the first one tells all."""
    told = _told_by(nodes)
    return not told or told.count(told[0]) == len(told)


def contradictions(pool: GpuPool, nodes: Sequence[NodeCapacity], *, alike: bool) -> tuple[str, ...]:
    """Name the nodes whose labels contradict what the catalogue says of them, and which of both counts.

    :param alike: all of them say the same.
    """
    if not nodes or (alike and not _differences(pool, nodes[0])):
        return ()
    by_text: dict[tuple[str, str], list[str]] = {}
    found: dict[_Told, list[tuple[str, str]]] = {}
    for node, facts in zip(nodes, _told_by(nodes), strict=True):
        if facts not in found:
            found[facts] = _differences(pool, node)
        for text in found[facts]:
            by_text.setdefault(text, []).append(node.name)
    return tuple(
        f"SignalContradictsCatalog: {what} on {_few(names)}; the {counts} believed"
        for (what, counts), names in sorted(by_text.items())
    )


def _told_by(nodes: Sequence[NodeCapacity]) -> list[_Told]:
    return [(node.gpu, node.architecture, node.capacity, node.capacity_type, node.region) for node in nodes]


def _differences(pool: GpuPool, node: NodeCapacity) -> list[tuple[str, str]]:
    """Say what differs, and which of both is believed."""
    said, seen = pool.gpu, node.gpu
    pairs: list[tuple[str, str | float | None, str | float | None]] = [
        ("architecture", pool.architecture, node.architecture),
        ("region", pool.place.region, node.region),
        ("capacity_type", pool.capacity_type, node.capacity_type),
    ]
    if seen is not None:
        pairs += [
            ("gpu.model", said.model, seen.model),
            ("gpu.memory_gb", said.memory_gb, seen.memory_gb),
            ("gpu.form_factor", said.form_factor, seen.form_factor),
        ]
    overruled = None if counts_as(pool, node.capacity_type) is pool.capacity_type else "capacity_type"
    found = [
        (
            f"{field}={_spelled(catalogue)} but labels say {_spelled(label)}",
            "labels are" if field == overruled else "catalogue is",
        )
        for field, catalogue, label in pairs
        if catalogue is not None and label is not None and catalogue != label
    ]
    if said.per_node is not None and node.capacity not in {0, said.per_node}:
        found.append((f"gpu.per_node={said.per_node} but the node has {node.capacity}", "catalogue is"))
    return found


def _spelled(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
