"""The job's data may be read where the pool is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.engine.located import is_nowhere_yet, unknown_because
from airflow_gpu_placement.model.money import Egress
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.money import Dataset


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that a dataset may not be moved to, whatever it would save."""
    region = view.pool.place.region
    for name in view.request.data:
        dataset = view.question.setting.datasets.get(name)
        if dataset is not None and region in dataset.locations:
            continue  # the quick answer: it is there already
        allowed = None if dataset is None else allowed_regions(dataset)
        if dataset is not None and (allowed is None or region in allowed):
            continue
        needed = "a dataset of the catalogue" if allowed is None else " or ".join(allowed) or "nowhere"
        if dataset is not None and is_nowhere_yet(view):
            return undeclared(view, f"{name}: {needed}", "in which region it is", "region")
        if dataset is None:
            message = f"dataset {name!r} is not in the catalogue, so nothing says where it may be; add it"
        else:
            why = "may not leave" if dataset.egress is Egress.DENY else "may only be in"
            where = view.pool.place.region_words if region else f"an unknown region{unknown_because(view)}"
            message = f"dataset {name} {why} {needed}, pool {view.pool.name} is in {where}"
        return Reason(
            code=ReasonCode.EGRESS_DENIED,
            needed=f"{name}: {needed}",
            observed=view.pool.place.region_words,
            message=message,
        )
    return None


def allowed_regions(dataset: Dataset) -> tuple[str, ...] | None:
    """Return the regions in which a dataset may be read; ``None``: any."""
    if dataset.egress is Egress.DENY:
        return dataset.locations
    if dataset.residency:
        return tuple(dict.fromkeys((*dataset.locations, *dataset.residency)))
    return None
