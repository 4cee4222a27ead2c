"""Whole GPUs that a cluster offers through Dynamic Resource Allocation, by node.

A job of ours asks for an extended resource such as ``nvidia.com/gpu``. It can be given such devices only
where a DeviceClass carries that name, and only on nodes where no device plugin offers it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.engine.gpu_models import complete, read_driver_name
from airflow_gpu_placement.engine.quantity import whole
from airflow_gpu_placement.engine.taints import not_tolerated
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_gpu_placement.model.dra import (
        BasicDevice,
        Device,
        DeviceClass,
        DeviceTaintRule,
        DraObjects,
        ResourceClaim,
        ResourceSlice,
    )
    from airflow_gpu_placement.model.kube import Taint, Toleration

_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_WHOLE_TYPES = frozenset({"gpu", "amdgpu"})
_TERM = re.compile(
    r"""device\.(?:driver|attributes\[(?P<q>['"])(?P<domain>[^'"]+)(?P=q)\]\.(?P<name>\w+))"""
    r"""\s*==\s*(?:(?P<v>['"])(?P<text>[^'"]*)(?P=v)|(?P<bare>true|false|\d+))"""
)


class DraNode(msgspec.Struct, frozen=True, kw_only=True):
    """Whole GPUs that DRA offers on one node.

    :param devices: all of them.
    :param healthy: without those that are tainted.
    :param used: held by claims, as a whole or in part.
    :param free: could be given to a new job now.
    :param gpu: what the devices call themselves; ``None``: not a known model.
    """

    devices: int = 0
    healthy: int = 0
    used: int = 0
    free: int = 0
    gpu: GpuIdentity | None = None


class DraView(msgspec.Struct, frozen=True, kw_only=True):
    """What DRA offers under one extended resource.

    :param nodes: node name -> what it has.
    :param unknown_nodes: nodes with a pool of devices that cannot be read completely now.
    :param unmapped_nodes: nodes with GPUs that no DeviceClass offers under the resource.
    """

    nodes: dict[str, DraNode] = {}
    unknown_nodes: frozenset[str] = frozenset()
    unmapped_nodes: frozenset[str] = frozenset()


class _Key(NamedTuple):
    driver: str
    pool: str
    device: str


class _Found(NamedTuple):
    key: _Key
    node: str
    device: BasicDevice


def dra_view(objects: DraObjects, resource_name: str, tolerations: Sequence[Toleration] = ()) -> DraView:
    """Count the whole GPUs that a job can get through DRA by asking for an extended resource."""
    classes = [one for one in objects.classes if offers(one, resource_name)]
    taken = taken_devices(objects.claims)
    nodes: dict[str, DraNode] = {}
    unknown: set[str] = set()
    unmapped: set[str] = set()
    for slices in _pools(objects.slices):
        if not is_complete(slices):
            unknown |= _nodes_of(slices)
            continue
        by_node: dict[str, list[_Found]] = defaultdict(list)
        for found in _whole_gpus(slices):
            if any(selects(one, found.key.driver, found.device) for one in classes):
                by_node[found.node].append(found)
            else:
                unmapped.add(found.node)
        left = _counters_left(slices, taken)
        for node, members in by_node.items():
            counted = _count(members, taken, left, objects.taint_rules, tolerations)
            nodes[node] = _plus(nodes.get(node), counted)
    return DraView(
        nodes=nodes, unknown_nodes=frozenset(unknown), unmapped_nodes=frozenset(unmapped - set(nodes))
    )


def offers(device_class: DeviceClass, resource_name: str) -> bool:
    """Whether a class stands for an extended resource, by its own word or by its implicit name."""
    return resource_name in {
        device_class.spec.extended_resource_name,
        _IMPLICIT + device_class.metadata.name,
    }


def selects(device_class: DeviceClass, driver: str, device: BasicDevice) -> bool:
    """Whether a device meets every selector of a class.

    Only plain comparisons joined by ``&&`` are understood; a device under any other expression is not
    counted, since unknown is never free.
    """
    terms = [
        term.strip().strip("()").strip()
        for selector in device_class.spec.selectors
        for term in selector.cel.expression.split("&&")
    ]
    return all(_meets(term, driver, device) for term in terms)


def _meets(term: str, driver: str, device: BasicDevice) -> bool:
    match = _TERM.fullmatch(term)
    if match is None:
        return False
    wanted = match["text"] if match["text"] is not None else match["bare"]
    if match["name"] is None:
        return driver == wanted
    have = _attribute(device, driver, match["name"], match["domain"])
    return have is not None and (str(have).lower() if isinstance(have, bool) else str(have)) == wanted


def _attribute(
    device: BasicDevice, driver: str, name: str, domain: str | None = None
) -> str | int | bool | None:
    """Return an attribute; a name without a domain belongs to the driver's."""
    domain = domain or driver
    found = device.attributes.get(f"{domain}/{name}")
    if found is None and domain == driver:
        found = device.attributes.get(name)
    return None if found is None else found.value


def taken_devices(claims: Iterable[ResourceClaim]) -> frozenset[tuple[str, str, str]]:
    """Return the devices that any claim has, whether a pod uses the claim or not.

    Access for administration takes nothing; a share of a device leaves no whole one.
    """
    return frozenset(
        _Key(one.driver, one.pool, one.device)
        for claim in claims
        if claim.status.allocation is not None
        for one in claim.status.allocation.devices.results
        if not one.admin_access
    )


def _pools(slices: Iterable[ResourceSlice]) -> Iterator[list[ResourceSlice]]:
    """Yield the slices of each pool, those of its newest generation."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        pools[one.spec.driver, one.spec.pool.name].append(one)
    for members in pools.values():
        newest = max(one.spec.pool.generation for one in members)
        yield [one for one in members if one.spec.pool.generation == newest]


def is_complete(slices: Sequence[ResourceSlice]) -> bool:
    """Whether all slices of a generation of a pool are there; else nothing can be said of the pool."""
    return len(slices) == slices[0].spec.pool.resource_slice_count


def _nodes_of(slices: Iterable[ResourceSlice]) -> set[str]:
    names = {one.spec.node_name for one in slices}
    names |= {device.fields.node_name for one in slices for device in one.spec.devices}
    return {name for name in names if name}


def _whole_gpus(slices: Iterable[ResourceSlice]) -> Iterator[_Found]:
    """Yield the whole GPUs that sit in one node; devices that several nodes reach belong to none."""
    for one in slices:
        for device in one.spec.devices:
            node = one.spec.node_name or (
                device.fields.node_name if one.spec.per_device_node_selection else None
            )
            if node and _is_whole(one.spec.driver, device):
                yield _Found(_Key(one.spec.driver, one.spec.pool.name, device.name), node, device.fields)


def _is_whole(driver: str, device: Device) -> bool:
    type_ = _attribute(device.fields, driver, "type")
    if type_ is None:
        return "gpu" in driver and not device.fields.consumes_counters
    return type_ in _WHOLE_TYPES


def _counters_left(
    slices: Iterable[ResourceSlice], taken: frozenset[tuple[str, str, str]]
) -> dict[tuple[str, str], int]:
    """Return what is left of the shared counters after the devices that are taken."""
    left: dict[tuple[str, str], int] = {}
    members = list(slices)
    for one in members:
        for counters in one.spec.shared_counters:
            for name, amount in counters.counters.items():
                left[counters.name, name] = whole(amount.value)
    for one in members:
        for device in one.spec.devices:
            if _Key(one.spec.driver, one.spec.pool.name, device.name) in taken:
                _draw(left, device.fields)
    return left


def _draw(left: dict[tuple[str, str], int], device: BasicDevice) -> None:
    for use in device.consumes_counters:
        for name, amount in use.counters.items():
            key = (use.counter_set, name)
            left[key] = left.get(key, 0) - whole(amount.value, round_up=True)


def _has_counters(left: Mapping[tuple[str, str], int], device: BasicDevice) -> bool:
    return all(
        left.get((use.counter_set, name), 0) >= whole(amount.value, round_up=True)
        for use in device.consumes_counters
        for name, amount in use.counters.items()
    )


def _count(
    members: Sequence[_Found],
    taken: frozenset[tuple[str, str, str]],
    left: dict[tuple[str, str], int],
    rules: Sequence[DeviceTaintRule],
    tolerations: Sequence[Toleration],
) -> DraNode:
    healthy = used = free = 0
    for found in members:
        tainted = not_tolerated(_taints(found, rules), tolerations)
        healthy += not tainted
        if found.key in taken:
            used += 1
        elif not _has_counters(left, found.device):
            used += 1  # a slice of this card is taken
        elif not tainted:
            free += 1
            _draw(left, found.device)
    return DraNode(devices=len(members), healthy=healthy, used=used, free=free, gpu=_identity(members))


def _taints(found: _Found, rules: Sequence[DeviceTaintRule]) -> list[Taint]:
    added = []
    for rule in rules:
        chosen = rule.spec.device_selector
        if chosen is None:
            continue  # a rule without a selector is for devices named elsewhere
        wanted = (chosen.driver, chosen.pool, chosen.device)
        if all(want is None or want == have for want, have in zip(wanted, found.key, strict=True)):
            added.append(rule.spec.taint)
    return [*found.device.taints, *added]


def _identity(members: Sequence[_Found]) -> GpuIdentity | None:
    for found in members:
        name = _attribute(found.device, found.key.driver, "productName")
        identity = read_driver_name(str(name)) if name is not None else None
        if identity is not None:
            return complete(identity)
    return None


def _plus(one: DraNode | None, other: DraNode) -> DraNode:
    if one is None:
        return other
    return DraNode(
        devices=one.devices + other.devices,
        healthy=one.healthy + other.healthy,
        used=one.used + other.used,
        free=one.free + other.free,
        gpu=one.gpu or other.gpu,
    )
