"""The sections of people: profiles (what they prefer) and tenants (who pays)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.catalog.reader import Key, Keys, named
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from collections.abc import Iterable

_CAPACITY_TYPE = read.choice(*(kind.value for kind in CapacityType))

PROFILE_KEYS: Keys = {
    "name": Key(read.name, "What operators name.", needed="a profile needs a name"),
    "value_of_time_usd_per_hour": Key(
        read.number(least=0),
        "What an hour of waiting or training is worth to the author, in USD.",
        needed="it is what tells profiles apart; 0 looks at money alone",
    ),
    "capacity_types": Key(read.many(_CAPACITY_TYPE, least=1), "Allowed kinds of capacity.", "all"),
    "price_cap_usd_per_gpu_hour": Key(
        read.optional(read.number(least=0)), "Dearer pools, and those without a price, are refused.", "no cap"
    ),
}

TENANT_KEYS: Keys = {
    "name": Key(read.name, "Unique; money is counted under it.", needed="a tenant needs a name"),
    "teams": Key(read.many(read.text), "Airflow teams that it is.", "none"),
    "dags": Key(
        read.many(read.text), "Globs of the dag ids that it is, for DAGs that belong to no team.", "none"
    ),
    "pools": Key(read.many(read.text, least=1), "Globs of the pools that it may use.", "all"),
    "max_gpus": Key(
        read.optional(read.whole_number(1)), "A job that asks for more GPUs is refused.", "no limit"
    ),
    "monthly_budget_usd": Key(
        read.optional(read.number(least=0)),
        "Money for a calendar month (UTC) in USD; a job that would cost more than is left is refused.",
        "no limit",
    ),
    "max_priority": Key(read.whole_number(), "A request's priority counts at most this much.", "0"),
}

profiles = named("profile", PROFILE_KEYS)
tenants = named("tenant", TENANT_KEYS)


def built_profiles(given: Iterable[dict[str, Any]]) -> tuple[Profile, ...]:
    """Build profiles, the built-in ones first; one of the same name replaces a built-in one."""
    by_name = {profile.name: profile for profile in BUILT_IN_PROFILES}
    for values in given:
        kinds = tuple(CapacityType(kind) for kind in values.get("capacity_types", ()))
        by_name[values["name"]] = Profile(**{**values, "capacity_types": kinds})
    return tuple(by_name.values())


def built_tenants(given: Iterable[dict[str, Any]]) -> tuple[Tenant, ...]:
    """Build tenants."""
    return tuple(Tenant(**values) for values in given)
