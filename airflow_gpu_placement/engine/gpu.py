"""Which GPU a node has, from the labels of real clusters; and whether its devices are whole GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.gpu_models import (
    KNOWN_MODELS,
    canonical_model,
    complete,
    normalised,
    read_driver_name,
    read_model,
)
from airflow_gpu_placement.engine.instance_types import gpu_of_instance_type
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AMD_PREFIXES",
    "KNOWN_MODELS",
    "MACHINE_LABELS",
    "MEMORY_LABELS",
    "PRODUCT_LABELS",
    "canonical_model",
    "identify",
    "marks_gpus",
    "memory_class",
    "sharing_of",
    "slice_profile",
]

_PRODUCT = "nvidia.com/gpu.product"
_GKE = "cloud.google.com/gke-accelerator"
_KARPENTER_AWS = "karpenter.k8s.aws/instance-gpu-name"

PRODUCT_LABELS = (
    _PRODUCT,
    _GKE,
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    _KARPENTER_AWS,
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "k8s.amazonaws.com/accelerator",
    "skypilot.co/accelerator",
)
"""Labels whose value is a product name, best evidence first. A shared or partitioned value has a suffix."""

_SXM_ONLY = frozenset({"V100", "A100", "H100", "H200", "B200", "B300"})
"""Models that GKE and the machine types of AWS offer on SXM boards only."""

_GKE_NAMES = {
    "nvidia-tesla-a100": GpuIdentity(model="A100", memory_gb=40),
    "nvidia-tesla-p100": GpuIdentity(model="P100", memory_gb=16),
    "nvidia-tesla-v100": GpuIdentity(model="V100", memory_gb=16),
}
"""Names of GKE that leave the memory out although there are two kinds: it has one of them only."""

MACHINE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")

_AMD_COUNTED = "beta.amd.com/gpu.product-name."
_AMD_SHORT = "amd.com/"
AMD_PREFIXES = (_AMD_SHORT, "beta.amd.com/gpu.")
"""Labels of AMD's labellers; some carry the product in the key."""

_AMD_DEVICE_IDS = {
    "738c": "MI100",
    "7408": "MI250X",
    "740f": "MI210",
    "7410": "MI210",
    "74a0": "MI300A",
    "74a1": "MI300X",
    "74a5": "MI325X",
    "74a9": "MI300X",
    "74b5": "MI300X",
    "74b9": "MI325X",
    "74bd": "MI300X",
    "75a0": "MI350X",
    "75a3": "MI355X",
    "75b0": "MI350X",
    "75b3": "MI355X",
}
"""PCI device -> model, the functions that virtual machines are given included."""

_AMD_DEVICE_ID_LABELS = ("amd.com/gpu.device-id", "beta.amd.com/gpu.device-id")

_MIB_LABELS = (
    "nvidia.com/gpu.memory",
    "karpenter.k8s.aws/instance-gpu-memory",
    "eks.amazonaws.com/instance-gpu-memory",
)
_VRAM_LABELS = ("gpu.nvidia.com/vram", "amd.com/gpu.vram", "beta.amd.com/gpu.vram")
MEMORY_LABELS = (*_MIB_LABELS, *_VRAM_LABELS)
"""Labels that tell the memory of a GPU."""

_REPLICA_LABELS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")

_MARKS = {
    "nvidia.com/gpu.present": "true",
    "kubernetes.azure.com/accelerator": "nvidia",
    "accelerator": "nvidia",
    # node feature discovery: a display or 3D controller of NVIDIA, and of AMD
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0300_10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "feature.node.kubernetes.io/amd-gpu": "true",
}
"""Labels that say that there is some GPU, and not which."""

_MIB_PER_GIB = 1024
_BYTES_FROM = 10_000_000
"""No GPU has this many MiB; a label above it holds bytes, as old labellers wrote."""

_CLASSES = (2, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 144, 180, 192, 256, 288)


def identify(labels: Mapping[str, str]) -> GpuIdentity | None:
    """Tell which GPU a node's labels describe.

    The identity is that of the physical card, also where devices are slices or shares of it. A product that
    is not in the table becomes a model of its own under its normalised name: it is never taken for a similar
    one.

    :param labels: labels of the node.
    :return: ``None``: no label says anything (an empty value says nothing).
    """
    for key in PRODUCT_LABELS:
        value = labels.get(key, "").strip()
        if value:
            return _with_memory(_named(key, value), labels)
    from_amd = _amd_name(labels)
    if from_amd:
        return _with_memory(_named("amd", from_amd), labels)
    machine = _machine(labels)
    return None if machine is None else complete(machine)


def _machine(labels: Mapping[str, str]) -> GpuIdentity | None:
    named = next((labels[key] for key in MACHINE_LABELS if labels.get(key)), "")
    return gpu_of_instance_type(named)


def _named(key: str, value: str) -> GpuIdentity:
    product = _without_suffix(value)
    if key == _GKE and product in _GKE_NAMES:
        identity = _GKE_NAMES[product]
    else:
        read = read_driver_name if key == _PRODUCT else read_model
        identity = read(product) or GpuIdentity(model=normalised(product))
    if key in {_GKE, _KARPENTER_AWS} and identity.form_factor is None and identity.model in _SXM_ONLY:
        identity = msgspec.structs.replace(identity, form_factor="SXM")
    return identity


def _without_suffix(product: str) -> str:
    product = product.removesuffix("-SHARED")
    return product.split("-MIG-", 1)[0]


