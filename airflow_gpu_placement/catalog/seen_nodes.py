"""The nodes of a live cluster, with what they offer through Dynamic Resource Allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity import members_of, node_capacities
from airflow_gpu_placement.engine.dra import dra_view
from airflow_gpu_placement.engine.gpu_devices import with_resource_of
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
        return self.offering(self.with_their_resource(pool))

    def offering(self, pool: GpuPool) -> tuple[NodeCapacity, ...]:
        """Return the same under the pool's own resource alone, also where no node has it."""
        view = None
        if self.dra.slices:
            view = dra_view(self.dra, pool.gpu.resource_name, pool.job_tolerations)
        return node_capacities(self.nodes, (), pool, dra=view)

    def with_their_resource(self, pool: GpuPool) -> GpuPool:
        """Return the pool with the resource that its nodes have, as a decision takes it."""
        return with_resource_of(pool, members_of(self.nodes, pool))

    def members(self, pool: GpuPool) -> tuple[Node, ...]:
        """Return the pool's nodes themselves."""
        names = {one.name for one in self.of_pool(pool)}
        return tuple(node for node in self.nodes if node.metadata.name in names)
