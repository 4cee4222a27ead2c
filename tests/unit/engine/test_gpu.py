"""Labels of real clusters tell the GPU, and never a similar one."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.gpu import canonical_model, identify, sharing_of
from airflow_gpu_placement.engine.gpu_models import satisfies, suggest, wanted_model
from airflow_gpu_placement.model.pool import GpuIdentity


def gfd(product: str, memory: str | None = None) -> dict[str, str]:
    """Build the labels of NVIDIA's feature discovery."""
    return {
        "nvidia.com/gpu.product": product,
        **({} if memory is None else {"nvidia.com/gpu.memory": memory}),
    }


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param(
            gfd("NVIDIA-H100-80GB-HBM3", "81559"), "H100 80 GB SXM", id="H100 SXM has no SXM in its name"
        ),
        pytest.param(gfd("NVIDIA-H100-PCIe"), "H100 80 GB PCIe", id="H100 PCIe comes in one memory class"),
        pytest.param(gfd("NVIDIA-H100-NVL", "95830"), "H100 94 GB NVL", id="H100 NVL"),
        pytest.param(gfd("NVIDIA-H100", "97871"), "H100 96 GB", id="a rare H100 is told by its memory"),
        pytest.param(gfd("NVIDIA-H200", "143771"), "H200 141 GB SXM", id="H200"),
        pytest.param(gfd("NVIDIA-H800", "81559"), "H800 80 GB SXM", id="H800"),
        pytest.param(gfd("NVIDIA-H800-PCIe", "81559"), "H800 80 GB PCIe", id="H800 PCIe"),
        pytest.param(gfd("NVIDIA-H200-NVL", "143771"), "H200 141 GB NVL", id="H200 NVL"),
        pytest.param(gfd("NVIDIA-H200-SHARED", "143771"), "H200 141 GB SXM", id="shares of H200"),
        pytest.param(gfd("NVIDIA-GB200", "189471"), "GB200 192 GB", id="no board has GB200 as SXM has"),
        pytest.param(gfd("NVIDIA-A100-PCIE-40GB"), "A100 40 GB PCIe", id="A100 PCIe 40 in its spelling"),
        pytest.param(gfd("NVIDIA-A100-80GB-PCIe"), "A100 80 GB PCIe", id="A100 PCIe 80 in another spelling"),
        pytest.param(gfd("NVIDIA-A100-SXM-64GB"), "A100 64 GB SXM", id="A100 of 64 GB"),
        pytest.param(gfd("Tesla-T4", "15360"), "T4 16 GB PCIe", id="15 GiB are a card of 16 GB"),
        pytest.param(gfd("Tesla-V100-SXM2-16GB"), "V100 16 GB SXM", id="an old driver's name"),
        pytest.param(gfd("NVIDIA-L40S", "46068"), "L40S 48 GB PCIe", id="45 GiB are a card of 48 GB"),
        pytest.param(gfd("NVIDIA-A10G", "23028"), "A10G 24 GB PCIe", id="A10G is not A10"),
        pytest.param(gfd("NVIDIA-B300-SXM6-AC"), "B300 288 GB SXM", id="B300"),
        pytest.param(gfd("NVIDIA-GH200-480GB", "97871"), "GH200 96 GB", id="480 is the CPU's memory"),
        pytest.param(gfd("NVIDIA-GH200-144G-HBM3e"), "GH200 144 GB", id="144 is the GPU's memory"),
        pytest.param(gfd("NVIDIA-A100-SXM4-40GB", "42505273344"), "A100 40 GB SXM", id="memory in bytes"),
        pytest.param(
            gfd("NVIDIA-A100-SXM4-80GB", "40960"), "A100 40 GB SXM", id="the smaller of two memories"
        ),
        pytest.param(gfd("NVIDIA-A100-SXM4-80GB", "0"), "A100 80 GB SXM", id="no memory measured"),
        pytest.param(gfd("NVIDIA-A100-SXM4-80GB-SHARED"), "A100 80 GB SXM", id="the card behind shares"),
        pytest.param(
            gfd("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "9984"), "H100 80 GB SXM", id="the card behind slices"
        ),
        pytest.param(gfd("NVIDIA-RTX-6000-Ada-Generation"), "RTX-6000-Ada 48 GB PCIe", id="RTX 6000 Ada"),
        pytest.param(gfd("NVIDIA-RTX-A6000"), "RTX-A6000 48 GB PCIe", id="RTX A6000"),
        pytest.param(gfd("Quadro-RTX-6000"), "Quadro-RTX-6000 24 GB PCIe", id="Quadro RTX 6000"),
        pytest.param(gfd("NVIDIA-GeForce-RTX-2080-Ti", "11264"), "GeForce-RTX-2080-Ti 11 GB PCIe", id="Ti"),
        pytest.param(gfd("NVIDIA-GeForce-RTX-3080", "10240"), "GeForce-RTX-3080 10 GB PCIe", id="small"),
        pytest.param(
            gfd("NVIDIA-H1000-Ultra", "200000"), "H1000-ULTRA 195 GB", id="an unknown product stays itself"
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "H100 80 GB SXM", id="GKE names"
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"},
            "H100 MEGA 80 GB SXM",
            id="GKE mega",
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}, "H200 141 GB SXM", id="GKE H200"
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"},
            "A100 40 GB SXM",
            id="GKE's A100 of 40 GB",
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-tesla-v100"}, "V100 16 GB SXM", id="GKE V100"
        ),
        pytest.param({"cloud.google.com/gke-accelerator": "nvidia-tesla-p100"}, "P100 16 GB", id="GKE P100"),
        pytest.param({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "L4 24 GB PCIe", id="GKE L4"),
        pytest.param(
            {
                "karpenter.k8s.aws/instance-gpu-name": "h100",
                "karpenter.k8s.aws/instance-gpu-memory": "81920",
            },
            "H100 80 GB SXM",
            id="Karpenter on AWS",
        ),
        pytest.param({"karpenter.azure.com/sku-gpu-name": "T4"}, "T4 16 GB PCIe", id="Karpenter on Azure"),
        pytest.param(
            {
                "kubernetes.azure.com/accelerator": "nvidia",
                "node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3",
            },
            "T4 16 GB PCIe",
            id="AKS by machine type",
        ),
        pytest.param(
            {"node.kubernetes.io/instance-type": "p4de.24xlarge"}, "A100 80 GB SXM", id="AWS by machine type"
        ),
        pytest.param(
            {"gpu.nvidia.com/class": "H200", "gpu.nvidia.com/vram": "143"}, "H200 141 GB", id="CoreWeave"
        ),
        pytest.param(
            {"gpu.nvidia.com/model": "GH200_480GB"}, "GH200 96 GB", id="CoreWeave with the CPU's memory"
        ),
        pytest.param(
            {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"},
            "MI300X 192 GB OAM",
            id="AMD",
        ),
        pytest.param(
            {"beta.amd.com/gpu.product-name.Instinct_MI300X": "8"},
            "MI300X 192 GB OAM",
            id="AMD, counted form",
        ),
        pytest.param({"amd.com/mi300x": "true"}, "MI300X 192 GB OAM", id="AMD, short form"),
        pytest.param(
            {"skypilot.co/accelerator": "A40"}, "A40 48 GB PCIe", id="a hand-made label in upper case"
        ),
        pytest.param(
            {"skypilot.co/accelerator": "a40"}, "A40 48 GB PCIe", id="a hand-made label in lower case"
        ),
        pytest.param(
            {
                "karpenter.k8s.aws/instance-gpu-name": "a100",
                "node.kubernetes.io/instance-type": "p4de.24xlarge",
            },
            "A100 80 GB SXM",
            id="Karpenter on AWS: the machine type tells the memory",
        ),
        pytest.param(
            {
                "karpenter.azure.com/sku-gpu-name": "A100",
                "node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4",
            },
            "A100 80 GB PCIe",
            id="Karpenter on Azure: the machine type tells the rest",
        ),
        pytest.param(
            {"eks.amazonaws.com/instance-gpu-name": "l40s", "eks.amazonaws.com/instance-gpu-memory": "45776"},
            "L40S 48 GB PCIe",
            id="EKS Auto Mode",
        ),
        pytest.param(
            {"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"}, "V100", id="EKS, autoscaler's label"
        ),
        pytest.param(
            {"node.kubernetes.io/instance-type": "p6-b200.48xlarge"}, "B200 180 GB SXM", id="AWS, Blackwell"
        ),
        pytest.param({"node.kubernetes.io/instance-type": "BM.GPU.H100.8"}, "H100 80 GB SXM", id="Oracle"),
        pytest.param({"node.kubernetes.io/instance-type": "BM.GPU4.8"}, "A100 40 GB SXM", id="Oracle, A100"),
        pytest.param(
            {"node.kubernetes.io/instance-type": "gd-1xgh200"}, "GH200", id="CoreWeave by machine type"
        ),
        pytest.param(
            {"gpu.nvidia.com/class": "A100_NVLINK_80GB"}, "A100 80 GB SXM", id="CoreWeave with a form factor"
        ),
        pytest.param({"amd.com/gpu.device-id": "74a1"}, "MI300X 192 GB OAM", id="AMD by device id"),
        pytest.param(
            {"beta.amd.com/gpu.device-id.740f": "4"}, "MI210 64 GB PCIe", id="AMD by device id, counted"
        ),
        pytest.param({}, None, id="no label"),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "", "gpu.nvidia.com/class": " "}, None, id="empty labels"
        ),
        pytest.param(
            {
                "kubernetes.azure.com/accelerator": "nvidia",
                "node.kubernetes.io/instance-type": "Standard_XX9_v9",
            },
            None,
            id="some GPU of an unknown machine type",
        ),
    ],
)
def test_labels_tell_the_card(labels: dict[str, str], want: str | None) -> None:
    """Each vocabulary of labels gives model, marketed memory and form factor."""
    identity = identify(labels)
    assert (None if identity is None else str(identity)) == want


