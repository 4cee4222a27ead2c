"""Labels as those who write them on nodes do: kubelets, NVIDIA's and AMD's labellers, and clouds."""

from __future__ import annotations

GKE = "cloud.google.com"
KARPENTER_AWS = "karpenter.k8s.aws"


def common(instance_type: str) -> dict[str, str]:
    """Return the labels that every node has."""
    return {
        "kubernetes.io/hostname": "{node_name}",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": "{zone}",
        "topology.kubernetes.io/region": "{region}",
    }


def gfd(
    product: str,
    memory_mib: int,
    family: str,
    compute: str,
    machine: str,
    *,
    mig: bool,
    **changes: str,
) -> dict[str, str]:
    """Return the labels of NVIDIA's GPU Feature Discovery for whole, unshared GPUs.

    :param changes: other values of ``nvidia.com/gpu.<name>``, with ``_`` for ``-`` in the names.
    """
    major, minor = compute.split(".")
    values = {
        "gpu.present": "true",
        "gpu.product": product,
        "gpu.count": "{gpus}",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.memory": str(memory_mib),
        "gpu.family": family,
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "gpu.machine": machine,
        "gpu.mode": "compute",
        "mig.capable": "true" if mig else "false",
        "mps.capable": "false",
        "cuda.driver-version.major": "580",
        "cuda.driver-version.minor": "95",
        "cuda.driver-version.revision": "05",
        "cuda.driver-version.full": "580.95.05",
        "cuda.runtime-version.major": "13",
        "cuda.runtime-version.minor": "0",
        "cuda.runtime-version.full": "13.0",
        "gfd.timestamp": "1796000000",
    }
    values |= {f"gpu.{name.replace('_', '-')}": value for name, value in changes.items()}
    return {f"nvidia.com/{key}": value for key, value in values.items()}


def mig(strategy: str, config: str) -> dict[str, str]:
    """Return what the GPU Operator and GPU Feature Discovery say of a node whose GPUs are partitioned."""
    return {
        "nvidia.com/mig.strategy": strategy,
        "nvidia.com/mig.config": config,
        "nvidia.com/mig.config.state": "success",
    }


def mig_slice(
    prefix: str, product: str, profile: str, memory_mib: int, multiprocessors: int
) -> dict[str, str]:
    """Return the labels of one kind of slice, as strategy ``mixed`` has them for each.

    :param prefix: resource of the slice.
    """
    slices = profile.split("g.")[0]
    values = {
        "product": f"{product}-MIG-{profile}",
        "replicas": "1",
        "sharing-strategy": "none",
        "memory": str(memory_mib),
        "multiprocessors": str(multiprocessors),
        "slices.gi": slices,
        "slices.ci": slices,
        "engines.copy": slices,
        "engines.decoder": slices,
        "engines.encoder": "0",
        "engines.jpeg": slices,
        "engines.ofa": "0",
    }
    return {f"{prefix}.{key}": value for key, value in values.items()}


def amd(product: str, device_id: str, vram: str, compute_units: int, partition: str) -> dict[str, str]:
    """Return the labels of AMD's node labeller with all its flags."""
    values = {
        "gpu.family": "AI",
        "gpu.device-id": device_id,
        "gpu.product-name": product,
        "gpu.vram": vram,
        "gpu.cu-count": str(compute_units),
        "gpu.simd-count": str(4 * compute_units),
        "gpu.driver-version": "6.12.12",
        "gpu.compute-memory-partition": partition,
        "gpu.compute-partitioning-supported": "true",
        "gpu.memory-partitioning-supported": "true",
    }
    return {f"amd.com/{key}": value for key, value in values.items()}


def gke(accelerator: str, machine_type: str, pool: str) -> dict[str, str]:
    """Return the labels of GKE, which has a device plugin of its own and no GPU Feature Discovery."""
    values = {
        "gke-accelerator": accelerator,
        "gke-accelerator-count": "{gpus}",
        "gke-nodepool": pool,
        "gke-provisioning": "standard",
        "machine-family": machine_type.split("-")[0],
    }
    return common(machine_type) | {f"{GKE}/{key}": value for key, value in values.items()}


