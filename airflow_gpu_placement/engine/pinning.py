"""Labels that keep a job on the nodes that have what it wants, also against nodes that join later.

A node's name keeps the job off that node alone. A label says it of every node, present or to come, but only
labels that all of the right nodes carry can be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.bought import PURCHASE_LABELS
from airflow_gpu_placement.engine.capacity_fabric import ARCHITECTURE_LABELS, ZONE_LABELS
from airflow_gpu_placement.engine.gpu import (
    AMD_PREFIXES,
    MACHINE_LABELS,
    MEMORY_LABELS,
    PRODUCT_LABELS,
    identify,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_gpu_placement.engine.view import PoolView

Labels = dict[str, str]
Pins = dict[str, tuple[str, ...]]
"""Label -> its accepted values."""

_SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"

_BEFORE_BOOT = frozenset(
    {
        "cloud.google.com/gke-accelerator",
        "karpenter.k8s.aws/instance-gpu-name",
        "karpenter.k8s.aws/instance-gpu-memory",
        "eks.amazonaws.com/instance-gpu-name",
        "eks.amazonaws.com/instance-gpu-memory",
        "karpenter.azure.com/sku-gpu-name",
        "k8s.amazonaws.com/accelerator",
        *MACHINE_LABELS,
        *ARCHITECTURE_LABELS,
        *ZONE_LABELS,
        *PURCHASE_LABELS,
    }
)
"""Labels that a cloud gives to a node that it is about to add. The others are put on by a program that runs
on the node: asking for them would keep an autoscaler from adding any."""

_OLD_AND_NEW = (MACHINE_LABELS, ARCHITECTURE_LABELS, ZONE_LABELS)
"""Labels that say the same, the usual one first; a node has both or one."""

_TELLING = (
    *PRODUCT_LABELS,
    *MEMORY_LABELS,
    _SHARING_LABEL,
    *MACHINE_LABELS,
    *ARCHITECTURE_LABELS,
    *ZONE_LABELS,
    *PURCHASE_LABELS,
)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the right nodes must have, whether or not there is a wrong one now.

    :param gpu: a certain GPU; ``memory``: of a certain memory class; ``architecture``: certain processors.
    :param zone: all of them are in one zone; ``fabric``: on one fabric.
    :param new_nodes: the job needs nodes that the pool has yet to add.
    """

    gpu: bool = False
    memory: bool = False
    architecture: bool = False
    zone: bool = False
    fabric: bool = False
    new_nodes: bool = False


def telling_labels(labels: Mapping[str, str], fabric_label: str | None = None) -> Labels:
    """Return those of a node's labels that tell its GPUs, its processors, where it is, how it is bought.

    :param fabric_label: the label that tells its fabric.
    """
    found = {key: labels[key] for key in _TELLING if labels.get(key)}
    for usual, old in _OLD_AND_NEW:
        if usual in found:
            found.pop(old, None)  # each node is kept with every decision
    if found.keys().isdisjoint(PRODUCT_LABELS):
        found |= {key: labels[key] for key in sorted(labels) if key.startswith(AMD_PREFIXES) and labels[key]}
    if fabric_label is not None and labels.get(fabric_label):
        found[fabric_label] = labels[fabric_label]
    return found


def pins(right: Sequence[Labels], wrong: Sequence[Labels], asked: Asked) -> Pins:
    """Return what the right nodes have in common: labels that all of them carry, with their values.

    First the labels that tell what is asked for, then as many more as keep out wrong nodes. What is left over
    of the wrong nodes has to be kept out by name.
    """
    if not right:
        return {}
    common = set(right[0]).intersection(*right[1:])
    if asked.new_nodes:
        common &= _BEFORE_BOOT
    accepted = {key: {labels[key] for labels in right} for key in right[0] if key in common}
    chosen = _told_by(accepted, asked)
    left = [labels for labels in wrong if not _kept_out(labels, chosen, accepted)]
    while left:
        keeps_out = {key: sum(_kept_out(labels, [key], accepted) for labels in left) for key in accepted}
        best = max(keeps_out, key=keeps_out.__getitem__, default="")  # the first of equals
        if not keeps_out.get(best):
            break
        chosen.append(best)
        left = [labels for labels in left if not _kept_out(labels, [best], accepted)]
    return {key: tuple(sorted(accepted[key])) for key in chosen}


def node_labels(view: PoolView) -> Pins:
    """Return the labels that a node must carry to take the job: of a mixed pool, or for what it asks for.

    What the pool's own selector demands is left out.
    """
    kept_off, others = set(view.avoid_nodes), view.wrong_nodes - view.excluded
    right = [node.labels for node in view.nodes if node.name not in kept_off]
    wrong = [node.labels for node in view.nodes if node.name in others]
    network = view.request.network
    gpu = ("model", "memory", "form_factor", "interconnect")
    asked = Asked(
        gpu=any(view.stage(name) is not None for name in gpu),
        memory=view.stage("memory") is not None or any(one.memory_gb for one in view.question.wanted),
        architecture=view.stage("architecture") is not None,
        zone=view.question.together and network.same_zone,
        fabric=view.question.together and network.same_fabric,
        new_nodes=view.fits_now < view.question.pods,
    )
    found = pins(right, wrong, asked)
    return {key: values for key, values in found.items() if key not in view.pool.node_selector}


def _told_by(accepted: Mapping[str, set[str]], asked: Asked) -> list[str]:
    """Return the labels that tell what is asked for, as far as the right nodes carry any."""
    chosen: list[str] = []
    if asked.gpu or asked.memory:
        chosen += _first(accepted, PRODUCT_LABELS) or _amd(accepted) or _first(accepted, MACHINE_LABELS)
    if asked.memory and not all(_tells_memory(key, accepted[key]) for key in chosen[:1]):
        chosen += _first(accepted, (*MEMORY_LABELS, *MACHINE_LABELS))
    if asked.architecture:
        chosen += _first(accepted, ARCHITECTURE_LABELS)
    if asked.zone:
        chosen += _first(accepted, ZONE_LABELS)
    if asked.fabric:
        chosen += [key for key in accepted if key not in _TELLING and not key.startswith(AMD_PREFIXES)]
    return list(dict.fromkeys(chosen))


def _first(accepted: Mapping[str, set[str]], keys: Iterable[str]) -> list[str]:
    return [key for key in keys if key in accepted][:1]


def _amd(accepted: Mapping[str, set[str]]) -> list[str]:
    """Return the label of AMD's that names the product in its key."""
    return [key for key in accepted if key.startswith(AMD_PREFIXES) and identify({key: "true"})][:1]


def _tells_memory(key: str, values: set[str]) -> bool:
    seen = [identify({key: value}) for value in values]
    return all(gpu is not None and gpu.memory_gb is not None for gpu in seen)


def _kept_out(labels: Labels, keys: Iterable[str], accepted: Mapping[str, set[str]]) -> bool:
    return any(labels.get(key) not in accepted[key] for key in keys)