@pytest.mark.parametrize(
    ("asked", "product", "want"),
    [
        pytest.param("A10", "NVIDIA-A100-SXM4-40GB", False, id="A10 is not in A100"),
        pytest.param("H200", "NVIDIA-GH200-480GB", False, id="H200 is not in GH200"),
        pytest.param("L40", "NVIDIA-L40S", False, id="L40 is not L40S"),
        pytest.param("H100", "NVIDIA-H100-80GB-HBM3", True, id="the bare model takes any variant"),
        pytest.param("a100-80gb", "NVIDIA-A100-SXM4-40GB", False, id="a memory in the name must be met"),
        pytest.param("A100-80GB", "NVIDIA-A100-80GB-PCIe", True, id="a memory in the name is met"),
        pytest.param("H100-PCIe", "NVIDIA-H100-80GB-HBM3", False, id="a form factor in the name must be met"),
        pytest.param("H100-MEGA", "NVIDIA-H100-80GB-HBM3", False, id="a variant in the name must be met"),
        pytest.param("RTX6000-Ada", "NVIDIA-RTX-6000-Ada-Generation", True, id="a name without separators"),
        pytest.param("a6000", "NVIDIA-RTX-A6000", True, id="a name without its brand"),
        pytest.param("A6000", "Quadro-RTX-6000", False, id="which is not the older card"),
        pytest.param("GB200-NVL72", "NVIDIA-GB200", True, id="a rack says nothing of the card"),
        pytest.param("RTX2080Ti", "NVIDIA-GeForce-RTX-2080-Ti", True, id="a GeForce by its short name"),
        pytest.param("RTX-2080", "NVIDIA-GeForce-RTX-2080-Ti", False, id="which is not its larger sister"),
        pytest.param("NVIDIA-X9-Turbo", "X9-turbo", True, id="an unknown product by its own name"),
    ],
)
def test_a_request_gets_what_it_names(asked: str, product: str, want: bool) -> None:
    """A GPU satisfies a request only when every part that the request says is known and equal."""
    assert satisfies(identify(gfd(product)), wanted_model(asked)) is want


