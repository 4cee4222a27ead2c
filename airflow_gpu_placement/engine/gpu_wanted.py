"""GPUs written as ``MODEL:count``, and which nodes have them: ``A100-80GB:8``, ``H100-MIG-1g.10gb:1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.engine.capacity_pods import used_devices
from airflow_gpu_placement.engine.capacity_report import seen_nodes
from airflow_gpu_placement.engine.gpu_models import may_mean, satisfies, wanted_model
from airflow_gpu_placement.engine.pinning import Asked, pins
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.engine.capacity_report import Seen
    from airflow_gpu_placement.model.kube import Node, Pod
    from airflow_gpu_placement.model.pool import GpuPool

_SHAPE = re.compile(r"(?P<name>[^:]+?)(?:-MIG-(?P<profile>[^:]+))?(?::(?P<count>[0-9]+))?", re.IGNORECASE)


class WantedGpus(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of one pod.

    :param profile: slices of this profile instead of whole GPUs.
    :param count: GPUs or slices on one node.
    """

    name: str
    gpu: GpuIdentity
    profile: str | None = None
    count: int = 1


def request_of(text: str) -> WantedGpus:
    """Read ``MODEL:count``; without a count it is one.

    :raises ValueError: it is not of that form.
    """
    match = _SHAPE.fullmatch(text.strip())
    if match is None or match["count"] == "0":
        raise ValueError(f"{text!r} is not of the form MODEL:count; write for example 'A100-80GB:8'")
    return WantedGpus(
        name=match["name"],
        gpu=wanted_model(match["name"]),
        profile=None if match["profile"] is None else match["profile"].lower(),
        count=int(match["count"] or 1),
    )


def is_ambiguous(text: str) -> bool:
    """Whether a text may mean several known models and names none of them."""
    return len(may_mean(request_of(text).name)) > 1


def eligible_nodes(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, wanted: WantedGpus
) -> tuple[str, ...]:
    """Return the names of open nodes that have such GPUs and enough of them on one node, free or not."""
    return tuple(one.capacity.name for one in seen_nodes(nodes, pods, pool) if _has(one, wanted))


def matches(nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, wanted: WantedGpus) -> bool:
    """Whether any node has what is wanted."""
    return bool(eligible_nodes(nodes, pods, pool, wanted))


def _has(one: Seen, wanted: WantedGpus) -> bool:
    if one.capacity.closed or not satisfies(one.capacity.gpu, wanted.gpu):
        return False
    if wanted.profile is not None:
        return one.devices.slices.get(wanted.profile, 0) >= wanted.count
    return one.devices.allocatable >= wanted.count


def slice_pods(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, wanted: WantedGpus, *, if_empty: bool = False
) -> int:
    """Return how many pods with slices of the profile that is wanted fit together.

    :param if_empty: were all nodes empty and open; else what is free now counts.
    """
    found = 0
    for one in seen_nodes(nodes, pods, pool):
        resource = one.devices.slice_resources.get(wanted.profile or "")
        if resource is None or not satisfies(one.capacity.gpu, wanted.gpu):
            continue
        if if_empty:
            found += one.devices.slices[wanted.profile or ""] // wanted.count
        elif not one.capacity.closed and one.capacity.spare.get(SLOTS, 1) > 0:
            held = used_devices(pods, resource).get(one.capacity.name, 0)
            found += max(one.devices.slices[wanted.profile or ""] - held, 0) // wanted.count
    return found


def min_memory_ok(nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, min_memory_gb: float) -> bool:
    """Whether any node's GPU is known to be of this marketed memory class or a larger one."""
    known = [one.capacity.gpu for one in seen_nodes(nodes, pods, pool)]
    return any(
        gpu is not None and gpu.memory_gb is not None and gpu.memory_gb >= min_memory_gb for gpu in known
    )


def selector_for(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, wanted: WantedGpus
) -> dict[str, str]:
    """Return the labels that keep a job on the nodes that have what it wants, as a plain node selector.

    Choosing the right pool is not enough where it has several kinds of GPU: without a selector the scheduler
    may use any of them. A remote job carries a node affinity instead, which takes several values of a label.

    :return: empty: every node will do, or it takes several values to name the right ones.
    """
    seen = seen_nodes(nodes, pods, pool)
    right = [one.capacity.labels for one in seen if satisfies(one.capacity.gpu, wanted.gpu)]
    wrong = [one.capacity.labels for one in seen if not satisfies(one.capacity.gpu, wanted.gpu)]
    if not right or not wrong:
        return {}
    found = pins(right, wrong, Asked(gpu=True, memory=wanted.gpu.memory_gb is not None))
    if any(len(values) > 1 for values in found.values()):
        return {}
    return {key: values[0] for key, values in found.items()}


def job_resource_name(
    nodes: Sequence[Node], pods: Sequence[Pod], pool: GpuPool, wanted: WantedGpus | None = None
) -> str | None:
    """Return the resource that a job has to ask for, as the nodes offer it and not as labels spell it.

    :param wanted: ``None``: whatever the nodes have, which must be of one kind.
    :return: ``None``: the nodes have no such thing.
    """
    seen = seen_nodes(nodes, pods, pool)
    names: set[str] = set()
    for one in seen:
        if wanted is None or wanted.profile is not None:
            names |= {
                resource
                for profile, resource in one.devices.slice_resources.items()
                if wanted is None or profile == wanted.profile
            }
        if one.devices.allocatable and (wanted is None or wanted.profile is None):
            names.add(pool.gpu.resource_name)
    return next(iter(names)) if len(names) == 1 else None
