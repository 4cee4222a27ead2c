"""Write discovered pools as a catalogue that a person finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_gpu_placement.catalog.discover import Discovery, FoundPool
    from airflow_gpu_placement.model.kube import Toleration
    from airflow_gpu_placement.model.pool import GpuPool

_FEW = 4
_WIDTH = 100


def catalogue_yaml(found: Discovery, *, server: str, at: datetime) -> str:
    """Write the pools of a cluster as a catalogue with a comment for everything that a person must fill in.

    What the cluster tells at any time (model, memory, number of GPUs) stays out: it is read for each
    decision.

    :param server: address of the cluster's API, for the heading.
    :param at: when it was read.
    """
    rows = [
        f"# GPU pools of the cluster at {server}, as it was {at.isoformat(timespec='seconds')}.",
        "# GPU model, memory and number are read from the nodes for each decision and need not be written.",
        "version: 1",
        "pools:",
    ]
    for one in found.pools:
        rows += _pool(one)
    if found.left_out:
        rows += ["", "# Left out:", *(f"#   {text}" for text in found.left_out)]
    return "\n".join(rows) + "\n"


def _pool(found: FoundPool) -> Iterable[str]:
    yield ""
    yield f"  # {_summary(found)}"
    for remark in found.remarks:
        yield f"  # look at this: {remark}"
    lines = yaml.safe_dump(pool_fields(found.pool), sort_keys=False, width=_WIDTH).splitlines()
    yield f"  - {lines[0]}"
    for line in lines[1:]:
        yield f"    {line}"
    if found.gpu is None:
        yield "    # gpu:"
        yield "    #   model:            # fill in: no label names it"
    yield "    # price:"
    yield "    #   gpu_hour_usd:       # fill in: USD for one GPU and hour; without it this pool ranks last"
    yield "    #   source:             # fill in: where that price comes from"
    yield "    # max_nodes:            # fill in when the pool adds nodes to itself; then also"
    for line in _when_it_grows(found):
        yield f"    # {line}"


def _summary(found: FoundPool) -> str:
    size = " or ".join(str(number) for number in found.per_node)
    machine = f", {found.machine_type}" if found.machine_type else ""
    names = ", ".join(found.nodes[:_FEW])
    more = f" and {len(found.nodes) - _FEW} more" if len(found.nodes) > _FEW else ""
    plural = "" if len(found.nodes) == 1 else "s"
    return f"{len(found.nodes)} node{plural} x {size} {found.gpu or 'unknown GPU'}{machine}: {names}{more}"


def _when_it_grows(found: FoundPool) -> Iterable[str]:
    gpu = found.gpu
    told: dict[str, Any] = {}
    if gpu is not None:
        memory_gb = None if gpu.memory_gb is None else f"{gpu.memory_gb:g}"
        told = {"model": gpu.model, "memory_gb": memory_gb, "form_factor": gpu.form_factor}
    yield "gpu:"
    for key, value in {**told, "per_node": max(found.per_node)}.items():
        if value is not None:
            yield f"  {key}: {value}"


def pool_fields(pool: GpuPool) -> dict[str, Any]:
    """Return a pool as the keys of the catalogue file, without those that say nothing."""
    cluster, place = pool.cluster, pool.place
    default_resource = type(pool.gpu)().resource_name
    resource = pool.gpu.resource_name
    fields: dict[str, Any] = {
        "name": pool.name,
        "kubernetes_conn_id": cluster.kubernetes_conn_id,
        "context": cluster.context,
        "cluster_uid": cluster.uid,
        "namespace": cluster.namespace,
        "cloud": place.cloud,
        "region": place.region,
        "zone": place.zone,
        "capacity_type": str(pool.capacity_type),
        "gpu": {"resource_name": resource} if resource != default_resource else None,
        "node_selector": dict(pool.node_selector) or None,
        "tolerations": tolerations_as_keys(pool.tolerations) or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def tolerations_as_keys(tolerations: Iterable[Toleration]) -> list[dict[str, Any]]:
    """Return tolerations as they are written in the catalogue file."""
    written: list[dict[str, Any]] = msgspec.to_builtins(list(tolerations))
    return written
