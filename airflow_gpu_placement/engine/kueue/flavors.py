"""Which flavours of a queue stand for a GPU pool, by Kueue's own rule for node labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.gpu_models import satisfies
from airflow_gpu_placement.engine.taints import not_tolerated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.kube import Toleration
    from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, ResourceFlavor, ResourceGroup
    from airflow_gpu_placement.model.pool import GpuIdentity


def group_of(queue: ClusterQueue, resource: str) -> ResourceGroup | None:
    """Return the resource group that covers a resource; ``None``: the queue has no quota for it at all."""
    return next((one for one in queue.spec.resource_groups if resource in one.covered_resources), None)


def flavors_for(
    objects: KueueObjects,
    queue: ClusterQueue,
    resource: str,
    *,
    selector: Mapping[str, str],
    wanted: Sequence[GpuIdentity] = (),
    tolerations: Sequence[Toleration] | None = None,
) -> tuple[str, ...]:
    """Return the flavours in which a job with this selector may be admitted, in the queue's order.

    The selector is compared only on labels that some flavour of the group names: where it has such a label,
    the flavour must have the same. A flavour whose labels tell another GPU than is wanted, or whose taints
    are not tolerated, is out.

    :param wanted: any of these GPUs; empty: any at all. A flavour that tells no GPU is then taken.
    :param tolerations: of the job; ``None``: taints of flavours are not looked at.
    """
    group = group_of(queue, resource)
    if group is None:
        return ()
    known = {one.name: objects.flavor(one.name) for one in group.flavors}
    keys = {key for flavor in known.values() if flavor is not None for key in flavor.spec.node_labels}
    asked = {key: value for key, value in selector.items() if key in keys}
    return tuple(
        name
        for name, flavor in known.items()
        if flavor is not None
        and asked.items() <= flavor.spec.node_labels.items()
        and _has_gpu(flavor, wanted)
        and _tolerated(flavor, tolerations)
    )


def _has_gpu(flavor: ResourceFlavor, wanted: Sequence[GpuIdentity]) -> bool:
    told = identify(flavor.spec.node_labels)
    return not wanted or told is None or any(satisfies(told, one) for one in wanted)


def _tolerated(flavor: ResourceFlavor, tolerations: Sequence[Toleration] | None) -> bool:
    if tolerations is None:
        return True
    return not not_tolerated(flavor.spec.node_taints, [*tolerations, *flavor.spec.tolerations])
