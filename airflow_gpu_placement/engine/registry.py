"""Every filter, in the order in which reasons of the same weight are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters import (
    architecture,
    budget,
    capacity_type,
    deadline,
    egress,
    form_factor,
    free_gpus,
    gang,
    gap,
    gpu_memory,
    gpu_model,
    history,
    interconnect,
    lost_nodes,
    network,
    node_resources,
    pool_size,
    price_cap,
    price_known,
    queue,
    quota,
    refused,
    region,
    schedulable,
    signal_age,
    start,
    tenant,
    untold,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.reasons import Reason

FILTERS: tuple[Callable[[PoolView], Reason | None], ...] = (
    gap.check,
    untold.check,
    gpu_model.check,
    gpu_memory.check,
    form_factor.check,
    interconnect.check,
    architecture.check,
    network.check,
    pool_size.check,
    history.check,
    lost_nodes.check,
    start.check,
    refused.check,
    tenant.check,
    egress.check,
    region.check,
    capacity_type.check,
    price_known.check,
    price_cap.check,
    budget.check,
    deadline.check,
    queue.check,
    quota.check,
    free_gpus.check,
    gang.check,
    node_resources.check,
    schedulable.check,
    signal_age.check,
)
