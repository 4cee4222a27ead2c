"""A pool as its whole entry in the catalogue, to be written beside those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog.discovered_yaml import pool_fields
from airflow_gpu_placement.model.pool import GpuPool

if TYPE_CHECKING:
    from collections.abc import Mapping

_FLAT = ("growth", "loss")
"""Groups of a pool whose fields are keys of the pool itself."""

_SECTIONS = ("gpu", "network", "price", "kueue")
_PLAIN = ("architecture", "interruptions_per_gpu_hour", "execution", "max_signal_age_seconds")


def whole_entry(pool: GpuPool) -> dict[str, Any]:
    """Return every key of a pool that says more than a pool says by itself."""
    usual = GpuPool(name=pool.name, cluster=pool.cluster)
    entry = pool_fields(pool)
    for group in _FLAT:
        entry |= written(getattr(pool, group), getattr(usual, group))
    for section in _SECTIONS:
        keys = written(getattr(pool, section), getattr(usual, section))
        if keys:
            entry[section] = keys
    own, others = msgspec.to_builtins(pool), msgspec.to_builtins(usual)
    return entry | {key: own[key] for key in _PLAIN if own[key] != others[key]}


def written(section: msgspec.Struct, usual: msgspec.Struct | None = None) -> dict[str, Any]:
    """Return the keys of a section of a pool that say something."""
    others: Mapping[str, Any] = msgspec.to_builtins(type(section)() if usual is None else usual)
    told: dict[str, Any] = msgspec.to_builtins(section)
    return {key: value for key, value in told.items() if value != others[key]}
