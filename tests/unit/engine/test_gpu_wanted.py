"""GPUs written as ``MODEL:count``, and the nodes that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.engine.gpu_devices import gpu_resource_of, with_resource_of
from airflow_gpu_placement.engine.gpu_wanted import (
    eligible_nodes,
    is_ambiguous,
    job_resource_name,
    matches,
    min_memory_ok,
    request_of,
    selector_for,
    slice_pods,
)
from tests.unit.engine.builders import A100_40, H100, kube_node, kube_pod, pool

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node

A100_80 = "NVIDIA-A100-SXM4-80GB"
NODES = [
    kube_node("a40", product=A100_40),
    kube_node("a80", product=A100_80),
    kube_node("small", product=A100_80, capacity="4"),
    kube_node("closed", product=A100_80, unschedulable=True),
    kube_node("cut", capacity="0", more={"nvidia.com/mig-1g.10gb": "56"}),
]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("A100-80GB:8", ("a80",)),
        ("A100-80GB:4", ("a80", "small")),
        ("A100:8", ("a40", "a80")),
        ("a100-40gb", ("a40",)),
        ("A10:1", ()),
        ("H100:1", ()),
        ("H100-MIG-1g.10gb:56", ("cut",)),
        ("H100-mig-1g.10gb:57", ()),
        ("H100-MIG-3g.40gb:1", ()),
    ],
)
def test_nodes_that_have_what_is_wanted(text: str, want: tuple[str, ...]) -> None:
    """By model, memory and number on one node; slices are wanted by their profile."""
    assert eligible_nodes(NODES, [], pool(), request_of(text)) == want
    assert matches(NODES, [], pool(), request_of(text)) is bool(want)


@pytest.mark.parametrize(
    ("text", "now", "if_empty"),
    [
        ("H100-MIG-1g.10gb:2", 3, 7),
        ("H100-MIG-1g.10gb:8", 0, 0),
        ("A100-MIG-1g.10gb:1", 0, 0),
        ("H100-MIG-3g.40gb:1", 0, 0),
    ],
)
def test_pods_with_slices_are_counted_node_by_node(text: str, now: int, if_empty: int) -> None:
    """Of the profile alone; a closed node, and one without a pod slot, may be empty once."""
    slices = {"nvidia.com/mig-1g.10gb": "4"}
    nodes = [
        kube_node("used", capacity="0", more={"nvidia.com/mig-1g.10gb": "7"}),
        kube_node("open", capacity="0", more=slices),
        kube_node("closed", capacity="0", more=slices, unschedulable=True),
    ]
    asked = {"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "5"}}}
    pods = [kube_pod(asked, node="used")]
    wanted = request_of(text)
    assert slice_pods(nodes, pods, pool(), wanted) == now
    assert slice_pods(nodes, pods, pool(), wanted, if_empty=True) == if_empty


@pytest.mark.parametrize("text", ["", ":8", "A100:0"])
def test_what_is_no_request_is_refused(text: str) -> None:
    """And what to write is said."""
    with pytest.raises(ValueError, match="write for example"):
        request_of(text)


@pytest.mark.parametrize(("text", "want"), [("6000:1", True), ("RTX-A6000:1", False), ("X9:1", False)])
def test_a_number_of_several_models_is_ambiguous(text: str, want: bool) -> None:
    """A name that nobody knows is not."""
    assert is_ambiguous(text) is want


def test_a_job_is_kept_on_the_right_nodes() -> None:
    """By the label that tells them from the others, and by none where all nodes will do."""
    wanted = request_of("A100-80GB:8")
    assert selector_for(NODES[:2], [], pool(), wanted) == {"nvidia.com/gpu.product": A100_80}
    assert selector_for(NODES[1:3], [], pool(), wanted) == {}
    mixed = [kube_node("x", product=A100_80), kube_node("y", product="NVIDIA-A100-80GB-PCIe"), NODES[0]]
    assert selector_for(mixed, [], pool(), wanted) == {}


def test_the_resource_is_named_as_nodes_offer_it() -> None:
    """A label may spell a profile in another way."""
    labels = {"nvidia.com/mig-3g.21gb.count": "16", "nvidia.com/mig.strategy": "mixed"}
    node = kube_node(capacity="0", labels=labels, more={"nvidia.com/mig-3g.20gb": "16"})
    assert job_resource_name([node], [], pool()) == "nvidia.com/mig-3g.20gb"
    assert job_resource_name(NODES, [], pool(), request_of("A100:1")) == "nvidia.com/gpu"
    assert job_resource_name(NODES, [], pool(), request_of("H100-MIG-1g.10gb:1")) == "nvidia.com/mig-1g.10gb"
    assert job_resource_name(NODES, [], pool()) is None


def test_memory_is_compared_by_class() -> None:
    """What is not known is never enough."""
    assert min_memory_ok([kube_node(product=H100)], [], pool(), 80)
    assert not min_memory_ok([kube_node(product=H100)], [], pool(), 81)
    assert not min_memory_ok([kube_node(labels={})], [], pool(), 1)


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({"amd.com/gpu": "8"}, "amd.com/gpu", id="AMD"),
        pytest.param({"amd.com/spx_nps1": "8"}, "amd.com/spx_nps1", id="AMD, whole GPUs named as partitions"),
        pytest.param({"amd.com/cpx_nps4": "64"}, "nvidia.com/gpu", id="slices are no GPUs"),
        pytest.param({}, "nvidia.com/gpu", id="nothing"),
    ],
)
def test_the_vendor_s_resource_is_found(more: dict[str, str], want: str) -> None:
    """By what nodes have, not by labels."""
    assert gpu_resource_of([kube_node(capacity="0", more=more)]) == want


@pytest.mark.parametrize(
    ("nodes", "declared", "want"),
    [
        pytest.param([kube_node(capacity="0", more={"amd.com/gpu": "8"})], {}, "amd.com/gpu", id="AMD"),
        pytest.param([kube_node(more={"amd.com/gpu": "8"})], {}, "nvidia.com/gpu", id="both"),
        pytest.param([], {}, "nvidia.com/gpu", id="no node"),
        pytest.param(
            [kube_node()],
            {"resource_name": "example.com/gpu"},
            "example.com/gpu",
            id="the catalogue's own word",
        ),
    ],
)
def test_a_pool_takes_the_resource_that_its_nodes_have(
    nodes: list[Node], declared: dict[str, str], want: str
) -> None:
    """Where the catalogue does not name another than the usual one; jobs tolerate that resource's taint."""
    found = with_resource_of(pool(**declared), nodes)
    assert found.gpu.resource_name == want
    assert [one.key for one in found.job_tolerations] == [want]
