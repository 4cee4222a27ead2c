"""Who pays, where data is, and what moving it costs."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.pool import CapacityType


class Egress(StrEnum):
    """Whether a dataset may leave its locations."""

    ALLOW = "allow"
    DENY = "deny"


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """Data that jobs read.

    :param size_gib: what has to be moved when it is not there yet, in GiB.
    :param locations: regions that have it.
    :param egress: ``deny``: only pools in one of its locations may read it.
    :param residency: regions that it may be copied to; empty: any.
    """

    name: str
    size_gib: float
    locations: tuple[str, ...]
    egress: Egress = Egress.ALLOW
    residency: tuple[str, ...] = ()


class EgressRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Price and speed of moving data between two regions; ``*`` stands for any region.

    :param usd_per_gib: price in USD for one GiB.
    :param gbps: throughput in Gbit/s.
    """

    source: str
    target: str
    usd_per_gib: float
    gbps: float = 5.0
    origin: str = "default"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Named preferences of a job.

    :param value_of_time_usd_per_hour: what an hour of waiting or training is worth to its author, in USD.
    :param capacity_types: allowed; empty: all.
    :param price_cap_usd_per_gpu_hour: dearer pools are refused; ``None``: no cap.
    """

    name: str
    value_of_time_usd_per_hour: float
    capacity_types: tuple[CapacityType, ...] = ()
    price_cap_usd_per_gpu_hour: float | None = None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Who a task belongs to, resolved on the server's side and never from an author's text.

    :param teams: Airflow team names.
    :param dags: globs of dag ids, for installations without teams.
    :param pools: globs of allowed pool names; empty: all.
    :param max_gpus: most GPUs that it may hold at once; ``None``: no limit.
    :param monthly_budget_usd: money for one calendar month (UTC); ``None``: no limit.
    :param max_priority: a request's priority counts at most this much.
    """

    name: str
    teams: tuple[str, ...] = ()
    dags: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    max_gpus: int | None = None
    monthly_budget_usd: float | None = None
    max_priority: int = 0


BUILT_IN_PROFILES = (
    Profile(name="cheapest", value_of_time_usd_per_hour=0.0),
    Profile(name="balanced", value_of_time_usd_per_hour=10.0),
    Profile(name="fastest", value_of_time_usd_per_hour=1000.0),
)
