"""The nodes of a live cluster, with what they offer through Dynamic Resource Allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.engine.dra import dra_view
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.kube import Node

if TYPE_CHECKING:
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity


class SeenNodes(msgspec.Struct, frozen=True):
    """Every node of one cluster."""

    nodes: tuple[Node, ...]
    dra: DraObjects = DraObjects()

    def of_pool(self, pool: GpuPool) -> tuple[NodeCapacity, ...]:
        """Return what the pool's nodes have, as if no pod were there."""
        view = None
        if self.dra.slices:
            view = dra_view(self.dra, pool.gpu.resource_name, pool.job_tolerations)
        return node_capacities(self.nodes, (), pool, dra=view)
