"""The pools of a catalogue document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.engine.gpu_models import FORM_FACTORS, read_model, suggest
from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.pool import CapacityType, DeclaredGpu, GpuPool

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.fields import Reader
    from airflow_gpu_placement.catalog.problems import Problems

_MERGED = ("gpu", "node_selector")
"""Sections of ``defaults`` that a pool adds to key by key; every other one it replaces as a whole."""


def read_pools(document: Any, problems: Problems) -> tuple[GpuPool, ...]:
    """Read a whole document.

    :return: its pools; of no use when a problem was noted.
    """
    top = read.fields(
        document,
        "",
        problems,
        {"version": _version, "defaults": _nothing_yet, "pools": _nothing_yet},
    )
    if not isinstance(document, dict):
        return ()
    if "version" not in document:
        problems.add("version", "is missing; write 'version: 1'")
    if "pools" not in document:
        problems.add("pools", "is missing; list at least one pool")
        return ()
    defaults: dict[str, Any] = {}
    if top.get("defaults") is not None:
        defaults = read.fields(
            top["defaults"], "defaults", problems, {key: _FIELDS[key] for key in _FIELDS if key != "name"}
        )
    entries = document["pools"]
    if not isinstance(entries, list) or not entries:
        problems.add("pools", f"must be a list of at least one pool, not {read.shown(entries)}")
        return ()
    found = [_pool(entry, f"pools[{index}]", problems, defaults) for index, entry in enumerate(entries)]
    _refuse_duplicates(entries, problems)
    return tuple(pool for pool in found if pool is not None)


def _nothing_yet(value: Any, path: str, problems: Problems) -> Any:  # noqa: ARG001 - is a reader
    return value


def _version(value: Any, path: str, problems: Problems) -> int | None:
    if value != 1 or isinstance(value, bool):
        problems.add(path, f"must be 1, not {read.shown(value)}: this release reads version 1")
        return None
    return 1


def _refuse_duplicates(entries: list[Any], problems: Problems) -> None:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            problems.add(f"pools[{index}].name", f"{name!r} is the name of pools[{first[name]}] already")
        first.setdefault(name, index)


def _pool(entry: Any, path: str, problems: Problems, defaults: dict[str, Any]) -> GpuPool | None:
    before = len(problems.found)
    given = read.fields(entry, path, problems, _FIELDS)
    if not isinstance(entry, dict):
        return None
    values = {**defaults, **given}
    for section in _MERGED:
        if section in defaults and section in given:
            values[section] = {**defaults[section], **given[section]}
    _need_all(entry, values, path, problems)
    gpu = values.get("gpu", {})
    price = _gpu_hour_usd(values.get("price") or {}, gpu, path, problems)
    if len(problems.found) > before:
        if isinstance(entry.get("name"), str):
            problems.name_the_pool(before, entry["name"])
        return None
    return _built(values, gpu, price)


def _need_all(entry: dict[str, Any], values: dict[str, Any], path: str, problems: Problems) -> None:
    """Note what a pool needs and neither it nor the defaults give; a wrong value was noted already."""
    for key, why in _NEEDED.items():
        if key not in values and key not in entry:
            problems.add(f"{path}.{key}", f"is missing; {why}")
    section = entry.get("gpu")
    if "gpu" in values and values["gpu"].get("per_node") is not None:
        return
    if isinstance(section, dict) and section.get("per_node") is not None:
        return
    price = values.get("price") or {}
    if values.get("max_nodes") is not None:
        why = "a pool with max_nodes can be empty, and then nothing else tells how large a node is"
        problems.add(f"{path}.gpu.per_node", f"is missing; {why}")
    elif price.get("node_hour_usd") is not None:
        problems.add(f"{path}.gpu.per_node", "is missing; price.node_hour_usd cannot be split without it")


_NEEDED = {
    "name": "a pool needs a name",
    "kubernetes_conn_id": "name the Airflow connection of the pool's cluster",
}


def _built(values: dict[str, Any], gpu: dict[str, Any], gpu_hour_usd: float | None) -> GpuPool:
    price = values.get("price") or {}
    plain = {key: value for key, value in values.items() if key not in {"price", "gpu"}}
    if "capacity_type" in plain:
        plain["capacity_type"] = CapacityType(plain["capacity_type"])
    return GpuPool(**plain, gpu=_declared(gpu), gpu_hour_usd=gpu_hour_usd, price_source=price.get("source"))


def _declared(gpu: dict[str, Any]) -> DeclaredGpu:
    plain = dict(gpu)
    named = read_model(plain["model"]) if plain.get("model") is not None else None
    if named is not None:
        plain["model"] = named.model
        for key, value in (("memory_gb", named.memory_gb), ("form_factor", named.form_factor)):
            if plain.get(key) is None:
                plain[key] = value
    return DeclaredGpu(**plain)


def _gpu_hour_usd(price: dict[str, Any], gpu: dict[str, Any], path: str, problems: Problems) -> float | None:
    by_gpu, by_node = price.get("gpu_hour_usd"), price.get("node_hour_usd")
    if by_gpu is not None and by_node is not None:
        problems.add(f"{path}.price", "gives both gpu_hour_usd and node_hour_usd; keep one")
    elif by_node is not None and gpu.get("per_node") is not None:
        return float(by_node) / int(gpu["per_node"])
    return None if by_gpu is None else float(by_gpu)


def _gpu(value: Any, path: str, problems: Problems) -> dict[str, Any]:
    found = read.fields(value, path, problems, _GPU_FIELDS)
    named = read_model(found["model"]) if found.get("model") is not None else None
    memory_gb = found.get("memory_gb")
    if named is not None and None not in {named.memory_gb, memory_gb} and named.memory_gb != memory_gb:
        problems.add(
            f"{path}.memory_gb", f"is {memory_gb:g}, but the model says {named.memory_gb:g}; keep one"
        )
    return found


def _model(value: Any, path: str, problems: Problems) -> str | None:
    found = read.text(value, path, problems)
    if found is not None and read_model(found) is None:
        problems.add(
            path,
            f"{found!r} is not a known GPU model; {suggest(found)} For a model newer than this release leave "
            "the key out: the nodes' own labels then name it",
        )
        return None
    return found


def _form_factor(value: Any, path: str, problems: Problems) -> str | None:
    folded = {known.casefold(): known for known in FORM_FACTORS}
    if isinstance(value, str) and value.casefold() in folded:
        return folded[value.casefold()]
    found: str | None = read.choice(*FORM_FACTORS)(value, path, problems)
    return found


def _price(value: Any, path: str, problems: Problems) -> dict[str, Any]:
    return read.fields(value, path, problems, _PRICE_FIELDS)


def _tolerations(value: Any, path: str, problems: Problems) -> tuple[Toleration, ...]:
    if not isinstance(value, list):
        problems.add(path, f"must be a list of tolerations, not {read.shown(value)}")
        return ()
    found = []
    for index, item in enumerate(value):
        inside = f"{path}[{index}]"
        before = len(problems.found)
        given = read.fields(item, inside, problems, _TOLERATION_FIELDS)
        if len(problems.found) > before:
            continue
        if given.get("operator", "Equal") == "Exists" and given.get("value"):
            problems.add(inside, "operator Exists takes no value")
        elif not given.get("key") and given.get("operator") != "Exists":
            problems.add(inside, "needs a key, or operator: Exists to tolerate everything")
        else:
            found.append(msgspec.convert(given, Toleration))
    return tuple(found)


_GPU_FIELDS: dict[str, Reader] = {
    "model": read.optional(_model),
    "memory_gb": read.optional(read.number(above=0)),
    "form_factor": read.optional(_form_factor),
    "per_node": read.optional(read.whole_number(1)),
    "resource_name": read.text,
}

_PRICE_FIELDS: dict[str, Reader] = {
    "gpu_hour_usd": read.optional(read.number(least=0)),
    "node_hour_usd": read.optional(read.number(least=0)),
    "source": read.optional(read.text),
}

_TOLERATION_FIELDS: dict[str, Reader] = {
    "key": read.text,
    "operator": read.choice("Exists", "Equal"),
    "value": read.text,
    "effect": read.choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "tolerationSeconds": read.optional(read.whole_number(0)),
}

_FIELDS: dict[str, Reader] = {
    "name": read.name,
    "kubernetes_conn_id": read.text,
    "context": read.optional(read.text),
    "cluster_uid": read.optional(read.text),
    "namespace": read.namespace,
    "cloud": read.optional(read.text),
    "region": read.optional(read.text),
    "zone": read.optional(read.text),
    "capacity_type": read.choice(*(kind.value for kind in CapacityType)),
    "gpu": _gpu,
    "node_selector": read.labels,
    "tolerations": _tolerations,
    "price": read.optional(_price),
    "max_nodes": read.optional(read.whole_number(1)),
    "node_grace_seconds": read.number(above=0),
    "cluster_grace_seconds": read.number(above=0),
    "node_deletion_is_proof": read.flag,
}
