"""What one cluster answers: its nodes, its pods and, where it has them, its DRA objects."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec

from airflow_gpu_placement.clusters.turns import a_turn
from airflow_gpu_placement.exceptions import ClusterError, NotFound
from airflow_gpu_placement.model.dra import (
    DeviceClass,
    DeviceTaintRule,
    DraObjects,
    ResourceClaim,
    ResourceSlice,
)
from airflow_gpu_placement.model.kube import Node, Pod, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.clusters.client import ClusterClient

T = TypeVar("T")

_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_DRA = "/apis/resource.k8s.io"
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_TAINT_RULE_VERSIONS = ("v1", "v1beta2", "v1alpha3")


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster answered, for all of its pools.

    :param nodes: lists, with ``pods``, so that they can be let go of bit by bit.
    :param dra: ``None``: it could not be read, and ``dra_problem`` says why; empty when there is none.
    """

    server: str
    uid: str
    observed_at: datetime
    latency_seconds: float
    nodes: list[Node]
    pods: list[Pod]
    dra: DraObjects | None = None
    dra_problem: str | None = None

    @property
    def source(self) -> str:
        """What was read, in words."""
        slices = ", resource slices" if self.dra is not None and self.dra.slices else ""
        return f"nodes{slices} and pods of {self.server}"


class _Version(Struct, frozen=True):
    version: str = ""


class _ApiGroup(Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


async def read_state(client: ClusterClient, clock: Callable[[], datetime]) -> ClusterState:
    """Read a cluster once.

    :param clock: what stamps the observation: the moment after which everything was asked.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    # The uid first and alone: bad credentials fail here, at the price of one call.
    uid = await client.uid()
    latency_seconds = loop.time() - began
    observed_at = clock()
    async with a_turn():  # a hundred clusters that answer together would all begin their lists at once
        pass
    try:
        async with asyncio.TaskGroup() as tasks:
            nodes = tasks.create_task(client.list_all("/api/v1/nodes", Node))
            pods = tasks.create_task(client.list_all("/api/v1/pods", Pod, _PODS))
            dra = tasks.create_task(_dra_or_problem(client))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # the first is what went wrong; the others were cancelled for it
    objects, problem = dra.result()
    return ClusterState(
        server=client.server,
        uid=uid,
        observed_at=observed_at,
        latency_seconds=latency_seconds,
        nodes=list(nodes.result()[0]),
        pods=list(pods.result()[0]),
        dra=objects,
        dra_problem=problem,
    )


async def _dra_or_problem(client: ClusterClient) -> tuple[DraObjects | None, str | None]:
    """Read DRA without making anything depend on it: what is not read there is not counted as free."""
    try:
        return await _dra(client), None
    except ClusterError as error:
        return None, str(error)


async def _dra(client: ClusterClient) -> DraObjects:
    version = await _served(client)
    if version is None:
        return DraObjects()
    root = f"{_DRA}/{version}"
    slices = await _all(client, f"{root}/resourceslices", ResourceSlice)
    if not slices:
        return DraObjects()
    try:
        async with asyncio.TaskGroup() as tasks:
            claims = tasks.create_task(_all(client, f"{root}/resourceclaims", ResourceClaim))
            classes = tasks.create_task(_all(client, f"{root}/deviceclasses", DeviceClass))
            rules = tasks.create_task(_taint_rules(client))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return DraObjects(
        slices=slices, claims=claims.result(), classes=classes.result(), taint_rules=rules.result()
    )


async def _served(client: ClusterClient) -> str | None:
    """Return the best version of the API that the cluster serves; ``None``: it has no DRA."""
    try:
        group = await client.get_as(_DRA, _ApiGroup)
    except NotFound:
        return None
    served = {one.version for one in group.versions}
    return next((version for version in _DRA_VERSIONS if version in served), None)


async def _taint_rules(client: ClusterClient) -> tuple[DeviceTaintRule, ...]:
    for version in _TAINT_RULE_VERSIONS:
        try:
            return await _all(client, f"{_DRA}/{version}/devicetaintrules", DeviceTaintRule)
        except NotFound:
            continue
    return ()


async def _all(client: ClusterClient, path: str, type_: type[T]) -> tuple[T, ...]:
    return (await client.list_all(path, type_))[0]
