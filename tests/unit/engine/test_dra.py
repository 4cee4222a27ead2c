"""Whole GPUs that are offered through Dynamic Resource Allocation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.dra import DraNode, dra_view
from airflow_gpu_placement.model.dra import DeviceClass, DeviceTaintRule, DraObjects, ResourceSlice
from airflow_gpu_placement.model.kube import Toleration
from tests.unit.engine.dra_objects import (
    DRIVER,
    RESOURCE,
    WHOLE_GPUS,
    bare,
    capacities,
    claim,
    device_class,
    gpu,
    slice_of,
)


def seen(*slices: ResourceSlice, tolerations: tuple[Toleration, ...] = (), **more: Any) -> DraNode | None:
    """Return what node ``n1`` has."""
    more.setdefault("classes", (device_class(),))
    return dra_view(DraObjects(slices=slices, **more), RESOURCE, tolerations).nodes.get("n1")


def counts(found: DraNode | None) -> tuple[int, int, int, int]:
    """Return devices, healthy, used and free."""
    assert found is not None
    return found.devices, found.healthy, found.used, found.free


def test_a_device_is_taken_by_any_claim_that_has_it() -> None:
    """Whether a pod has reserved the claim or not."""
    found = seen(slice_of(gpu("gpu-0"), gpu("gpu-1"), gpu("gpu-2")), claims=(claim("gpu-1"),))
    assert counts(found) == (3, 3, 1, 2)
    assert found is not None
    assert str(found.gpu) == "H100 80 GB SXM"


def test_a_claim_on_another_node_s_pool_takes_nothing_here() -> None:
    """Devices of different pools may have the same name."""
    assert counts(seen(slice_of(gpu("gpu-0")), claims=(claim("gpu-0", pool_name="n2"),)))[3] == 1


def test_access_for_administration_takes_nothing() -> None:
    """A monitor that looks at a device does not hold it."""
    assert counts(seen(slice_of(gpu("gpu-0")), claims=(claim("gpu-0", adminAccess=True),)))[3] == 1


def test_a_share_of_a_device_leaves_no_whole_one() -> None:
    """Part of it is in use."""
    shared = claim("gpu-0", shareID="x", consumedCapacity={"memory": "1Gi"})
    assert counts(seen(slice_of(gpu("gpu-0")), claims=(shared,)))[3] == 0


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    """Slices of an older one are leftovers."""
    found = seen(slice_of(gpu("gpu-0"), gpu("gpu-1"), generation=1), slice_of(gpu("gpu-0"), generation=2))
    assert counts(found)[0] == 1


def test_a_pool_with_missing_slices_is_unknown_and_not_empty() -> None:
    """Nothing of it counts, and its node says so."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0"), count=2),), classes=(device_class(),))
    found = dra_view(objects, RESOURCE)
    assert not found.nodes
    assert set(found.unknown_nodes) == {"n1"}
    (node,) = capacities(objects, bare("n1"))
    assert (node.free, node.unusable_because) == (0, "its DRA devices cannot be read completely now")


def test_slices_of_one_pool_add_up() -> None:
    """A pool may be spread over several slices."""
    found = seen(slice_of(gpu("gpu-0"), count=2), slice_of(gpu("gpu-1"), count=2))
    assert counts(found)[0] == 2


CARD = [{"counterSet": "card-0", "counters": {"memory": {"value": "80Gi"}}}]
HALF = [{"counterSet": "card-0", "counters": {"memory": {"value": "40Gi"}}}]
SETS = [{"name": "card-0", "counters": {"memory": {"value": "80Gi"}}}]


@pytest.mark.parametrize(
    ("taken", "want"),
    [
        pytest.param((), (1, 1, 0, 1), id="a card and its slices are one card"),
        pytest.param(("mig-0",), (1, 1, 1, 0), id="a slice that is taken takes the card"),
        pytest.param(("gpu-0",), (1, 1, 1, 0), id="the card itself"),
    ],
)
def test_alternative_devices_draw_on_shared_counters(
    taken: tuple[str, ...], want: tuple[int, int, int, int]
) -> None:
    """Counting devices would count one card three times."""
    parts = slice_of(
        gpu("gpu-0", consumesCounters=CARD),
        gpu("mig-0", type="mig", consumesCounters=HALF),
        gpu("mig-1", type="mig", consumesCounters=HALF),
        sharedCounters=SETS,
    )
    assert counts(seen(parts, claims=(claim(*taken),) if taken else ())) == want


