"""For each reason code the smallest change that is sure to clear it, as a path and a new value.

What the author can change comes first (the request), then what the platform team can (the catalogue, a
budget), then what only time can (nodes that become free).
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.engine.clearing_nodes import free_up, more_nodes, seen_again
from airflow_gpu_placement.engine.filters.egress import allowed_regions
from airflow_gpu_placement.engine.filters.node_resources import too_little
from airflow_gpu_placement.engine.filters.pool_size import largest_node, most_pods
from airflow_gpu_placement.engine.matching import interconnect
from airflow_gpu_placement.model.reasons import ReasonCode
from airflow_gpu_placement.model.words import NETWORK_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.view import PoolView

Edit = tuple[tuple[str | int, ...], Any]
"""Where to write, and what."""


def edits(code: ReasonCode, view: PoolView) -> list[Edit]:
    """Return what clears a code that a pool was refused for."""
    return _EDITS[code](view)


def _model(view: PoolView) -> list[Edit]:
    names = [identity.model for identity in view.identities[:1]]
    return [(("request", "models"), [*view.request.models, *names] if names else [])]


def _memory(view: PoolView) -> list[Edit]:
    stage = view.stage("memory")
    sizes = [kind.gpu.memory_gb for kind in stage.candidates if kind.gpu is not None] if stage else []
    return [(("request", "min_memory_gb"), max((size for size in sizes if size is not None), default=None))]


def _form_factor(view: PoolView) -> list[Edit]:
    stage = view.stage("form_factor")
    forms = [kind.gpu.form_factor for kind in stage.candidates if kind.gpu is not None] if stage else []
    known = sorted({form for form in forms if form is not None})
    return [(("request", "form_factors"), [*view.request.form_factors, known[0]] if known else [])]


def _interconnect(view: PoolView) -> list[Edit]:
    stage = view.stage("interconnect")
    offered = {interconnect(view.pool, kind) for kind in stage.candidates} if stage else set()
    return [(("request", "interconnect"), "nvlink" if "nvlink" in offered else None)]


def _architecture(view: PoolView) -> list[Edit]:
    stage = view.stage("architecture")
    known = {kind.architecture for kind in stage.candidates if kind.architecture} if stage else set()
    excluded = view.question.history.excluded_architectures
    found: list[Edit] = []
    if view.request.architecture not in {None, *(known - excluded.keys())}:
        found.append((("request", "architecture"), min(known, default=None)))
    if known & excluded.keys():
        left = {name: why for name, why in excluded.items() if name not in known}
        found.append((("history", "excluded_architectures"), left))
    return found


def _network(view: PoolView) -> list[Edit]:
    asked, offered = view.request.network, view.pool.network
    found: list[Edit] = []
    if asked.kinds and (offered.kind or "").lower() not in asked.kinds:
        known = [offered.kind.lower()] if offered.kind and offered.kind.lower() in NETWORK_KINDS else []
        found.append((("request", "network", "kinds"), [*asked.kinds, *known] if known else []))
    if asked.min_gbps is not None and (offered.gbps is None or offered.gbps < asked.min_gbps):
        found.append((("request", "network", "min_gbps"), offered.gbps or None))
    if not found:
        found = [(("request", "network", key), False) for key in ("same_zone", "same_fabric")]
    return found


def _pool_size(view: PoolView) -> list[Edit]:
    quota, request = view.quota, view.request
    if view.known and quota is not None and quota.potential < request.total_gpus:
        return [(("signals", "quota", quota.local_queue, "potential"), request.total_gpus)]
    largest, pods = largest_node(view), most_pods(view)
    if view.has_whole_gpus and largest and largest < request.gpus_per_node:
        return [(("request", "gpus_per_node"), largest)]
    if view.has_whole_gpus and pods and pods < request.nodes:
        return [(("request", "nodes"), pods)]
    return more_nodes(view)


def _history(view: PoolView) -> list[Edit]:
    excluded = view.question.history.excluded_pools
    return [(("history", "excluded_pools"), _without(excluded, view.pool.name))]


def _lost_nodes(view: PoolView) -> list[Edit]:
    return [(("history", "lost_nodes", view.pool.name), [])]


def _start(view: PoolView) -> list[Edit]:
    missed = msgspec.to_builtins(view.question.history.start_timeouts)
    return [(("history", "start_timeouts"), _without(missed, view.pool.name))]


def _refused(view: PoolView) -> list[Edit]:
    refusals = msgspec.to_builtins(view.question.history.refusals)
    return [(("history", "refusals"), _without(refusals, view.pool.name))]


def _without(by_pool: dict[str, Any], pool_name: str) -> dict[str, Any]:
    return {name: value for name, value in by_pool.items() if name != pool_name}


def _tenant(view: PoolView) -> list[Edit]:
    tenant, total = view.question.setting.tenant, view.question.total_gpus
    if tenant is not None and not view.question.tenant_may_use(view.pool.name):
        return [(("setting", "tenant", "pools"), [*tenant.pools, view.pool.name])]
    if tenant is not None and tenant.max_gpus is not None and total > tenant.max_gpus:
        return [(("setting", "tenant", "max_gpus"), total)]
    queues = sorted(view.signals.quota) if view.signals is not None else []
    owner = "*" if tenant is None else tenant.name
    return [(("pool", "kueue", "local_queues", owner), queues[0] if queues else "gpu-placement")]


def _egress(view: PoolView) -> list[Edit]:
    region, setting = view.pool.place.region, view.question.setting
    for name in view.request.data:
        dataset = setting.datasets.get(name)
        if dataset is None:
            return [(("request", "data"), [other for other in view.request.data if other != name])]
        allowed = allowed_regions(dataset)
        if allowed is None or region in allowed:
            continue
        if region is None:
            return [(("pool", "place", "region"), allowed[0] if allowed else "anywhere")]
        return [(("setting", "datasets", name, "locations"), [*dataset.locations, region])]
    return []


def _region(view: PoolView) -> list[Edit]:
    where, region = view.request.where, view.pool.place.region
    found: list[Edit] = []
    if where.regions and region not in where.regions:
        found.append((("request", "where", "regions"), [] if region is None else [*where.regions, region]))
    if where.denied_regions and (region is None or region in where.denied_regions):
        left = [] if region is None else [other for other in where.denied_regions if other != region]
        found.insert(0, (("request", "where", "denied_regions"), left))
    return found


def _capacity_type(view: PoolView) -> list[Edit]:
    stage = view.stage("capacity_type")
    kind = min({one.capacity_type for one in stage.candidates}) if stage else view.pool.capacity_type
    found: list[Edit] = []
    asked, profile = view.request.where.capacity_types, view.question.setting.profile
    if asked and kind not in asked:
        found.append((("request", "where", "capacity_types"), [*asked, kind]))
    if profile.capacity_types and kind not in profile.capacity_types:
        found.append((("setting", "profile", "capacity_types"), [*profile.capacity_types, kind]))
    return found


def _price_known(view: PoolView) -> list[Edit]:
    cap, left = view.question.price_cap, view.question.budget_left_usd
    most = math.inf if cap is None else cap
    if left is not None:
        hours = view.billed_gpus * view.basis.held_hours
        most = min(most, max(left - view.basis.egress_usd, 0.0) / hours)
    return [(("pool", "price", "gpu_hour_usd"), math.floor(most * 100) / 100)]


def _price_cap(view: PoolView) -> list[Edit]:
    price = view.cash_price
    found: list[Edit] = []
    caps: tuple[tuple[tuple[str, ...], float | None], ...] = (
        (("request",), view.request.price_cap_usd_per_gpu_hour),
        (("setting", "profile"), view.question.setting.profile.price_cap_usd_per_gpu_hour),
    )
    for path, cap in caps:
        if cap is not None and price is not None and price > cap:
            found.append(((*path, "price_cap_usd_per_gpu_hour"), price))
    return found


def _budget(view: PoolView) -> list[Edit]:
    tenant, knowledge = view.question.setting.tenant, view.question.setting.knowledge
    spent = knowledge.spent_usd.get(tenant.name, 0.0) if tenant is not None else 0.0
    needed = math.ceil((spent + (view.basis.cash_usd or 0.0)) * 100 + 1) / 100
    return [(("setting", "tenant", "monthly_budget_usd"), needed)]


def _deadline(view: PoolView) -> list[Edit]:
    question, time = view.question, view.request.time
    hours = math.ceil(view.hours_to_end * 100 + 1) / 100
    if time.deadline is not None:
        return [(("request", "time", "deadline"), msgspec.to_builtins(question.now + timedelta(hours=hours)))]
    gone = (question.now - (question.history.since or question.now)).total_seconds() / 3600
    return [(("request", "time", "complete_within_hours"), math.ceil((gone + hours) * 100) / 100)]


def _queue(view: PoolView) -> list[Edit]:
    return [(("signals", "quota", view.local_queue or "", "stopped_because"), None)]


def _quota(view: PoolView) -> list[Edit]:
    tenant, total = view.question.setting.tenant, view.question.total_gpus
    if tenant is not None and tenant.max_gpus is not None:
        held = view.question.setting.knowledge.held_gpus.get(tenant.name, 0)
        if held + total > tenant.max_gpus >= total:
            return [(("setting", "knowledge", "held_gpus", tenant.name), tenant.max_gpus - total)]
    return [(("signals", "quota", view.local_queue or "", "available"), total + view.unseen_gpus)]


def _node_resources(view: PoolView) -> list[Edit]:
    """Ask for none of what is too little on most nodes; pod slots only others can free."""
    short = next((resource for resource, _ in too_little(view).most_common() if resource != SLOTS), None)
    return free_up(view) if short is None else [(("setting", "pod_resources", short), "0")]


def _signals(view: PoolView) -> list[Edit]:
    if view.known and view.local_queue is not None and view.quota is None:
        total = view.question.total_gpus + view.unseen_gpus
        quota = {
            "local_queue": view.local_queue,
            "cluster_queue": view.local_queue,
            "flavor": view.pool.kueue.flavor or view.pool.name,
            "available": total,
            "potential": total,
        }
        return [(("signals", "quota", view.local_queue), quota)]
    return more_nodes(view) if view.known else seen_again(view)


def _signal_age(view: PoolView) -> list[Edit]:
    return [(("signals", "observed_at"), msgspec.to_builtins(view.question.now))]


_EDITS: dict[ReasonCode, Callable[[PoolView], list[Edit]]] = {
    ReasonCode.CONNECTION_MISSING: _signals,
    ReasonCode.WRONG_CLUSTER: _signals,
    ReasonCode.CREDENTIALS_REFUSED: _signals,
    ReasonCode.ACCESS_FORBIDDEN: _signals,
    ReasonCode.CLUSTER_UNREACHABLE: _signals,
    ReasonCode.SIGNALS_MISSING: _signals,
    ReasonCode.SIGNALS_TOO_OLD: _signal_age,
    ReasonCode.GPU_MODEL_NOT_OFFERED: _model,
    ReasonCode.GPU_MEMORY_TOO_SMALL: _memory,
    ReasonCode.FORM_FACTOR_NOT_OFFERED: _form_factor,
    ReasonCode.INTERCONNECT_NOT_OFFERED: _interconnect,
    ReasonCode.NETWORK_NOT_OFFERED: _network,
    ReasonCode.ARCHITECTURE_MISMATCH: _architecture,
    ReasonCode.CAPACITY_TYPE_NOT_ALLOWED: _capacity_type,
    ReasonCode.REGION_NOT_ALLOWED: _region,
    ReasonCode.EGRESS_DENIED: _egress,
    ReasonCode.TENANT_NOT_ALLOWED: _tenant,
    ReasonCode.PRICE_CAP_EXCEEDED: _price_cap,
    ReasonCode.PRICE_UNKNOWN: _price_known,
    ReasonCode.BUDGET_EXHAUSTED: _budget,
    ReasonCode.DEADLINE_UNREACHABLE: _deadline,
    ReasonCode.QUOTA_EXHAUSTED: _quota,
    ReasonCode.QUEUE_STOPPED: _queue,
    ReasonCode.EXCEEDS_POOL_SIZE: _pool_size,
    ReasonCode.EXCLUDED_BY_HISTORY: _history,
    ReasonCode.NODES_LOST: _lost_nodes,
    ReasonCode.START_TIMED_OUT: _start,
    ReasonCode.JOB_REFUSED: _refused,
    ReasonCode.INSUFFICIENT_FREE_GPUS: free_up,
    ReasonCode.GANG_DOES_NOT_FIT: free_up,
    ReasonCode.NODE_RESOURCES_TAKEN: _node_resources,
    ReasonCode.NODES_NOT_SCHEDULABLE: free_up,
}
