"""Node profiles show what real nodes show, and the product reads from it which GPUs they have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.catalog.discover import discover
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.gpu_models import satisfies, wanted_model
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.kube import Node
from airflow_gpu_placement.model.pool import ClusterRef
from lab import NodeSpec
from lab.node.devices import Devices, Rejected
from lab.node.profiles import PROFILES, materialise
from tests.lab.node_support import Workspace, container, pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.catalog.discover import Discovery
    from lab import Cluster

NO_WHOLE_GPUS = {
    "onprem-a100-mig-single": "MIG slices (1g.10gb)",
    "onprem-h100-mig-mixed": "all its GPUs are cut into MIG slices",
    "onprem-l40s-shared": "time-slicing: 16 shares of 4 GPUs",
}


def _discovered(nodes: Iterable[dict[str, Any]]) -> Discovery:
    seen = SeenNodes(tuple(msgspec.convert(node, Node) for node in nodes), DraObjects())
    return discover(seen, ClusterRef(kubernetes_conn_id="k"))


def _node(name: str) -> dict[str, Any]:
    made = materialise(name, node_name=name)
    return {
        "metadata": {"name": name, "labels": made["labels"]},
        "spec": {"providerID": made["provider_id"], "taints": made["taints"]},
        "status": {
            "allocatable": made["capacity"],
            "capacity": made["capacity"],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.gpus])
def test_the_gpu_of_each_profile_is_identified(name: str) -> None:
    """The product names model, memory and form factor of the card, also where it is cut or shared."""
    model = PROFILES[name].gpu_model
    assert model is not None
    assert satisfies(identify(materialise(name, node_name="n")["labels"]), wanted_model(model))


def test_discover_tells_all_profiles_apart() -> None:
    """Each kind of node becomes a pool of its own, and none whose devices are not whole GPUs does."""
    found = _discovered(_node(name) for name in PROFILES)
    whole = {name for name, profile in PROFILES.items() if profile.gpus} - NO_WHOLE_GPUS.keys()
    assert {pool.nodes for pool in found.pools} == {(name,) for name in whole}
    assert len({pool.pool.name for pool in found.pools}) == len(found.pools)
    assert all(pool.pool.node_selector for pool in found.pools), "labels tell each of them from the others"
    assert sorted(found.left_out) == [
        f"node {name}: no whole GPUs: {why}" for name, why in sorted(NO_WHOLE_GPUS.items())
    ]


@pytest.mark.parametrize(
    ("name", "cloud", "capacity_type", "taints"),
    [
        ("eks-h100", "aws", "reserved", []),
        ("eks-a100-40", "aws", "on_demand", []),
        ("karpenter-h100", "aws", "on_demand", []),
        ("karpenter-h200", "aws", "reserved", []),
        ("karpenter-l4-spot", "aws", "spot", []),
        ("aks-h100", "azure", "on_demand", ["sku"]),
        ("aks-a100-pcie-spot", "azure", "spot", ["kubernetes.azure.com/scalesetpriority"]),
        ("coreweave-h100", None, "reserved", []),
        ("onprem-mi300x", None, "reserved", []),
    ],
)
def test_discover_reads_how_a_node_is_bought(
    name: str, cloud: str | None, capacity_type: str, taints: list[str]
) -> None:
    """Cloud, capacity type and the taints that a job must tolerate come from what the node shows."""
    (pool,) = _discovered([_node(name)]).pools
    assert (pool.pool.place.cloud, pool.pool.capacity_type) == (cloud, capacity_type)
    assert [toleration.key for toleration in pool.pool.tolerations] == taints
    assert pool.per_node == (PROFILES[name].gpus,)


def test_slices_and_shares_are_counted() -> None:
    """The resources are those that the device plugin offers: slices by kind, shares, and no whole GPU."""
    mixed = materialise("onprem-h100-mig-mixed", node_name="n", gpus=2)
    offered = {key: number for key, number in mixed["capacity"].items() if key.startswith("nvidia.com/")}
    assert offered == {
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.10gb": "4",
        "nvidia.com/mig-2g.20gb": "2",
        "nvidia.com/mig-3g.40gb": "2",
    }
    assert mixed["labels"]["nvidia.com/mig-1g.10gb.count"] == "4"
    assert mixed["labels"]["nvidia.com/gpu.count"] == "2"
    single = materialise("onprem-a100-mig-single", node_name="n", gpus=1)
    assert single["labels"]["nvidia.com/gpu.count"] == single["capacity"]["nvidia.com/gpu"] == "7"
    shared = materialise("onprem-l40s-shared", node_name="n", gpus=2)
    assert (shared["labels"]["nvidia.com/gpu.count"], shared["capacity"]["nvidia.com/gpu"]) == ("2", "8")


def test_each_resource_has_devices_of_its_own(tmp_path: Path) -> None:
    """Devices are given by resource; a resource that the node lacks or has none left of is refused."""
    devices = Devices({"amd.com/gpu": "2", "nvidia.com/mig-1g.10gb": "1", "cpu": "4"})
    both = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"amd.com/gpu": "2"}}}]}}
    assert devices.assign("a", both, tmp_path / "a") == {"main": {"amd.com/gpu": [0, 1]}}
    assert devices.lacks(both)
    with pytest.raises(Rejected, match=r"unavailable for amd\.com/gpu\. Requested: 2, Available: 0"):
        devices.assign("b", both, tmp_path / "b")
    assert devices.free("nvidia.com/mig-1g.10gb") == [0]


@pytest.mark.parametrize(
    ("name", "product", "family"),
    [
        ("onprem-h100-sxm", "NVIDIA-H100-80GB-HBM3", "hopper"),
        ("onprem-a100-80", "NVIDIA-A100-SXM4-80GB", "ampere"),
        ("onprem-l40s", "NVIDIA-L40S", "ada-lovelace"),
    ],
)
def test_onprem_nodes_have_gfd_labels(name: str, product: str, family: str) -> None:
    """GPU Feature Discovery's labels name the product, and no MIG strategy where there is none."""
    made = materialise(name, node_name="n1")
    labels = made["labels"]
    assert (labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.family"]) == (product, family)
    assert labels["nvidia.com/gpu.count"] == made["capacity"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/mig.strategy" not in labels
    assert made["taints"] == []
    assert labels["kubernetes.io/hostname"] == "n1"


@pytest.mark.parametrize(
    ("name", "accelerator", "machine"),
    [
        ("gke-h100", "nvidia-h100-80gb", "a3-highgpu-8g"),
        ("gke-a100-80", "nvidia-a100-80gb", "a2-ultragpu-8g"),
        ("gke-l4", "nvidia-l4", "g2-standard-96"),
    ],
)
def test_gke_nodes_have_the_cloud_s_labels(name: str, accelerator: str, machine: str) -> None:
    """GKE's nodes carry its own labels and taint, and none of GPU Feature Discovery."""
    made = materialise(name, node_name="n1", zone="europe-west4-b", region="europe-west4")
    labels = made["labels"]
    assert labels["cloud.google.com/gke-accelerator"] == accelerator
    assert labels["node.kubernetes.io/instance-type"] == machine
    assert labels["topology.kubernetes.io/zone"] == "europe-west4-b"
    assert labels["topology.kubernetes.io/region"] == "europe-west4"
    assert not [key for key in labels if key.startswith("nvidia.com/")]
    assert made["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert made["provider_id"] == "gce://lab-project/europe-west4-b/n1"


def test_every_profile_has_region_and_zone() -> None:
    """Labels are complete: no template is left open, and region and zone are always there."""
    for name in PROFILES:
        made = materialise(name, node_name="n1")
        assert {"topology.kubernetes.io/zone", "topology.kubernetes.io/region"} <= made["labels"].keys()
        assert not [value for value in made["labels"].values() if "{" in value]


def test_fewer_gpus_show_everywhere() -> None:
    """A smaller node says so in its labels and its capacity; extra labels win."""
    made = materialise("onprem-l40s", node_name="n1", gpus=2, extra_labels={"nvidia.com/gpu.machine": "x"})
    assert made["capacity"]["nvidia.com/gpu"] == made["labels"]["nvidia.com/gpu.count"] == "2"
    assert made["labels"]["nvidia.com/gpu.machine"] == "x"


def test_the_cpu_node_has_no_gpu() -> None:
    """The cpu profile offers no GPU and refuses to be given one."""
    assert "nvidia.com/gpu" not in materialise("cpu", node_name="n1")["capacity"]
    with pytest.raises(ValueError, match="has no GPUs"):
        materialise("cpu", node_name="n1", gpus=1)


def test_unknown_profiles_are_listed() -> None:
    """A wrong name is answered with those that exist."""
    with pytest.raises(ValueError, match="choose one of aks-a100-pcie, aks-a100-pcie-spot"):
        materialise("h100", node_name="n1")


@pytest.mark.lab
def test_a_real_api_server_accepts_all_profiles(onprem: Cluster) -> None:
    """Labels, taints and quantities are well-formed, and read back as the same pools."""
    kept = [
        onprem.api.request("POST", "/api/v1/nodes", body=_node(name), params={"dryRun": "All"})
        for name in PROFILES
    ]
    for node in kept:
        admission = [taint for taint in node["spec"]["taints"] if taint["key"].startswith("node.kubernetes")]
        assert [taint["key"] for taint in admission] == ["node.kubernetes.io/not-ready"]
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    whole = {name for name, profile in PROFILES.items() if profile.gpus} - NO_WHOLE_GPUS.keys()
    assert {pool.nodes for pool in _discovered(kept).pools} == {(name,) for name in whole}


@pytest.mark.lab
def test_real_nodes_of_other_kinds(onprem: Cluster) -> None:
    """Nodes with AMD's GPUs and with slices register, are discovered, and give a pod its devices."""
    for name in ("onprem-mi300x", "onprem-h100-mig-mixed"):
        onprem.add_node(NodeSpec(f"is-{name}", name, renew_seconds=2.0))
    listed = onprem.api.get("/api/v1/nodes")["items"]
    found = _discovered(node for node in listed if node["metadata"]["name"].startswith("is-"))
    assert [(pool.nodes, str(pool.gpu), pool.per_node) for pool in found.pools] == [
        (("is-onprem-mi300x",), "MI300X 192 GB OAM", (8,))
    ]
    assert found.left_out == (
        "node is-onprem-h100-mig-mixed: no whole GPUs: all its GPUs are cut into MIG slices",
    )
    with Workspace.scoped(onprem, "is-onprem-mi300x") as work:
        limits = {"limits": {"amd.com/gpu": "3"}}
        pod = work.finish(pod_spec(container("echo $ROCR_VISIBLE_DEVICES", resources=limits)))
        assert work.log(pod["metadata"]["name"]) == "0,1,2\n"
    with Workspace.scoped(onprem, "is-onprem-h100-mig-mixed") as work:
        refused = work.finish(pod_spec(container("true", resources={"limits": {"nvidia.com/gpu": "1"}})))
        assert refused["status"]["reason"] == "OutOfnvidia.com/gpu"
        sliced = pod_spec(container("true", resources={"limits": {"nvidia.com/mig-3g.40gb": "1"}}))
        assert work.finish(sliced)["status"]["phase"] == "Succeeded"


def test_every_profile_is_documented() -> None:
    """The README's table of machines has them all."""
    readme = (Path(__file__).parents[2] / "lab" / "README.md").read_text(encoding="utf-8")
    assert not [name for name in PROFILES if f"`{name}`" not in readme]
