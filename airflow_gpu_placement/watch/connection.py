"""The one client that everything in a watch shares, opened anew when it is refused or leads nowhere."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.exceptions import ClusterError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_SHORTEST_USE_SECONDS = 5.0
_FIRST_ANSWER_SECONDS = 10.0


class ClusterKey(NamedTuple):
    """Which cluster: the connection's id, the kubeconfig's context, and the uid that it must have."""

    kubernetes_conn_id: str
    context: str | None = None
    cluster_uid: str | None = None


class SharedClient:
    """A client of one cluster; its credentials are read at a bounded rate, whoever asks how often.

    :param answered: called when the cluster has answered.
    """

    def __init__(self, key: ClusterKey, open_cluster: OpenCluster, answered: Callable[[], None]) -> None:
        self._key = key
        self._open_cluster = open_cluster
        self._answered = answered
        self._uid = key.cluster_uid
        self._opening = asyncio.Lock()
        self._client: ClusterClient | None = None
        self._opened_at = 0.0
        self._refusal: ClusterError | None = None  # why it could not be opened, until it may be tried again
        self._again_at = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    async def get(self) -> ClusterClient:
        """Return the client, opening it first when there is none.

        :raises ClusterError: it cannot be opened, or could not a moment ago.
        :raises WrongCluster: the connection leads to another cluster now: what is not there says nothing.
        """
        async with self._opening:
            if self._client is None:
                if self._refusal is not None and time.monotonic() < self._again_at:
                    raise type(self._refusal)(str(self._refusal), status=self._refusal.status)
                try:
                    self._client = await self._open(self._open_cluster)
                except ClusterError as error:
                    self._refusal = error
                    self._again_at = time.monotonic() + self._pause_seconds
                    self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
                    raise
                self._refusal, self._pause_seconds = None, _FIRST_PAUSE_SECONDS
                self._opened_at = time.monotonic()
            return self._client

    async def reopen(self, refused: ClusterClient) -> None:
        """Let go of a client, so that the connection is read again for all; one that is new is kept."""
        given_up = False
        async with self._opening:
            if self._client is refused and time.monotonic() - self._opened_at >= _SHORTEST_USE_SECONDS:
                self._client = None
                given_up = True
        if given_up:
            await refused.close()

    async def renew(self, open_cluster: OpenCluster) -> None:
        """Read the connection again while nobody answers: the cluster may have moved, or its keys changed.

        Its present client is kept unless the new one is answered.

        :param open_cluster: the way to open one whose time counts as silence: the present client waits too.
        :raises ClusterError: it is not.
        """
        old = self._client
        if old is None:
            return  # whoever needs one reads it anew
        unused = await self._open(open_cluster)
        try:
            async with self._opening:
                if self._client is old:
                    self._client, unused = unused, old
                    self._opened_at = time.monotonic()
        finally:  # also when the watch ends meanwhile
            await unused.close()

    async def close(self) -> None:
        """Close the client, and with it everything that is being read."""
        async with self._opening:
            if self._client is not None:
                await self._client.close()
                self._client = None

    async def _open(self, open_cluster: OpenCluster) -> ClusterClient:
        conn_id = self._key.kubernetes_conn_id
        try:
            client = await open_cluster(conn_id, self._key.context)
        except ClusterError:
            raise
        except Exception as error:
            # The edge to whatever keeps connections: a secrets backend may raise anything, and may recover.
            logger.exception("connection %s cannot be read", conn_id)
            raise Unreachable(
                f"connection {conn_id!r} cannot be read: {type(error).__name__}: {error}"
            ) from error
        try:
            async with asyncio.timeout(_FIRST_ANSWER_SECONDS):
                await self._check(client)
        except TimeoutError as error:
            await client.close()
            raise Unreachable(f"{client.server}: no answer in {_FIRST_ANSWER_SECONDS:g} s") from error
        except BaseException:
            await client.close()
            raise
        return client

    async def _check(self, client: ClusterClient) -> None:
        await client.check_uid(self._uid, self._key.kubernetes_conn_id)
        self._uid = await client.uid()
        self._answered()
