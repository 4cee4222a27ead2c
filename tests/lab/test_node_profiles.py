"""Node profiles show what real nodes show."""

from __future__ import annotations

import pytest

from lab.node.profiles import PROFILES, materialise


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
    with pytest.raises(ValueError, match="choose one of cpu, gke-a100-80"):
        materialise("h100", node_name="n1")
