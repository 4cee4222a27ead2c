"""What the devices behind a node's GPU resource are: whole GPUs, shares of them, or slices of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.gpu import identify, sharing_of, slice_profile
from airflow_gpu_placement.engine.quantity import is_quantity, whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow_gpu_placement.model.kube import Node, Quantity
    from airflow_gpu_placement.model.pool import GpuPool

_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(\d+)g\.(\d+)gb(.*)")
_AMD_PARTITION = re.compile(r"amd\.com/((?:[dqc]px|tpx)_nps\d+)")
_GPU_RESOURCE = re.compile(r"nvidia\.com/gpu|amd\.com/(?:gpu|spx_nps\d+)")
_USUAL_RESOURCE = "nvidia.com/gpu"
_PROFILE = re.compile(r"(\d+)g\..*")
_VGPU_ANNOTATION = "hami.io/node-nvidia-register"
_SHARED_SUFFIX = ".shared"
_UNITS_PER_CARD = 7
_UNITS_OF_MODEL = {"A30": 4}


class DeviceKind(StrEnum):
    """What one device of a node is."""

    WHOLE = "whole"
    SHARED = "shared"
    MIG = "mig"


class NodeDevices(msgspec.Struct, frozen=True, kw_only=True):
    """The GPU devices of one node.

    :param capacity: whole GPUs that it has; 0 when its devices are not whole.
    :param allocatable: whole GPUs that pods may use.
    :param shares: shares of GPUs that pods may use.
    :param shares_resource: what a pod asks for to get a share; ``None``: there are none.
    :param slices: profile (``1g.10gb``, ``cpx_nps4``) -> slices that pods may use.
    :param slice_resources: profile -> what a pod asks for to get one, as the node offers it.
    :param physical: cards in the machine as far as anything tells; ``None``: nothing does.
    :param why_not: why its devices are not whole GPUs; ``None``: they are, or there are none.
    :param offered_twice: the same cards are offered whole and in slices, so neither count is to be trusted.
    :param unreadable: what the node says of its devices that cannot be read.
    """

    capacity: int = 0
    allocatable: int = 0
    shares: int = 0
    shares_resource: str | None = None
    slices: dict[str, int] = {}
    slice_resources: dict[str, str] = {}
    physical: int | None = None
    why_not: str | None = None
    offered_twice: bool = False
    unreadable: str | None = None

    @property
    def kind(self) -> DeviceKind:
        """What most of its devices are."""
        if self.shares:
            return DeviceKind.SHARED
        return DeviceKind.MIG if self.slices and not self.allocatable else DeviceKind.WHOLE

    @property
    def slice_units(self) -> int:
        """Parts of cards that its slices take: a ``3g`` slice takes three."""
        return sum(_units_of(profile) * count for profile, count in self.slices.items())


def devices_of(node: Node, resource_name: str) -> NodeDevices:
    """Tell what a node offers; allocatable is believed, labels only explain it."""
    offered, allowed = node.status.capacity, node.status.allocatable
    allocatable = max(0, whole(allowed.get(resource_name, 0)))
    # What pods may use is there, also where a report of the node leaves its capacity out.
    capacity = max(0, whole(offered.get(resource_name, allocatable)))
    slices, resources = _slices(allowed)
    found = NodeDevices(
        capacity=capacity,
        allocatable=allocatable,
        slices=slices,
        slice_resources=resources,
        physical=_cards(node),
        unreadable=_unreadable(node, resource_name),
    )
    renamed = whole(allowed.get(resource_name + _SHARED_SUFFIX, 0))
    if renamed:
        text = f"sharing: {renamed} shares, offered as {resource_name}{_SHARED_SUFFIX}"
        return _shared(found, renamed, resource_name + _SHARED_SUFFIX, text)
    if slices and allocatable == 0:
        some = "no GPU of it is offered whole, MIG slices are"
        cut = some if capacity else "all its GPUs are cut into MIG slices"
        return msgspec.structs.replace(found, why_not=cut)
    if capacity == 0:
        return found
    return _of_resource(node, found, resource_name)


def gpu_resource_of(nodes: Iterable[Node]) -> str:
    """Return the resource under which most of these nodes have GPUs; the usual one where none has any."""
    found = Counter(
        name
        for node in nodes
        for name, quantity in node.status.capacity.items()
        if _GPU_RESOURCE.fullmatch(name) and whole(quantity) > 0
    )
    return max(found, key=lambda name: (found[name], name), default=_USUAL_RESOURCE)


def with_resource_of(pool: GpuPool, members: Collection[Node]) -> GpuPool:
    """Return the pool with the resource that its nodes have, where the catalogue leaves it at the usual one.

    :param members: the pool's nodes.
    """
    usual = pool.gpu.resource_name
    if usual != _USUAL_RESOURCE or any(whole(node.status.capacity.get(usual, 0)) > 0 for node in members):
        return pool
    return with_resource(pool, gpu_resource_of(members))


def with_resource(pool: GpuPool, resource_name: str) -> GpuPool:
    """Return the pool with another resource that its jobs ask for."""
    if resource_name == pool.gpu.resource_name:
        return pool
    return msgspec.structs.replace(pool, gpu=msgspec.structs.replace(pool.gpu, resource_name=resource_name))


def _of_resource(node: Node, found: NodeDevices, resource_name: str) -> NodeDevices:
    """Tell what the devices under the resource itself are."""
    labels = node.metadata.labels
    if _VGPU_ANNOTATION in node.metadata.annotations:
        text = f"shared by a vGPU plugin ({_VGPU_ANNOTATION})"
        return _shared(found, found.allocatable, resource_name, text)
    profile = slice_profile(labels)
    if profile is not None:
        return msgspec.structs.replace(
            found,
            capacity=0,
            allocatable=0,
            slices={profile: found.allocatable} if found.allocatable else {},
            slice_resources={profile: resource_name} if found.allocatable else {},
            physical=None,
            why_not=sharing_of(labels, found.capacity),
        )
    sharing = sharing_of(labels, found.capacity)
    if sharing is not None:
        return _shared(found, found.allocatable, resource_name, sharing)
    twice = _twice(node, found, resource_name)
    if twice is not None:
        return msgspec.structs.replace(found, capacity=0, allocatable=0, why_not=twice, offered_twice=True)
    return found if found.physical is not None else msgspec.structs.replace(found, physical=found.capacity)


def _shared(found: NodeDevices, shares: int, resource_name: str, why: str) -> NodeDevices:
    return msgspec.structs.replace(
        found, capacity=0, allocatable=0, shares=shares, shares_resource=resource_name, why_not=why
    )


def units_per_card(labels: Mapping[str, str]) -> int:
    """Return into how many parts a card of the node can be cut."""
    gpu = identify(labels)
    return _UNITS_PER_CARD if gpu is None else _UNITS_OF_MODEL.get(gpu.model, _UNITS_PER_CARD)


def _twice(node: Node, found: NodeDevices, resource_name: str) -> str | None:
    """Say when the same cards are offered as whole GPUs and as slices."""
    cards = _label_count(node)
    if cards is None or not found.slices:
        return None
    in_slices = -(-found.slice_units // units_per_card(node.metadata.labels))
    if not in_slices or found.capacity + in_slices <= cards:
        return None
    return (
        f"offers {found.capacity} {resource_name} and MIG slices of at least {in_slices} cards, "
        f"but has {cards}: the same cards twice"
    )


def _slices(allowed: Mapping[str, Quantity]) -> tuple[dict[str, int], dict[str, str]]:
    slices: dict[str, int] = {}
    resources: dict[str, str] = {}
    for name in sorted(allowed):
        match = _MIG_RESOURCE.fullmatch(name)
        partition = _AMD_PARTITION.fullmatch(name)
        count = whole(allowed[name])
        if count <= 0 or (match is None and partition is None):
            continue
        profile = partition[1] if partition is not None else name.removeprefix("nvidia.com/mig-")
        slices[profile] = count
        resources[profile] = name
    return slices, resources


def _units_of(profile: str) -> int:
    match = _PROFILE.fullmatch(profile)
    return 0 if match is None else int(match[1])


def _label_count(node: Node) -> int | None:
    for key in ("nvidia.com/gpu.count", "cloud.google.com/gke-accelerator-count", "gpu.nvidia.com/count"):
        text = node.metadata.labels.get(key, "").strip()
        if text.isascii() and text.isdecimal() and int(text) > 0:
            return int(text)
    return None


def _cards(node: Node) -> int | None:
    """Return the cards in the machine, from a vGPU plugin's list or from labels."""
    listed = node.metadata.annotations.get(_VGPU_ANNOTATION)
    return _label_count(node) if listed is None else _listed_cards(listed)


def _listed_cards(text: str) -> int | None:
    """Count the cards of a vGPU plugin's list: JSON, or entries that each end with a colon."""
    if text.lstrip().startswith("["):
        try:
            cards = json.loads(text)
        except ValueError:
            return None
        return len(cards) or None
    return sum(1 for entry in text.split(":") if entry.strip()) or None


def _unreadable(node: Node, resource_name: str) -> str | None:
    for field, amounts in (("capacity", node.status.capacity), ("allocatable", node.status.allocatable)):
        quantity = amounts.get(resource_name, 0)
        if not is_quantity(quantity) or whole(quantity) < 0:
            return f"its {field} of {resource_name} is {quantity!r}, which is no number of devices"
    return None
