"""Nodes of clouds: GKE, EKS with managed node groups and with Karpenter, AKS, CoreWeave."""

from __future__ import annotations

from dataclasses import replace

from lab.node.labels import aks, coreweave, eks, gke, karpenter
from lab.node.profile import GPU, NodeProfile, sizes, taint

_AWS = NodeProfile(
    name="",
    description="",
    labels={},
    capacity={},
    taints=(taint(GPU, "true"),),
    provider_id_template="aws:///{zone}/i-{node_name}",
    zone="us-east-1a",
    region="us-east-1",
    gpus=8,
)
_AKS = replace(
    _AWS,
    taints=(taint("sku", "gpu"),),
    provider_id_template=(
        "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/mc_lab_lab_westeurope"
        "/providers/Microsoft.Compute/virtualMachineScaleSets/aks-gpu-12345678-vmss/virtualMachines/{node_name}"
    ),
    zone="westeurope-1",
    region="westeurope",
)
_EFA = "vpc.amazonaws.com/efa"


def _gke(
    name: str, description: str, model: str, labels: dict[str, str], cpu: int, memory_gib: int
) -> NodeProfile:
    return NodeProfile(
        name=name,
        description=description,
        labels=labels,
        capacity=sizes(cpu, memory_gib),
        gpu_model=model,
        taints=(taint(GPU, "present"),),
        provider_id_template="gce://lab-project/{zone}/{node_name}",
        zone="us-central1-a",
        region="us-central1",
        gpus=8,
    )


CLOUD_MACHINES = (
    _gke(
        "gke-h100",
        "GKE a3-highgpu-8g: 8 x H100 80 GB",
        "H100-SXM-80GB",
        gke("nvidia-h100-80gb", "a3-highgpu-8g", "h100-pool"),
        cpu=208,
        memory_gib=1872,
    ),
    _gke(
        "gke-a100-80",
        "GKE a2-ultragpu-8g: 8 x A100 80 GB",
        "A100-SXM-80GB",
        gke("nvidia-a100-80gb", "a2-ultragpu-8g", "a100-pool"),
        cpu=96,
        memory_gib=1360,
    ),
    _gke(
        "gke-l4",
        "GKE g2-standard-96: 8 x L4 24 GB",
        "L4",
        gke("nvidia-l4", "g2-standard-96", "l4-pool"),
        cpu=96,
        memory_gib=384,
    ),
    replace(
        _AWS,
        name="eks-h100",
        description="EKS managed node group on a capacity block, p5.48xlarge: 8 x H100 80 GB",
        labels=eks("p5.48xlarge", "use1-az4", "p5-block", "CAPACITY_BLOCK")
        | {"topology.k8s.aws/capacity-block-id": "cb-0a1b2c3d4e5f67890"},
        capacity=sizes(192, 2048) | {_EFA: "32"},
        gpu_model="H100-SXM-80GB",
    ),
    replace(
        _AWS,
        name="eks-a100-40",
        description="EKS managed node group, p4d.24xlarge: 8 x A100 40 GB",
        labels=eks("p4d.24xlarge", "use1-az6", "p4d", "ON_DEMAND"),
        capacity=sizes(96, 1152) | {_EFA: "4"},
        gpu_model="A100-SXM-40GB",
        taints=(),
    ),
    replace(
        _AWS,
        name="karpenter-h100",
        description="EKS with Karpenter, p5.48xlarge: 8 x H100 80 GB",
        labels=karpenter("p5.48xlarge", "use1-az4", "gpu", "on-demand", "h100", 81920),
        capacity=sizes(192, 2048) | {_EFA: "32"},
        gpu_model="H100-SXM-80GB",
    ),
    replace(
        _AWS,
        name="karpenter-h200",
        description="EKS with Karpenter on a reservation, p5en.48xlarge: 8 x H200 141 GB",
        labels=karpenter("p5en.48xlarge", "use1-az4", "gpu-reserved", "reserved", "h200", 144384)
        | {
            "karpenter.k8s.aws/capacity-reservation-id": "cr-0a1b2c3d4e5f67890",
            "karpenter.k8s.aws/capacity-reservation-type": "default",
        },
        capacity=sizes(192, 2048) | {_EFA: "16"},
        gpu_model="H200-SXM-141GB",
    ),
    replace(
        _AWS,
        name="karpenter-a100-40",
        description="EKS with Karpenter, p4d.24xlarge: 8 x A100 40 GB",
        labels=karpenter("p4d.24xlarge", "use1-az6", "gpu", "on-demand", "a100", 40960),
        capacity=sizes(96, 1152) | {_EFA: "4"},
        gpu_model="A100-SXM-40GB",
    ),
    replace(
        _AWS,
        name="karpenter-l4-spot",
        description="EKS with Karpenter on spot capacity, g6.12xlarge: 4 x L4 24 GB",
        labels=karpenter("g6.12xlarge", "use1-az2", "gpu-spot", "spot", "l4", 22888),
        capacity=sizes(48, 192),
        gpu_model="L4",
        gpus=4,
    ),
    replace(
        _AKS,
        name="aks-h100",
        description="AKS Standard_ND96isr_H100_v5: 8 x H100 80 GB",
        labels=aks("Standard_ND96isr_H100_v5", "ndh100"),
        capacity=sizes(96, 1900) | {"rdma/hca_shared_devices_a": "63"},
        gpu_model="H100-SXM-80GB",
    ),
    replace(
        _AKS,
        name="aks-a100-pcie",
        description="AKS Standard_NC96ads_A100_v4: 4 x A100 PCIe 80 GB",
        labels=aks("Standard_NC96ads_A100_v4", "nca100"),
        capacity=sizes(96, 880),
        gpu_model="A100-PCIe-80GB",
        gpus=4,
    ),
    replace(
        _AKS,
        name="aks-a100-pcie-spot",
        description="AKS spot pool of Standard_NC24ads_A100_v4: 1 x A100 PCIe 80 GB",
        labels=aks("Standard_NC24ads_A100_v4", "nca100spot")
        | {"kubernetes.azure.com/scalesetpriority": "spot", "kubernetes.azure.com/priority": "spot"},
        capacity=sizes(24, 220),
        gpu_model="A100-PCIe-80GB",
        taints=(taint("kubernetes.azure.com/scalesetpriority", "spot"),),
        gpus=1,
    ),
    NodeProfile(
        name="coreweave-h100",
        description="CoreWeave gd-8xh100ib-i128: 8 x H100 80 GB on InfiniBand",
        labels=coreweave("gd-8xh100ib-i128", "H100_NVLINK_80GB", 81),
        capacity=sizes(128, 2048) | {"rdma/ib": "1k"},
        gpu_model="H100-SXM-80GB",
        taints=(taint("is_gpu", "true", "PreferNoSchedule"),),
        zone="US-EAST-04A",
        region="US-EAST-04",
        gpus=8,
    ),
)
