"""What the catalogue says to one task: who pays, what is preferred, where data is, what moving it costs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.catalog.egress_prices import published_route
from airflow_gpu_placement.engine.check_request import contradictions_of
from airflow_gpu_placement.engine.own_models import with_canonical_models
from airflow_gpu_placement.exceptions import CatalogError, RequestError
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.catalog.loader import Catalog
    from airflow_gpu_placement.catalog.sections import Content
    from airflow_gpu_placement.model.estimate import Knowledge
    from airflow_gpu_placement.model.money import Dataset, EgressRoute, Tenant
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.request import GpuRequest

DEFAULT_PROFILE = "cheapest"

UNKNOWN_REGION = "unknown"
"""Where a pool is that does not say its region: only routes to anywhere lead there."""


class Resolved(NamedTuple):
    """A request and what it is decided in.

    :param request: with the priority that its tenant allows, and models under their own names.
    :param remarks: what was changed, for the log.
    """

    request: GpuRequest
    setting: Setting
    remarks: tuple[str, ...] = ()


def resolve(
    catalog: Catalog,
    request: GpuRequest,
    *,
    profile: str,
    dag_id: str,
    team: str | None,
) -> Resolved:
    """Look up everything that a request refers to.

    :param profile: name of a profile.
    :param team: Airflow's own team of the DAG run; ``None``: it has none.
    :raises RequestError: the author named something that does not exist, or asks for the impossible.
    :raises CatalogError: it cannot be told who pays.
    """
    tenant = tenant_of(catalog, dag_id=dag_id, team=team)
    wrong = contradictions_of(request, catalog.gpu_models, catalog.pools)
    chosen = {known.name: known for known in catalog.profiles}.get(profile)
    if chosen is None:
        wrong.append(f"profile: there is no profile {profile!r}; {_instead(profile, catalog.profiles)}")
    datasets = {dataset.name: dataset for dataset in catalog.datasets}
    for name in request.data:
        if name not in datasets:
            wrong.append(f"gpu.data: there is no dataset {name!r}; {_instead(name, catalog.datasets)}")
    if wrong or chosen is None:
        raise RequestError("\n".join(wrong))
    read = {name: datasets[name] for name in request.data}
    setting = Setting(
        profile=chosen,
        tenant=tenant,
        datasets=read,
        egress=routes(catalog, read.values(), None),
    )
    request = with_canonical_models(request, catalog.gpu_models)
    if tenant is None or request.priority <= tenant.max_priority:
        return Resolved(request, setting)
    remark = f"priority {request.priority} counts as {tenant.max_priority}, the most of tenant {tenant.name}"
    return Resolved(request.model_copy(update={"priority": tenant.max_priority}), setting, (remark,))


def informed(catalog: Content, setting: Setting, knowledge: Knowledge) -> Setting:
    """Add what was learnt of a task to its setting, and the routes of its newest checkpoint."""
    moved = routes(catalog, setting.datasets.values(), knowledge.checkpoint_region)
    return msgspec.structs.replace(setting, egress=moved, knowledge=knowledge)


def routed(catalog: Content, setting: Setting, pools: Sequence[GpuPool]) -> Setting:
    """Add the ways to the regions that only the nodes of pools tell.

    :param pools: those of the catalogue, each where it turned out to be.
    """
    if all(pool.place.region_source is None for pool in pools):
        return setting
    moved = routes(catalog, setting.datasets.values(), setting.knowledge.checkpoint_region, pools)
    return msgspec.structs.replace(setting, egress=moved)


def _instead(name: str, known: Iterable[object]) -> str:
    return nearest(name, [str(getattr(entry, "name", "")) for entry in known])


def tenant_of(catalog: Catalog, *, dag_id: str, team: str | None) -> Tenant | None:
    """Tell who pays, from what Airflow's server says and never from what an author writes.

    A run of a team belongs to the tenant that lists the team; globs of dag ids are looked at only for runs
    without a team, so that nobody spends another team's money by naming a DAG.

    :return: ``None``: the catalogue defines no tenants.
    :raises CatalogError: no tenant or more than one.
    """
    if not catalog.tenants:
        return None
    if team is not None:
        who, key = f"team {team!r}", "teams"
        found = [tenant for tenant in catalog.tenants if team in tenant.teams]
    else:
        who, key = f"DAG {dag_id!r}", "dags"
        found = [
            tenant for tenant in catalog.tenants if any(fnmatchcase(dag_id, glob) for glob in tenant.dags)
        ]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(tenant.name for tenant in found)
        problem = f"{who} belongs to {names}; take it out of all of them but one"
    else:
        problem = f"{who} belongs to no tenant; add it to '{key}' of one of them"
    raise CatalogError([f"{catalog.path}:tenants: {problem}"])


def routes(
    catalog: Content,
    datasets: Iterable[Dataset],
    checkpoint_region: str | None,
    pools: Sequence[GpuPool] | None = None,
) -> tuple[EgressRoute, ...]:
    """Give each way that data may have to go its price: from where it is to each region with a pool.

    :param checkpoint_region: where the newest checkpoint is; ``None``: there is none.
    :param pools: those of the catalogue when more is known of them than it says.
    """
    pools = catalog.pools if pools is None else pools
    targets = sorted({pool.place.region or UNKNOWN_REGION for pool in pools})
    sources = {region for dataset in datasets for region in dataset.locations}
    if checkpoint_region is not None:
        sources.add(checkpoint_region)
    clouds = {
        pool.place.region: pool.place.cloud
        for pool in pools
        if pool.place.region is not None and pool.place.cloud is not None
    }
    return tuple(
        _route(catalog, source, target) or published_route(source, target, clouds)
        for source in sorted(sources)
        for target in targets
        if source != target
    )


def _route(catalog: Content, source: str, target: str) -> EgressRoute | None:
    for route in catalog.egress:
        if fnmatchcase(source, route.source) and fnmatchcase(target, route.target):
            return msgspec.structs.replace(route, source=source, target=target)
    return None
