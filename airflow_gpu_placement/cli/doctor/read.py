"""Ask each cluster of a catalogue what a check needs to know; the answers are kept, nothing is changed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.doctor.rights import Right, needed
from airflow_gpu_placement.exceptions import ClusterError, Forbidden, NotFound
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.kube import Struct
from airflow_gpu_placement.model.pool import GpuPool
from airflow_gpu_placement.model.signals import GapKind, SignalGap
from airflow_gpu_placement.signals.collect import gap_of
from airflow_gpu_placement.signals.state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster

_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class ClusterKey(msgspec.Struct, frozen=True):
    """How a cluster is reached."""

    kubernetes_conn_id: str
    context: str | None = None

    def __str__(self) -> str:
        """Return the key in words."""
        context = f", context {self.context!r}" if self.context else ""
        return f"connection {self.kubernetes_conn_id!r}{context}"


class ClusterReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster answered.

    :param gap: why it could not be asked at all; the rest is empty then.
    :param user: who the cluster takes us for.
    :param clock_ahead_seconds: its clock minus ours; ``None``: it told none.
    :param denied: rights that we need and do not have.
    :param absent_namespaces: namespaces of pools that do not exist.
    :param seen: ``None``: the nodes are not readable.
    """

    key: ClusterKey
    pools: tuple[GpuPool, ...]
    server: str = ""
    gap: SignalGap | None = None
    user: str = ""
    uid: str | None = None
    version: str = ""
    clock_ahead_seconds: float | None = None
    denied: tuple[Right, ...] = ()
    absent_namespaces: tuple[str, ...] = ()
    seen: SeenNodes | None = None

    @property
    def where(self) -> str:
        """Name the cluster for people."""
        return f"{self.key} ({self.server})" if self.server else str(self.key)


class _Version(Struct, frozen=True):
    git_version: str = ""


class _UserInfo(Struct, frozen=True):
    username: str = ""


class _SelfReviewStatus(Struct, frozen=True):
    user_info: _UserInfo = _UserInfo()


class _SelfReview(Struct, frozen=True):
    status: _SelfReviewStatus = _SelfReviewStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


async def read_clusters(
    pools: Sequence[GpuPool],
    open_cluster: OpenCluster,
    *,
    deadline_seconds: float,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> tuple[ClusterReading, ...]:
    """Read every cluster that a pool is in, all at the same time.

    :param deadline_seconds: a cluster that takes longer counts as not answering.
    :param clock: our own time, to compare the clusters' with.
    """
    by_cluster: dict[ClusterKey, list[GpuPool]] = {}
    for pool in pools:
        key = ClusterKey(pool.cluster.kubernetes_conn_id, pool.cluster.context)
        by_cluster.setdefault(key, []).append(pool)
    readings = [
        _read_or_gap(ClusterReading(key=key, pools=tuple(members)), open_cluster, deadline_seconds, clock)
        for key, members in by_cluster.items()
    ]
    return tuple(await asyncio.gather(*readings))


async def _read_or_gap(
    empty: ClusterReading,
    open_cluster: OpenCluster,
    deadline_seconds: float,
    clock: Callable[[], datetime],
) -> ClusterReading:
    try:
        async with asyncio.timeout(deadline_seconds):
            async with await open_cluster(empty.key.kubernetes_conn_id, empty.key.context) as client:
                return await _read(empty, client, clock)
    except ClusterError as error:
        return msgspec.structs.replace(empty, gap=gap_of(error))
    except TimeoutError:
        text = f"{empty.key} did not answer within {deadline_seconds:g} s"
        return msgspec.structs.replace(empty, gap=SignalGap(kind=GapKind.TIMEOUT, message=text))


async def _read(
    empty: ClusterReading, client: ClusterClient, clock: Callable[[], datetime]
) -> ClusterReading:
    before = clock()
    told = await client.server_time()
    own = before + (clock() - before) / 2
    version = await client.get_as("/version", _Version)
    namespaces = sorted({pool.cluster.namespace for pool in empty.pools})
    return msgspec.structs.replace(
        empty,
        server=client.server,
        user=await _user(client),
        version=version.git_version,
        clock_ahead_seconds=None if told is None else (told - own).total_seconds(),
        denied=await _denied(client, needed(namespaces)),
        uid=await _uid(client),
        absent_namespaces=await _absent(client, namespaces),
        seen=await _seen(client, clock),
    )


async def _denied(client: ClusterClient, rights: Sequence[Right]) -> tuple[Right, ...]:
    answers = await asyncio.gather(*(client.create(_ACCESS_REVIEWS, right.review()) for right in rights))
    return tuple(
        right
        for right, answer in zip(rights, answers, strict=True)
        if not msgspec.json.decode(answer, type=_AccessReview).status.allowed
    )


async def _uid(client: ClusterClient) -> str | None:
    try:
        return await client.uid()
    except Forbidden:
        return None


async def _absent(client: ClusterClient, namespaces: Iterable[str]) -> tuple[str, ...]:
    absent = []
    for namespace in namespaces:
        try:
            await client.get(f"/api/v1/namespaces/{namespace}")
        except NotFound:
            absent.append(namespace)
        except Forbidden:
            continue  # among the denied rights
    return tuple(absent)


async def _seen(client: ClusterClient, clock: Callable[[], datetime]) -> SeenNodes | None:
    try:
        state = await read_state(client, clock)
    except Forbidden:
        return None
    return SeenNodes(tuple(state.nodes), state.dra or DraObjects())


async def _user(client: ClusterClient) -> str:
    """Return who the cluster takes us for; empty on one that is too old to tell."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await client.create(_SELF_REVIEWS, review)
    except NotFound:
        return ""
    return msgspec.json.decode(answer, type=_SelfReview).status.user_info.username