@pytest.mark.parametrize(
    ("effect", "tolerated", "want"),
    [
        ("None", False, (1, 1, 0, 1)),
        ("NoSchedule", False, (1, 0, 0, 0)),
        ("NoExecute", False, (1, 0, 0, 0)),
        ("NoSchedule", True, (1, 1, 0, 1)),
    ],
)
def test_a_tainted_device_is_withdrawn(effect: str, tolerated: bool, want: tuple[int, ...]) -> None:
    """By its driver; the effect ``None`` only informs."""
    taint = {"key": f"{DRIVER}/xid", "value": "79", "effect": effect}
    tolerations = (Toleration(key=f"{DRIVER}/xid", operator="Exists"),) if tolerated else ()
    assert counts(seen(slice_of(gpu("gpu-0", taints=[taint])), tolerations=tolerations)) == want


def test_an_administrator_can_taint_devices_too() -> None:
    """By a rule that selects them."""
    rule = msgspec.convert(
        {
            "metadata": {"name": "r"},
            "spec": {
                "deviceSelector": {"driver": DRIVER, "device": "gpu-1"},
                "taint": {"key": "broken", "effect": "NoExecute"},
            },
        },
        DeviceTaintRule,
    )
    assert counts(seen(slice_of(gpu("gpu-0"), gpu("gpu-1")), taint_rules=(rule,))) == (2, 1, 0, 1)


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        pytest.param(device_class(), 1, id="the resource's name on a class"),
        pytest.param(device_class(resource="other.com/gpu"), None, id="another name"),
        pytest.param(device_class(resource=None), None, id="no name"),
        pytest.param(device_class("mig.nvidia.com", WHOLE_GPUS.replace("'gpu'", "'mig'")), None, id="slices"),
        pytest.param(
            device_class(
                DRIVER, f"device.driver == '{DRIVER}'", f"device.attributes['{DRIVER}'].type == 'gpu'"
            ),
            1,
            id="several selectors",
        ),
        pytest.param(
            device_class(DRIVER, f"{WHOLE_GPUS} && device.capacity['x'].memory.isGreaterThan(y)"),
            None,
            id="an expression that is not understood offers nothing",
        ),
    ],
)
def test_a_class_offers_devices_under_an_extended_resource(chosen: DeviceClass, want: int | None) -> None:
    """Without one a job that asks for the resource never gets them."""
    found = seen(slice_of(gpu("gpu-0")), classes=(chosen,))
    assert (None if found is None else found.free) == want


def test_a_class_has_an_implicit_resource_name() -> None:
    """Also where it names none itself."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0")),), classes=(device_class(resource=None),))
    found = dra_view(objects, f"deviceclass.resource.kubernetes.io/{DRIVER}")
    assert found.nodes["n1"].free == 1


def test_gpus_without_a_class_are_told() -> None:
    """The node has GPUs that no job of this pool can get."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0")),))
    (node,) = capacities(objects, bare("n1"))
    assert (node.free, node.capacity) == (0, 0)
    assert "no DeviceClass stands for the pool's resource" in (node.unusable_because or "")


@pytest.mark.parametrize(
    "where",
    [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": []}}],
)
def test_devices_that_several_nodes_reach_belong_to_none(where: dict[str, Any]) -> None:
    """They are not whole GPUs of one node."""
    objects = DraObjects(slices=(slice_of(gpu("gpu-0"), node=None, **where),), classes=(device_class(),))
    assert dra_view(objects, RESOURCE).nodes == {}


def test_devices_may_name_their_node_one_by_one() -> None:
    """A slice may leave it to its devices."""
    devices = slice_of(
        gpu("gpu-0", nodeName="n1"), gpu("gpu-1", nodeName="n2"), node=None, perDeviceNodeSelection=True
    )
    assert counts(seen(devices))[0] == 1


def test_the_first_beta_nests_its_fields() -> None:
    """``v1beta1`` puts them under ``basic``."""
    device = gpu("gpu-0")
    name = device.pop("name")
    assert counts(seen(slice_of({"name": name, "basic": device})))[3] == 1