@pytest.mark.parametrize("text", ["6000", "RTX-6000", "H1000", "GPU", "", "nvidia", "A100-turbo"])
def test_what_is_not_a_known_name_has_no_canonical_model(text: str) -> None:
    """Neither a part of a name nor a name with an unknown word is taken for a model."""
    assert canonical_model(text) is None


def test_a_number_of_several_models_is_told_with_all_of_them() -> None:
    """A bare number is refused with the models that it may mean."""
    meant = "it may mean Quadro-RTX-6000, RTX-6000-Ada, RTX-PRO-6000: name one"
    assert suggest("6000") == meant
    assert suggest("RTX6000") == meant


def test_a_slip_is_told_with_the_nearest_name() -> None:
    """A typing error gets the nearest known name."""
    assert suggest("H1000") == "did you mean 'H100'?"


def test_an_unheard_of_name_is_told_with_what_is_on_offer() -> None:
    """Where nothing is near, what is there is listed."""
    assert suggest("tpu-v5", ("H100", "L4")) == "one of: H100, L4"


@pytest.mark.parametrize(
    ("labels", "offered", "want"),
    [
        pytest.param(gfd("NVIDIA-H100-80GB-HBM3"), 8, None, id="whole GPUs"),
        pytest.param(
            {**gfd("NVIDIA-H100-80GB-HBM3"), "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "8"},
            8,
            None,
            id="one replica is no sharing",
        ),
        pytest.param(
            {**gfd("Tesla-T4-SHARED"), "nvidia.com/gpu.sharing-strategy": "time-slicing"},
            12,
            "time-slicing: 12 shares",
            id="time-slicing",
        ),
        pytest.param(
            {**gfd("Tesla-T4"), "nvidia.com/gpu.count": "1"},
            12,
            "sharing: 12 shares of 1 GPU",
            id="more devices than cards",
        ),
        pytest.param(
            {"cloud.google.com/gke-gpu-sharing-strategy": "mps"}, 4, "mps: 4 shares", id="GKE's sharing"
        ),
        pytest.param(
            {"cloud.google.com/gke-max-shared-clients-per-gpu": "4"},
            4,
            "sharing: 4 shares",
            id="GKE's clients of one GPU",
        ),
        pytest.param(
            gfd("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
            56,
            "MIG slices (1g.10gb)",
            id="slices under the name of GPUs",
        ),
        pytest.param(
            {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}, 7, "MIG slices (1g.5gb)", id="GKE's slices"
        ),
        pytest.param(
            {"amd.com/gpu.compute-memory-partition": "CPX_NPS4"},
            64,
            "partitions of a GPU (CPX_NPS4)",
            id="AMD's partitions",
        ),
    ],
)
def test_shares_and_slices_are_not_whole_gpus(labels: dict[str, str], offered: int, want: str | None) -> None:
    """Each way to split a GPU is recognised and named."""
    assert sharing_of(labels, offered) == want


def test_an_identity_is_told_in_words() -> None:
    """What is not known is left out."""
    assert str(GpuIdentity(model="H100")) == "H100"