def _amd_name(labels: Mapping[str, str]) -> str | None:
    for key, value in labels.items():
        if key.startswith(_AMD_COUNTED) and value:
            return key.removeprefix(_AMD_COUNTED)
        if key.startswith(_AMD_SHORT) and value == "true" and read_model(key.removeprefix(_AMD_SHORT)):
            return key.removeprefix(_AMD_SHORT)
    return next((name for id_, name in _AMD_DEVICE_IDS.items() if _has_device_id(labels, id_)), None)


def _has_device_id(labels: Mapping[str, str], device_id: str) -> bool:
    return any(
        labels.get(key, "").lower().removeprefix("0x") == device_id or labels.get(f"{key}.{device_id}")
        for key in _AMD_DEVICE_ID_LABELS
    )


def _with_memory(identity: GpuIdentity, labels: Mapping[str, str]) -> GpuIdentity:
    """Add the measured memory class; where name and measurement differ, the smaller one is promised."""
    identity = complete(_with_machine(identity, labels))
    if "-MIG-" in labels.get(_PRODUCT, ""):
        return identity  # the memory label describes the slice, not the card
    measured = _measured_gib(labels)
    if measured is None:
        return identity
    memory_gb = memory_class(identity.model, measured)
    if identity.memory_gb is not None:
        memory_gb = min(memory_gb, identity.memory_gb)
    return msgspec.structs.replace(identity, memory_gb=memory_gb)


def _with_machine(identity: GpuIdentity, labels: Mapping[str, str]) -> GpuIdentity:
    """Add what the machine type tells of the same model where the name leaves it open."""
    machine = _machine(labels)
    if machine is None or machine.model != identity.model:
        return identity
    if identity.memory_gb is not None and identity.memory_gb != machine.memory_gb:
        return identity
    return msgspec.structs.replace(
        identity,
        memory_gb=machine.memory_gb,
        form_factor=identity.form_factor or machine.form_factor,
        variant=identity.variant or machine.variant,
    )


def _measured_gib(labels: Mapping[str, str]) -> float | None:
    for key in _MIB_LABELS:
        number = _positive(labels.get(key, ""))
        if number is not None:
            mib = number / 1024**2 if number >= _BYTES_FROM else number
            return mib / _MIB_PER_GIB
    for key in _VRAM_LABELS:
        number = _positive(labels.get(key, "").upper().removesuffix("B").removesuffix("G"))
        if number is not None:
            return number
    return None


def _positive(text: str) -> float | None:
    text = text.strip()
    return float(text) if text.isdecimal() and int(text) > 0 else None


def memory_class(model: str, measured_gib: float) -> float:
    """Return the marketed class of a measured memory: 79.6 GiB on an H100 are a card of 80 GB.

    :param model: canonical model; its own classes come first.
    :param measured_gib: as the driver reports it, which is a few per cent less than the class.
    """
    known = KNOWN_MODELS.get(model)
    if known is not None:
        closest = min(known.classes, key=lambda gb: abs(gb - measured_gib))
        if abs(closest - measured_gib) <= 0.1 * closest:
            return float(closest)
    fitting = next((gb for gb in _CLASSES if measured_gib <= gb <= measured_gib * 1.1), None)
    return float(fitting if fitting is not None else int(measured_gib))


def slice_profile(labels: Mapping[str, str]) -> str | None:
    """Return the profile when every device under the node's GPU resource is a slice of that one kind.

    So it is with MIG's strategy ``single``, with GKE's partitions and with AMD's partitions.
    """
    product = labels.get(_PRODUCT, "").removesuffix("-SHARED")
    if "-MIG-" in product:
        return product.split("-MIG-", 1)[1]
    partition = labels.get("cloud.google.com/gke-gpu-partition-size")
    if partition:
        return partition
    amd = labels.get("amd.com/gpu.compute-memory-partition", "").lower()
    return amd if amd and not amd.startswith("spx") else None


def marks_gpus(labels: Mapping[str, str]) -> bool:
    """Whether labels say that a node has GPUs, without a word on which: its driver may not be up yet."""
    return any(labels.get(key) == value for key, value in _MARKS.items())


def sharing_of(labels: Mapping[str, str], offered: int) -> str | None:
    """Say why the devices behind a node's GPU resource are not whole GPUs.

    :param labels: labels of the node.
    :param offered: how many devices the node offers under the resource.
    :return: such as ``time-slicing: 12 shares of 1 GPU``; ``None``: they are whole GPUs.
    """
    product = labels.get(_PRODUCT, "")
    profile = slice_profile(labels)
    if profile is not None:
        amd = "amd.com/gpu.compute-memory-partition" in labels
        return f"partitions of a GPU ({profile.upper()})" if amd else f"MIG slices ({profile})"
    return _shares(labels, product, offered)


def _shares(labels: Mapping[str, str], product: str, offered: int) -> str | None:
    count = labels.get("nvidia.com/gpu.count", "").strip()
    replicas = [labels.get(key, "").strip() for key in _REPLICA_LABELS]
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "") or labels.get(
        "cloud.google.com/gke-gpu-sharing-strategy", ""
    )
    shared = (
        product.endswith("-SHARED")
        or strategy not in {"", "none"}
        or any(number.isdecimal() and int(number) > 1 for number in replicas)
        or (count.isdecimal() and 0 < int(count) < offered)
    )
    if not shared:
        return None
    what = strategy if strategy not in {"", "none"} else "sharing"
    cards = f" of {count} GPU{'' if count == '1' else 's'}" if count.isdecimal() else ""
    return f"{what}: {offered} shares{cards}"
