"""One kind of node: labels, taints and capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU = "nvidia.com/gpu"
WHOLE_GPUS: Mapping[str, int] = MappingProxyType({GPU: 1})


@dataclass(frozen=True)
class NodeProfile:
    """One kind of node.

    :param labels: values may hold {node_name}, {gpus}, {zone}, {region}, and {devices[0]} for the number of
        devices of the first resource.
    :param capacity: everything but its GPUs.
    :param gpu_model: the product's name of its GPU, with memory and form factor where the model leaves them
        open.
    :param gpus: cards.
    :param devices: resource -> devices that one card is offered as: one, or several slices or shares.
    """

    name: str
    description: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    gpu_model: str | None = None
    taints: tuple[Mapping[str, str], ...] = ()
    provider_id_template: str = ""
    zone: str = "lab-a"
    region: str = "lab"
    gpus: int = 0
    devices: Mapping[str, int] = field(default_factory=lambda: WHOLE_GPUS)


def sizes(cpu: int, memory_gib: int) -> dict[str, str]:
    """Return the capacity that every node has."""
    return {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "ephemeral-storage": "1000Gi", "pods": "110"}


def taint(key: str, value: str, effect: str = "NoSchedule") -> dict[str, str]:
    """Return a taint."""
    return {"key": key, "value": value, "effect": effect}