def aws(instance_type: str, zone_id: str) -> dict[str, str]:
    """Return the labels of the AWS cloud provider; the highest network layer is the nearest."""
    layers = {
        f"topology.k8s.aws/network-node-layer-{layer}": f"nn-{layer}0a1b2c3d4e5f678" for layer in (1, 2, 3)
    }
    return common(instance_type) | layers | {"topology.k8s.aws/zone-id": zone_id}


def eks(instance_type: str, zone_id: str, group: str, capacity_type: str) -> dict[str, str]:
    """Return the labels of an EKS managed node group with AWS's own device plugin: none names the GPU."""
    values = {
        "eks.amazonaws.com/nodegroup": group,
        "eks.amazonaws.com/capacityType": capacity_type,
        "eks.amazonaws.com/nodegroup-image": "ami-0a1b2c3d4e5f67890",
        "beta.kubernetes.io/instance-type": instance_type,
        "k8s.io/cloud-provider-aws": "0123456789abcdef0123456789abcdef",
    }
    return aws(instance_type, zone_id) | values


def karpenter(
    instance_type: str, zone_id: str, pool: str, capacity_type: str, gpu: str, gpu_memory_mib: int
) -> dict[str, str]:
    """Return the labels of a node that Karpenter has started on AWS."""
    family, size = instance_type.split(".")
    values = {
        "instance-category": family[0],
        "instance-family": family,
        "instance-generation": family[1],
        "instance-size": size,
        "instance-hypervisor": "nitro",
        "instance-gpu-name": gpu,
        "instance-gpu-manufacturer": "nvidia",
        "instance-gpu-count": "{gpus}",
        "instance-gpu-memory": str(gpu_memory_mib),
    }
    return (
        aws(instance_type, zone_id)
        | {f"{KARPENTER_AWS}/{key}": value for key, value in values.items()}
        | {
            "karpenter.sh/nodepool": pool,
            "karpenter.sh/capacity-type": capacity_type,
            "karpenter.sh/initialized": "true",
            "karpenter.sh/registered": "true",
        }
    )


def aks(vm_size: str, pool: str) -> dict[str, str]:
    """Return the labels of AKS, whose managed device plugin names no GPU."""
    values = {
        "agentpool": pool,
        "accelerator": "nvidia",
        "mode": "user",
        "nodepool-type": "VirtualMachineScaleSets",
        "os-sku": "Ubuntu",
        "role": "agent",
        "cluster": "MC_lab_lab_westeurope",
    }
    return (
        common(vm_size)
        | {f"kubernetes.azure.com/{key}": value for key, value in values.items()}
        | {"agentpool": pool, "accelerator": "nvidia", "beta.kubernetes.io/instance-type": vm_size}
    )


def coreweave(instance_type: str, gpu: str, vram_gb: int) -> dict[str, str]:
    """Return the labels of CoreWeave's nodes on an InfiniBand fabric."""
    return common(instance_type) | {
        "gpu.nvidia.com/class": gpu,
        "gpu.nvidia.com/model": gpu,
        "gpu.nvidia.com/count": "{gpus}",
        "gpu.nvidia.com/vram": str(vram_gb),
        "gpu.coreweave.cloud/vendor": "nvidia",
        "node.coreweave.cloud/class": "gpu",
        "node.coreweave.cloud/cpu": "intel-xeon-scalable",
        "node.coreweave.cloud/type": "H100_NVLINK_80GB.8.xeon.128",
        "node.coreweave.cloud/state": "production",
        "backend.coreweave.cloud/enabled": "true",
        "backend.coreweave.cloud/flavor": "infiniband",
        "backend.coreweave.cloud/fabric": "US-EAST-04A-A",
        "backend.coreweave.cloud/superpod": "2",
        "backend.coreweave.cloud/leafgroup": "17",
        "ib.coreweave.cloud/fabric": "US-EAST-04A-A",
        "ib.coreweave.cloud/leafgroup": "17",
        "ib.coreweave.cloud/superpod": "2",
        "ib.coreweave.cloud/speed": "400G",
    }
