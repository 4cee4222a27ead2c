"""What one decision asks of every pool: the request with its setting, read once for all pools."""

from __future__ import annotations

import re
from datetime import timedelta
from fnmatch import translate
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.capacity_load import SLOTS
from airflow_gpu_placement.engine.gpu_models import satisfies, wanted_model
from airflow_gpu_placement.engine.lazy import lazy
from airflow_gpu_placement.engine.quantity import units
from airflow_gpu_placement.model.estimate import Estimate
from airflow_gpu_placement.model.money import EgressRoute
from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_gpu_placement.engine.costs.moves import Options
    from airflow_gpu_placement.engine.matching import Narrowed, Narrowing
    from airflow_gpu_placement.model.decision import History, Setting
    from airflow_gpu_placement.model.pool import GpuIdentity
    from airflow_gpu_placement.model.request import GpuRequest

UNKNOWN_ROUTE = EgressRoute(source="*", target="*", usd_per_gib=0.12, gbps=5.0, origin="default")
"""Stands for a route that the catalogue does not name: a careful price, that of leaving a large cloud."""


class Question:
    """A request, its setting and its history at one moment; derived values are computed at most once.

    :param offered_models: models of all pools, for messages.
    """

    def __init__(self, request: GpuRequest, setting: Setting, history: History, now: datetime) -> None:
        self.request = request
        self.setting = setting
        self.history = history
        self.now = now
        self.offered_models: tuple[str, ...] = ()
        self.gpus_per_node = request.gpus_per_node
        self.pods = request.nodes
        self.total_gpus = request.total_gpus
        self.narrowed: dict[Narrowing, Narrowed] = {}
        """What was found out about the same kinds of node in another pool."""
        self.moves: dict[str | None, Options] = {}
        """What has to be moved to a region and from where it may come, found out for another pool there."""
        self.runtimes: dict[tuple[GpuIdentity, ...], Estimate] = {}
        """Runtimes on the GPUs of another pool."""
        self._runtimes: dict[GpuIdentity, float | None] = {}
        self._words: dict[tuple[GpuIdentity, ...], str] = {}
        self._routes: dict[tuple[str, str], EgressRoute] = {}

    @lazy
    def wanted(self) -> tuple[GpuIdentity, ...]:
        """GPUs that the request names; empty: any."""
        return tuple(wanted_model(text) for text in self.request.models)

    @lazy
    def beside(self) -> dict[str, int]:
        """Needs of a pod beside GPUs on its node: always a slot, and what it asks for."""
        asked = self.setting.pod_resources
        needs = {one: units(one, quantity, round_up=True) for one, quantity in asked.items()}
        return {SLOTS: 1, **{resource: amount for resource, amount in needs.items() if amount > 0}}

    @lazy
    def together(self) -> bool:
        """Whether the gang must stay inside one zone or fabric; one pod always does."""
        network = self.request.network
        return self.pods > 1 and (network.same_zone or network.same_fabric)

    @lazy
    def capacity_types(self) -> tuple[tuple[str, tuple[CapacityType, ...]], ...]:
        """Who bounds how the capacity is bought, and the kinds that they allow; empty: all."""
        profile = self.setting.profile
        return (
            ("the job", self.request.where.capacity_types),
            (f"profile {profile.name}", profile.capacity_types),
        )

    @lazy
    def bounds_capacity_type(self) -> bool:
        """Whether any kind of capacity is left out."""
        return any(allowed for _, allowed in self.capacity_types)

    @lazy
    def refuses_spot(self) -> bool:
        """Whether the job must not run on capacity that may be taken away."""
        return any(allowed and CapacityType.SPOT not in allowed for _, allowed in self.capacity_types)

    @lazy
    def price_cap(self) -> float | None:
        """Return the lower of the request's and the profile's cap, in USD for a GPU and an hour."""
        caps = (
            self.request.price_cap_usd_per_gpu_hour,
            self.setting.profile.price_cap_usd_per_gpu_hour,
        )
        return min((cap for cap in caps if cap is not None), default=None)

    @lazy
    def checkpoint_interval(self) -> Estimate | None:
        """Hours between checkpoints; ``None``: there are none, or nothing tells."""
        checkpoint = self.request.checkpoint
        if checkpoint.uri is None or checkpoint.interval_minutes is None:
            return None
        return Estimate(value=checkpoint.interval_minutes / 60, source="given")

    @lazy
    def budget_left_usd(self) -> float | None:
        """Money that the tenant has left in this month; ``None``: no limit."""
        tenant = self.setting.tenant
        if tenant is None or tenant.monthly_budget_usd is None:
            return None
        return tenant.monthly_budget_usd - self.setting.knowledge.spent_usd.get(tenant.name, 0.0)

    @lazy
    def hours_left(self) -> float | None:
        """Hours until the deadline, negative when it has passed; ``None``: there is none."""
        time = self.request.time
        deadline = time.deadline
        if deadline is None and time.complete_within_hours is not None:
            deadline = (self.history.since or self.now) + timedelta(hours=time.complete_within_hours)
        return None if deadline is None else (deadline - self.now).total_seconds() / 3600

    def runtime_given(self, gpu: GpuIdentity) -> float | None:
        """Return the runtime that the request gives for a GPU; ``None``: it gives none."""
        if not self._runtimes_by_model:
            return None
        if gpu not in self._runtimes:
            self._runtimes[gpu] = next(
                (hours for wanted, hours in self._runtimes_by_model if satisfies(gpu, wanted)), None
            )
        return self._runtimes[gpu]

    @lazy
    def _runtimes_by_model(self) -> tuple[tuple[GpuIdentity, float], ...]:
        """Runtimes that the request gives for single models, the most specific name first."""
        given = self.request.time.runtime_hours_by_model
        read = [(wanted_model(name), hours) for name, hours in given.items()]
        return tuple(sorted(read, key=lambda pair: (pair[0].memory_gb is None, str(pair[0]))))

    def words(self, gpus: tuple[GpuIdentity, ...]) -> str:
        """Name GPUs for people; most pools have the same."""
        found = self._words.get(gpus)
        if found is None:
            found = self._words[gpus] = ", ".join(map(str, gpus))
        return found

    def tenant_may_use(self, pool_name: str) -> bool:
        """Whether the tenant's list of pools covers a pool."""
        pattern = self._tenant_pools
        return pattern is None or pattern.match(pool_name) is not None

    @lazy
    def _tenant_pools(self) -> re.Pattern[str] | None:
        """Match the names that the tenant's list covers; ``None``: it covers all."""
        tenant = self.setting.tenant
        if tenant is None or not tenant.pools:
            return None
        return re.compile("|".join(translate(glob) for glob in tenant.pools))

    def route(self, source: str, target: str) -> EgressRoute:
        """Return the route between two regions: the most exact of the catalogue's, the cheapest of equals."""
        key = (source, target)
        if key not in self._routes:
            matching = [
                route
                for route in self.setting.egress
                if route.source in {source, "*"} and route.target in {target, "*"}
            ]
            self._routes[key] = min(matching, key=_rank_of_route, default=UNKNOWN_ROUTE)
        return self._routes[key]


def _rank_of_route(route: EgressRoute) -> tuple[int, bool, float, float]:
    stars = (route.source == "*") + (route.target == "*")
    return stars, route.source == "*", route.usd_per_gib, -route.gbps
