"""The pools of a catalogue document."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.catalog.pool_keys import MERGED, pool_keys
from airflow_gpu_placement.catalog.pricing import gpu_hour_usd, machine_gpu_hour_usd
from airflow_gpu_placement.catalog.reader import fields, refuse_duplicates, shown
from airflow_gpu_placement.engine.own_models import read_own
from airflow_gpu_placement.model.outcome import LossPolicy
from airflow_gpu_placement.model.pool import (
    CapacityType,
    ClusterRef,
    DeclaredGpu,
    Execution,
    GpuPool,
    Growth,
    KueueQueue,
    Place,
    PoolNetwork,
    Price,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_gpu_placement.catalog.problems import Problems
    from airflow_gpu_placement.model.gpu_model import GpuModel


class PoolsRead(NamedTuple):
    """The pools of a document; of no use when a problem was noted.

    :param machine_usd: pool name -> what the machine adds to the price of a GPU hour, where a list has it.
    """

    pools: tuple[GpuPool, ...] = ()
    machine_usd: Mapping[str, float] = MappingProxyType({})


def read_pools(document: dict[str, Any], problems: Problems, own: Mapping[str, GpuModel]) -> PoolsRead:
    """Read the sections ``defaults`` and ``pools``.

    :param own: GPU models that the catalogue adds, by spelling.
    """
    keys = pool_keys(own)
    defaults: dict[str, Any] = {}
    if document.get("defaults") is not None:
        shared = {key: about for key, about in keys.items() if key != "name"}
        defaults = fields(document["defaults"], "defaults", problems, shared)
    entries = document["pools"]
    if not isinstance(entries, list) or not entries:
        given = "an empty list" if entries == [] else shown(entries)
        problems.add("pools", f"must be a list of at least one pool, not {given}")
        return PoolsRead()
    reading = _Reading(problems, own, defaults)
    found = [reading.pool(entry, f"pools[{index}]") for index, entry in enumerate(entries)]
    refuse_duplicates(entries, "pools", problems)
    return PoolsRead(tuple(pool for pool in found if pool is not None), reading.machine_usd)


def laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay the keys of a pool over others: some sections are added to key by key, anything else replaced."""
    values = {**below, **above}
    for section in MERGED:
        if isinstance(below.get(section), dict) and isinstance(above.get(section), dict):
            values[section] = {**below[section], **above[section]}
    return values


class _Reading:
    """Reads the pools of one document, over the same defaults."""

    def __init__(self, problems: Problems, own: Mapping[str, GpuModel], defaults: dict[str, Any]) -> None:
        self._problems = problems
        self._own = own
        self._keys = pool_keys(own)
        self._defaults = defaults
        self.machine_usd: dict[str, float] = {}

    def pool(self, entry: Any, path: str) -> GpuPool | None:
        """Read one pool."""
        before = len(self._problems.found)
        given = fields(entry, path, self._problems, self._keys)
        if not isinstance(entry, dict):
            return None
        values = laid_over(self._defaults, given)
        self._need_all(entry, values, path)
        self._check_price(values, path)
        self._check_kueue(entry, values, path)
        if len(self._problems.found) > before:
            if isinstance(entry.get("name"), str):
                self._problems.name_it(before, "pool", entry["name"])
            return None
        return self._built(values)

    def _need_all(self, entry: dict[str, Any], values: dict[str, Any], path: str) -> None:
        """Note what a pool needs and neither it nor the defaults give; a wrong value was noted already."""
        for key, about in self._keys.items():
            if about.needed is not None and key not in values and key not in entry:
                self._problems.add(f"{path}.{key}", f"is missing; {about.needed}")
        section = entry.get("gpu")
        if values.get("gpu", {}).get("per_node") is not None:
            return
        if isinstance(section, dict) and section.get("per_node") is not None:
            return
        price = values.get("price") or {}
        why = None
        if values.get("max_nodes") is not None:
            why = "a pool with max_nodes can be empty, and then nothing else tells how large a node is"
        elif price.get("node_hour_usd") is not None:
            why = "price.node_hour_usd cannot be split without it"
        elif price.get("machine_hour_usd") is not None:
            why = "price.machine_hour_usd cannot be split without it"
        if why is not None:
            self._problems.add(f"{path}.gpu.per_node", f"is missing; {why}")

    def _check_price(self, values: dict[str, Any], path: str) -> None:
        price = values.get("price") or {}
        by_gpu, by_node = price.get("gpu_hour_usd"), price.get("node_hour_usd")
        if by_gpu is not None and by_node is not None:
            self._problems.add(f"{path}.price", "gives both gpu_hour_usd and node_hour_usd; keep one")

    def _check_kueue(self, entry: dict[str, Any], values: dict[str, Any], path: str) -> None:
        queued = values.get("execution", Execution.JOB) != Execution.JOB
        queues = values.get("kueue", {}).get("local_queues")
        if queued and not queues and "kueue" not in entry:
            self._problems.add(
                f"{path}.kueue.local_queues",
                'is missing; name the LocalQueue that jobs are put into, such as {"*": training}',
            )
        if not queued and entry.get("kueue") is not None and "execution" not in entry:
            self._problems.add(
                f"{path}.kueue", "has no effect on plain Jobs; write 'execution: kueue', or remove it"
            )

    def _built(self, values: dict[str, Any]) -> GpuPool:
        price = dict(values.get("price") or {})
        gpu = self._declared(values.get("gpu", {}))
        usd = gpu_hour_usd(price, gpu.per_node)
        self.machine_usd[values["name"]] = machine_gpu_hour_usd(price, gpu.per_node)
        for key in ("gpu_hour_usd", "node_hour_usd", "machine_hour_usd"):
            price.pop(key, None)
        plain = {key: value for key, value in values.items() if key not in {"price", "gpu"}}
        for key, make in _MADE.items():
            if key in plain:
                plain[key] = make(plain[key])
        groups = {
            group: make(**{field: plain.pop(key) for key, field in keys.items() if key in plain})
            for group, (make, keys) in _GROUPS.items()
        }
        return GpuPool(**plain, **groups, gpu=gpu, price=Price(gpu_hour_usd=usd, **price))

    def _declared(self, gpu: dict[str, Any]) -> DeclaredGpu:
        plain = dict(gpu)
        named = read_own(plain["model"], self._own) if plain.get("model") is not None else None
        if named is not None:
            plain["model"] = named.model
            for key, value in (("memory_gb", named.memory_gb), ("form_factor", named.form_factor)):
                if plain.get(key) is None:
                    plain[key] = value
        return DeclaredGpu(**plain)


_MADE: dict[str, Callable[[Any], Any]] = {
    "capacity_type": CapacityType,
    "execution": Execution,
    "network": lambda given: PoolNetwork(**given),
    "kueue": lambda given: KueueQueue(**given),
}
"""Key -> what makes the value of :class:`GpuPool` of it."""

_GROUPS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "cluster": (
        ClusterRef,
        {
            "kubernetes_conn_id": "kubernetes_conn_id",
            "context": "context",
            "cluster_uid": "uid",
            "namespace": "namespace",
        },
    ),
    "place": (Place, {key: key for key in Place.__struct_fields__}),
    "growth": (Growth, {key: key for key in Growth.__struct_fields__}),
    "loss": (LossPolicy, {key: key for key in LossPolicy.__struct_fields__}),
}
"""Group of :class:`GpuPool` -> its class, and which key of the YAML is which field of it."""
