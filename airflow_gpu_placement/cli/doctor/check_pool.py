"""What is wrong with one pool of the catalogue, seen beside the nodes that are really there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog.discover import discover, tolerate
from airflow_gpu_placement.catalog.discovered_yaml import tolerations_as_keys
from airflow_gpu_placement.catalog.node_facts import lasting_taints, node_facts
from airflow_gpu_placement.catalog.pool_entry import written
from airflow_gpu_placement.cli.doctor.check_mixed import capacity_type_in
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity, entry_lines
from airflow_gpu_placement.engine.own_models import by_spelling, recognise
from airflow_gpu_placement.engine.taints import not_tolerated, words
from airflow_gpu_placement.engine.view import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
    from airflow_gpu_placement.model.gpu_model import GpuModel
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity


def check_pool(pool: GpuPool, seen_nodes: SeenNodes | None, own: Sequence[GpuModel] = ()) -> list[Finding]:
    """Return everything that is wrong with a pool.

    :param seen_nodes: every node of its cluster; ``None``: they could not be read.
    :param own: GPU models that the catalogue adds.
    """
    found = [*_price(pool)]
    if seen_nodes is None:
        return found
    pool = seen_nodes.with_their_resource(pool)
    seen = _recognised(seen_nodes.of_pool(pool), own)
    if not seen:
        return [*found, *_no_node(pool, seen_nodes)]
    members = seen_nodes.members(pool)
    return [
        *found,
        *_gpu_unknown(pool, seen),
        *_gpu_differs(pool, seen),
        *_facts_differ(pool, members),
        *_taints(pool, members),
    ]


def _recognised(seen: Iterable[NodeCapacity], own: Sequence[GpuModel]) -> tuple[NodeCapacity, ...]:
    spelled = by_spelling(own)
    return tuple(
        one if one.gpu is None else msgspec.structs.replace(one, gpu=recognise(one.gpu, spelled))
        for one in seen
    )


def _finding(pool: GpuPool, id_: FindingId, severity: Severity, what: str, keys: dict[str, Any]) -> Finding:
    return Finding(
        id=id_,
        severity=severity,
        where=f"pool {pool.name!r}",
        what=what,
        fix=entry_lines("pools", {"name": pool.name, **keys}),
        kind=FixKind.CATALOG,
        pool=pool.name,
    )


def _asking(finding: Finding, **meanings: str) -> Finding:
    """Say what a person has to fill in."""
    return msgspec.structs.replace(
        finding, fill_in=tuple((f"<{place}>", meaning) for place, meaning in meanings.items())
    )


def _price(pool: GpuPool) -> Iterable[Finding]:
    if pool.price.gpu_hour_usd is None:
        what = (
            "has no price: it ranks after every pool with one, and fails every price cap and budget; "
            "only you know it"
        )
        keys = {"price": {**written(pool.price), "gpu_hour_usd": "<USD>"}}
        yield _asking(
            _finding(pool, FindingId.PRICE_MISSING, Severity.WARNING, what, keys),
            USD="what one GPU costs for an hour in USD, such as 2.5; 0 when nobody pays for it",
        )


def _no_node(pool: GpuPool, seen_nodes: SeenNodes) -> Iterable[Finding]:
    if pool.growth.max_nodes is not None:
        return  # a pool that grows may be empty
    selector = ", ".join(f"{key}={value}" for key, value in pool.node_selector.items()) or "no selector"
    what = f"no node of the cluster offers {pool.gpu.resource_name} and matches {selector}"
    found = discover(seen_nodes, pool.cluster).pools
    like = [
        one
        for one in found
        if pool.gpu.model is None or (one.gpu is not None and one.gpu.model == pool.gpu.model)
    ]
    if len(like) == 1:
        keys = {"node_selector": dict(like[0].pool.node_selector)}
        yield _finding(pool, FindingId.NO_NODE_MATCHES, Severity.ERROR, what, keys)
        return
    context = f" --context {pool.cluster.context}" if pool.cluster.context else ""
    yield Finding(
        id=FindingId.NO_NODE_MATCHES,
        severity=Severity.ERROR,
        where=f"pool {pool.name!r}",
        what=f"{what}; see what is there and take the node_selector of the right pool",
        fix=f"airflow gpu-placement discover --conn-id {pool.cluster.kubernetes_conn_id}{context}",
        kind=FixKind.COMMAND,
        pool=pool.name,
    )


def _gpu_unknown(pool: GpuPool, seen: Sequence[NodeCapacity]) -> Iterable[Finding]:
    nameless = [one.name for one in seen if one.gpu is None]
    if pool.gpu.model is None and nameless:
        what = f"no label of {few(nameless)} names the GPU, nor does the pool; only you know it"
        keys = {"gpu": {**written(pool.gpu), "model": "<MODEL>"}}
        yield _asking(
            _finding(pool, FindingId.GPU_UNKNOWN, Severity.ERROR, what, keys),
            MODEL="model of the GPUs of this pool, such as H100 or nvidia-a100-80gb; it is what "
            f"'nvidia-smi --query-gpu=name --format=csv,noheader' prints on {nameless[0]}",
        )


def _gpu_differs(pool: GpuPool, seen: Sequence[NodeCapacity]) -> Iterable[Finding]:
    observed: dict[str, set[Any]] = {
        "model": {one.gpu.model for one in seen if one.gpu is not None},
        "memory_gb": {one.gpu.memory_gb for one in seen if one.gpu is not None},
        "form_factor": {one.gpu.form_factor for one in seen if one.gpu is not None},
        "per_node": {one.capacity for one in seen if one.capacity},
    }
    corrected = written(pool.gpu)
    wrong = []
    for field, values in observed.items():
        said = getattr(pool.gpu, field)
        told = values - {None}
        if said is None or not told or told == {said}:
            continue
        wrong.append(f"gpu.{field} is {said}, but the nodes say {' or '.join(sorted(map(str, told)))}")
        if len(told) == 1:
            corrected[field] = told.pop()
        else:
            corrected.pop(field)  # then read from each node
    if wrong:
        yield _finding(
            pool, FindingId.SIGNAL_CONTRADICTS_CATALOG, Severity.WARNING, "; ".join(wrong), {"gpu": corrected}
        )


def _facts_differ(pool: GpuPool, members: Sequence[Node]) -> Iterable[Finding]:
    facts = [node_facts(node) for node in members]
    bought = {capacity_type_in(pool, node) for node in members}
    if len(bought) == 1 and bought != {pool.capacity_type}:
        yield _fact_differs(pool, "capacity_type", str(pool.capacity_type), str(bought.pop()))
    said = {
        "region": pool.place.region,
        "zone": pool.place.zone,
        "cloud": pool.place.cloud,
        "architecture": pool.architecture,
    }
    for field, value in said.items():
        told = {str(one) for fact in facts if (one := getattr(fact, field)) is not None}
        if value is not None and len(told) == 1 and told != {value}:
            yield _fact_differs(pool, field, value, *told)


def _fact_differs(pool: GpuPool, field: str, said: str, real: str) -> Finding:
    what = f"{field} is {said}, but the labels of its nodes say {real}"
    return _finding(pool, FindingId.SIGNAL_CONTRADICTS_CATALOG, Severity.WARNING, what, {field: real})


def _taints(pool: GpuPool, members: Sequence[Node]) -> Iterable[Finding]:
    blocking = {
        taint: node.metadata.name
        for node in members
        for taint in not_tolerated(lasting_taints(node), pool.job_tolerations)
    }
    kept_off = [node for node in members if not_tolerated(lasting_taints(node), pool.job_tolerations)]
    if len(kept_off) < len(members) or not blocking:
        return  # some nodes can be used; a taint on the others may be there to keep jobs off
    what = f"no node can be used: jobs do not tolerate {', '.join(words(taint) for taint in blocking)}"
    tolerations = (*pool.tolerations, *(tolerate(taint) for taint in blocking))
    yield _finding(
        pool,
        FindingId.TAINT_NOT_TOLERATED,
        Severity.ERROR,
        what,
        {"tolerations": tolerations_as_keys(tolerations)},
    )
