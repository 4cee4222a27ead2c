"""The few fields of Dynamic Resource Allocation objects that counting devices needs, as typed subsets.

One set of structs reads ``resource.k8s.io`` ``v1``, ``v1beta2`` and ``v1beta1``, which nests a device's
fields under ``basic``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_gpu_placement.model.kube import ObjectMeta, Quantity, Struct, Taint

Selector = dict[str, Any]
"""A node selector as the API sends it; only whether there is one matters."""


class Attribute(Struct, frozen=True):
    """A typed value; exactly one is set."""

    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None

    @property
    def value(self) -> str | int | bool | None:
        """The value that is set."""
        return next(
            (one for one in (self.string, self.int_, self.bool_, self.version) if one is not None), None
        )


class Amount(Struct, frozen=True):
    """A quantity of a device's capacity or of a counter."""

    value: Quantity = 0


class CounterUse(Struct, frozen=True):
    """What a device takes from a set of shared counters."""

    counter_set: str = ""
    counters: dict[str, Amount] = msgspec.field(default_factory=dict)


class CounterSet(Struct, frozen=True):
    """Counters that alternative devices, such as a card and its slices, draw on."""

    name: str = ""
    counters: dict[str, Amount] = msgspec.field(default_factory=dict)


class BasicDevice(Struct, frozen=True):
    """What ``v1beta1`` nests."""

    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, Amount] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[CounterUse, ...] = ()
    taints: tuple[Taint, ...] = ()
    node_name: str | None = None


class Device(BasicDevice, frozen=True):
    """One device of a slice."""

    name: str = ""
    basic: BasicDevice | None = None

    @property
    def fields(self) -> BasicDevice:
        """Its fields, wherever the version of the API puts them."""
        return self if self.basic is None else self.basic


class ResourcePool(Struct, frozen=True):
    """The pool of devices that a slice is a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Struct, frozen=True):
    """``spec`` of a ResourceSlice; where its devices are is one of four fields."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: Selector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct, frozen=True):
    """Devices that a driver offers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class AllocatedDevice(Struct, frozen=True):
    """A device, or a part of one, that a claim has."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class DeviceResults(Struct, frozen=True):
    """Devices of an allocation."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(Struct, frozen=True):
    """What a claim was given."""

    devices: DeviceResults = DeviceResults()


class ResourceClaimStatus(Struct, frozen=True):
    """``status`` of a ResourceClaim."""

    allocation: Allocation | None = None


class ResourceClaim(Struct, frozen=True):
    """Somebody's claim on devices."""

    metadata: ObjectMeta = ObjectMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()


class CelSelector(Struct, frozen=True):
    """An expression that a device must meet."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """One selector of a class."""

    cel: CelSelector = CelSelector()


class DeviceClassSpec(Struct, frozen=True):
    """``spec`` of a DeviceClass."""

    selectors: tuple[DeviceSelector, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """A kind of device that can be asked for, perhaps under the name of an extended resource."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """Devices that an administrator taints; what is ``None`` matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """``spec`` of a DeviceTaintRule."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = Taint()


class DeviceTaintRule(Struct, frozen=True):
    """A taint that an administrator puts on devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class DraObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a cluster's Dynamic Resource Allocation at one moment."""

    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
