"""What a pool's GPUs count as: the catalogue's word over what the nodes say, and where the two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.gpu_models import complete
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals

_MOST_NAMES = 3


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


def contradictions(pool: GpuPool, signals: PoolSignals | None) -> tuple[str, ...]:
    """Name the nodes whose labels contradict what the catalogue says of them."""
    said = pool.gpu
    if signals is None or (
        said.model is None
        and said.memory_gb is None
        and said.form_factor is None
        and said.per_node is None
        and pool.architecture is None
    ):
        return ()
    by_text: dict[str, list[str]] = {}
    for node in signals.nodes:
        for text in _differences(pool, node):
            by_text.setdefault(text, []).append(node.name)
    return tuple(
        f"SignalContradictsCatalog: {text} on {_few(names)}; the catalogue is believed"
        for text, names in sorted(by_text.items())
    )


def _differences(pool: GpuPool, node: NodeCapacity) -> list[str]:
    said, seen = pool.gpu, node.gpu
    pairs: list[tuple[str, str | float | None, str | float | None]] = [
        ("architecture", pool.architecture, node.architecture)
    ]
    if seen is not None:
        pairs += [
            ("gpu.model", said.model, seen.model),
            ("gpu.memory_gb", said.memory_gb, seen.memory_gb),
            ("gpu.form_factor", said.form_factor, seen.form_factor),
        ]
    found = [
        f"{field}={_spelled(catalogue)} but labels say {_spelled(label)}"
        for field, catalogue, label in pairs
        if catalogue is not None and label is not None and catalogue != label
    ]
    if said.per_node is not None and node.capacity not in {0, said.per_node}:
        found.append(f"gpu.per_node={said.per_node} but the node has {node.capacity}")
    return found


def _spelled(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
