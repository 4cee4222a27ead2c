"""What must agree between the sections of a catalogue."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_gpu_placement.catalog.problems import Problems
    from airflow_gpu_placement.model.money import Dataset, Tenant
    from airflow_gpu_placement.model.pool import GpuPool

ANY_TENANT = "*"


def check_references(pools: Sequence[GpuPool], tenants: Sequence[Tenant], problems: Problems) -> None:
    """Note every name that leads nowhere; the entries are in the order of the document."""
    names = [pool.name for pool in pools]
    for index, tenant in enumerate(tenants):
        before = len(problems.found)
        for inner, glob in enumerate(tenant.pools):
            if not any(fnmatchcase(name, glob) for name in names):
                problems.add(f"tenants[{index}].pools[{inner}]", f"{glob!r} matches no pool")
        if not tenant.teams and not tenant.dags:
            problems.add(f"tenants[{index}]", "has neither teams nor dags, so that no task is ever its own")
        problems.name_it(before, "tenant", tenant.name)
    known = {tenant.name for tenant in tenants}
    for index, pool in enumerate(pools):
        for name in pool.kueue.local_queues:
            if name != ANY_TENANT and name not in known:
                listed = ", ".join(sorted(known)) or "no tenant is defined"
                problems.add(
                    f"pools[{index}].kueue.local_queues.{name}",
                    f"{name!r} is not a tenant ({listed}); '*' stands for any",
                )


class FarLocation(NamedTuple):
    """A location of a dataset in a region that no pool is said to be in.

    :param path: of the location in the document.
    """

    dataset: Dataset
    region: str
    path: str


def far_locations(pools: Iterable[GpuPool], datasets: Iterable[Dataset]) -> Iterator[FarLocation]:
    """Find data that is far from every pool; the entries are in the order of the document."""
    regions = {pool.place.region for pool in pools}
    for index, dataset in enumerate(datasets):
        for inner, region in enumerate(dataset.locations):
            if region not in regions:
                yield FarLocation(dataset, region, f"datasets[{index}].locations[{inner}]")


def warnings_of(pools: Iterable[GpuPool], datasets: Iterable[Dataset], problems: Problems) -> tuple[str, ...]:
    """Tell what is allowed but probably not meant: each far location, in the same order."""
    return tuple(
        f"{problems.where(far.path)}: no pool is said to be in region {far.region!r} "
        f"(dataset {far.dataset.name!r})"
        for far in far_locations(pools, datasets)
    )
