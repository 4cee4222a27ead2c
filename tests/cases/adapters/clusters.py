"""Nodes, pods and pools of a case, as the product's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.gpu_devices import gpu_resource_of
from airflow_gpu_placement.engine.gpu_models import wanted_model
from airflow_gpu_placement.model.kube import Node, Pod, Toleration
from airflow_gpu_placement.model.pool import ClusterRef, DeclaredGpu, GpuPool, Growth
from tests.cases.adapters.reading import by_key, by_type, with_keys, without_nulls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cases.adapters.reading import Facts

A_POOL = "the-pool"
_READY = {"conditions": [{"type": "Ready", "status": "True"}]}

Cluster = tuple[tuple[Node, ...], tuple[Pod, ...], GpuPool]
"""Nodes and pods of a cluster, and the pool through which the run looks at them."""


class RunsWith(GpuPool, frozen=True, kw_only=True):
    """A pool whose jobs carry the tolerations that a case names and no other.

    The product's own carry one for the taint of GPU nodes besides, and so do they where a case names none.
    """

    @property
    def job_tolerations(self) -> tuple[Toleration, ...]:
        """Return those alone."""
        return self.tolerations


def clusters_of(facts: Facts) -> dict[str, Cluster]:
    """Read the pools of a case by name; nodes without a pool are one."""
    clusters: dict[str, Cluster] = by_key(
        facts,
        {
            "pools": lambda pools: {
                name: _cluster({**facts, "nodes": [], **pool}, name)
                for name, pool in with_keys(_without_nothing(pools), "nodes", "declared").items()
            },
            "nodes": lambda _: {A_POOL: _cluster(facts, A_POOL)},
            "node": lambda node: {A_POOL: _cluster({**facts, "nodes": [node]}, A_POOL)},
        },
        default={},
    )
    return clusters


def pools_of(facts: Facts) -> tuple[str, ...]:
    """Return the names of the pools of which the nodes are known."""
    return tuple(clusters_of(facts))


def all_pools_of(facts: Facts) -> tuple[str, ...]:
    """Return the names of all pools, those of which a case gives only a row too."""
    names: tuple[str, ...] = by_key(facts, {"pools": tuple}, otherwise=lambda: pools_of(facts))
    return names


def _cluster(facts: Facts, name: str) -> Cluster:
    tolerations = by_key(facts, {"job_tolerations": list}, default=[])
    kind = by_key(facts, {"job_tolerations": lambda _: RunsWith}, default=GpuPool)
    declared = by_key(facts, {"declared": _declaration}, default={})
    nodes = msgspec.convert([_node(one) for one in without_nulls(facts["nodes"])], tuple[Node, ...])
    return (
        nodes,
        msgspec.convert(without_nulls(facts.get("pods", [])), tuple[Pod, ...]),
        kind(
            name=name,
            cluster=ClusterRef(kubernetes_conn_id=name),
            gpu=msgspec.structs.replace(_declared_gpu(declared), resource_name=gpu_resource_of(nodes)),
            growth=Growth(max_nodes=declared.get("autoscale_max_nodes")),
            tolerations=msgspec.convert(tolerations, tuple[Toleration, ...]),
        ),
    )


def _without_nothing(pools: Mapping[str, Any]) -> dict[str, Any]:
    """Write a pool of which a case says nothing as one of which nothing is declared."""
    return {
        name: by_type(pool, {type(None): lambda _: {"declared": None}, object: lambda given: given})
        for name, pool in pools.items()
    }


def _node(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read a node; one whose conditions a case leaves out altogether is ready."""
    return {**given, "status": {**_READY, **given.get("status", {})}}


def _declaration(declared: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Read what is declared of a pool; null: nothing is."""
    return by_type(declared, {type(None): lambda _: {}, dict: without_nulls})  # type: ignore[no-any-return]  # any JSON


def _declared_gpu(declared: Mapping[str, Any]) -> DeclaredGpu:
    per_node = declared.get("gpus_per_node")
    return by_key(  # type: ignore[no-any-return]  # a reader of JSON returns anything
        declared,
        {"gpu": lambda text: _named_gpu(text, per_node)},
        default=DeclaredGpu(per_node=per_node),
    )


def _named_gpu(text: str, per_node: int | None) -> DeclaredGpu:
    gpu = wanted_model(text)
    return DeclaredGpu(
        model=gpu.model, memory_gb=gpu.memory_gb, form_factor=gpu.form_factor, per_node=per_node
    )
