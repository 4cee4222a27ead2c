"""GPU models that the catalogue adds to the table: nodes, pools and requests are read through them.

A node whose product is not in the table has a model of its own under its plain spelling. Here such a spelling
is looked up among the names and aliases that the platform team wrote, and nowhere else: a model of the table
is never replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.gpu_models import normalised, read_model
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.gpu_model import GpuModel
    from airflow_gpu_placement.model.request import GpuRequest
    from airflow_gpu_placement.model.signals import Snapshot

_SAME_CLASS = 0.1
"""A driver reports up to this part less than the marketed memory."""


def by_spelling(own: Sequence[GpuModel]) -> dict[str, GpuModel]:
    """Index models by the plain spelling of their names and aliases."""
    return {normalised(text): model for model in own for text in (model.name, *model.aliases)}


def read_own(text: str, own: Mapping[str, GpuModel]) -> GpuIdentity | None:
    """Read a model name: first the table, then the catalogue's own; ``None``: neither knows it."""
    known = read_model(text)
    if known is not None:
        return known
    model = own.get(normalised(text))
    if model is None:
        return None
    return GpuIdentity(model=model.name, memory_gb=model.memory_gb, form_factor=model.form_factor)


def recognise(gpu: GpuIdentity, own: Mapping[str, GpuModel]) -> GpuIdentity:
    """Give a GPU that a node reports the name and the properties that the catalogue has for it."""
    model = own.get(gpu.model)
    if model is None:
        return gpu
    measured = gpu.memory_gb
    of_its_class = measured is None or abs(model.memory_gb - measured) <= _SAME_CLASS * model.memory_gb
    return msgspec.structs.replace(
        gpu,
        model=model.name,
        memory_gb=model.memory_gb if of_its_class else measured,
        form_factor=gpu.form_factor or model.form_factor,
    )


def recognise_all(snapshot: Snapshot, own: Sequence[GpuModel]) -> Snapshot:
    """Recognise the GPUs of every node of a snapshot."""
    if not own:
        return snapshot
    spelled = by_spelling(own)
    pools = {}
    for name, signals in snapshot.pools.items():
        nodes = tuple(
            node if node.gpu is None else msgspec.structs.replace(node, gpu=recognise(node.gpu, spelled))
            for node in signals.nodes
        )
        pools[name] = msgspec.structs.replace(signals, nodes=nodes)
    return msgspec.structs.replace(snapshot, pools=pools)


def with_canonical_models(request: GpuRequest, own: Sequence[GpuModel]) -> GpuRequest:
    """Replace aliases of the catalogue's own models in a request by their names."""
    spelled = by_spelling(own)

    def canonical(text: str) -> str:
        model = None if read_model(text) else spelled.get(normalised(text))
        return text if model is None else model.name

    if not own:
        return request
    hours = request.time.runtime_hours_by_model
    time = request.time.model_copy(
        update={"runtime_hours_by_model": {canonical(name): value for name, value in hours.items()}}
    )
    return request.model_copy(
        update={"models": tuple(canonical(name) for name in request.models), "time": time}
    )
