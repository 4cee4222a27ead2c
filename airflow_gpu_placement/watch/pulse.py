"""Make sure that a silent node is silent, and not the connection to its cluster or the cluster itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.kube import Lease
from airflow_gpu_placement.watch.sinks import LEASES_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.watch.store import ClusterStore
    from airflow_gpu_placement.watch.stream import Uplink

logger = logging.getLogger(__name__)

_QUIET_SECONDS = 2.0
_ANSWER_SECONDS = 3.0


class PulseCheck:
    """Asks for the Lease of an overdue node alone while no other node's renewals come in.

    The renewals of other nodes prove that one would be received. Without any, a dead connection looks like
    dead nodes, and so does an API server that has lost its etcd: its streams stay open and say nothing. When
    there is no good answer, the clocks of all nodes stop at the last renewal that was received.

    :param receiving: tells whether the stream of Leases is open.
    """

    def __init__(self, store: ClusterStore, uplink: Uplink, receiving: Callable[[], bool]) -> None:
        self._store = store
        self._uplink = uplink
        self._receiving = receiving
        self._doubted: str | None = None  # the node whose Lease could not be read; clocks stand still

    def due(self) -> str | None:
        """Return the node whose Lease has to be asked for now; ``None``: nothing is in doubt."""
        leases = self._store.leases
        if not self._receiving() or leases.unconfirmed_seconds() < _QUIET_SECONDS:
            self._doubted = None
            return None
        return self._doubted or self._store.overdue_node()

    async def ask(self, name: str) -> None:
        """Ask, and draw the conclusions."""
        client: ClusterClient | None = None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                client = await self._uplink.client()
                # A list, since whoever may watch Leases may not always get one.
                query = {"fieldSelector": f"metadata.name={name}"}
                leases, _ = await client.list_all(LEASES_PATH, Lease, query)
        except (ClusterError, TimeoutError) as error:
            await self._not_answered(name, error, client)
        else:
            self._answered()
            for lease in leases:
                self._store.lease_changed("MODIFIED", lease)

    def _answered(self) -> None:
        self._doubted = None
        self._uplink.answered()
        leases = self._store.leases
        if leases.is_deaf and self._receiving():
            leases.heard_again(self._store.ready_nodes())
        leases.confirmed()

    async def _not_answered(self, name: str, error: Exception, client: ClusterClient | None) -> None:
        if self._doubted is None:
            why = str(error) or "no answer in time"
            logger.warning("nobody renews its Lease, and that of node %s cannot be read: %s", name, why)
        self._doubted = name
        self._store.leases.deaf(since_heard=True)
        if client is not None and getattr(error, "status", None) is None:
            # Nobody is there: streams over connections that lead nowhere would wait for long.
            await self._uplink.reopen(client)
