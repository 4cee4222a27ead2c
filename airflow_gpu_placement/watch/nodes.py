"""Nodes of one cluster as their stream tells them: what each is now, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.node_evidence import node_view, ready_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.outcome import NodeView
    from airflow_gpu_placement.watch.leases import LeaseClocks

_NEW_NODE_SECONDS = 5.0
_LONG_AGO = float("-inf")


class ClusterNodes:
    """The nodes of a cluster.

    :param leases: their pulses.
    :param now: the awake clock.
    """

    def __init__(self, leases: LeaseClocks, now: Callable[[], float]) -> None:
        self._leases = leases
        self._now = now
        self._nodes: dict[str, Node] = {}
        self._unreadable: set[str] = set()
        self._listed = False
        self._missing_since: dict[str, float] = {}
        self._ready_since: dict[str, tuple[str, float]] = {}

    def listed(self, nodes: Iterable[Node], unreadable: Collection[str] = ()) -> None:
        """Take all nodes.

        :param unreadable: names of those that exist and could not be read; what was known of them stays.
        """
        found = {node.metadata.name: node for node in nodes}
        self._unreadable = set(unreadable)
        found |= {name: self._nodes[name] for name in self._unreadable & self._nodes.keys()}
        for name in self._nodes.keys() - found.keys():
            self._missing_since[name] = _LONG_AGO
        self._nodes, self._listed = found, True
        self._missing_since = {
            name: since for name, since in self._missing_since.items() if name not in found
        }
        self._ready_since = {name: since for name, since in self._ready_since.items() if name in found}
        for node in found.values():
            self._note_readiness(node)

    def changed(self, kind: str, node: Node) -> None:
        """Take one event of a node."""
        name = node.metadata.name
        self._unreadable.discard(name)
        if kind == "DELETED":
            self._nodes.pop(name, None)
            self._ready_since.pop(name, None)
            self._missing_since[name] = _LONG_AGO
        else:
            self._nodes[name] = node
            self._missing_since.pop(name, None)
            self._note_readiness(node)

    def forget_missing(self, needed: Collection[str]) -> None:
        """Forget nodes that are gone, but for those on which somebody's job was.

        Autoscalers name every machine anew, and a watch lasts for months.
        """
        gone = self._missing_since.keys() - needed
        for name in gone:
            del self._missing_since[name]

    def unreadable(self, name: str) -> None:
        """Know that a node exists, although what it is now cannot be read."""
        self._unreadable.add(name)
        self._missing_since.pop(name, None)

    def ready(self) -> frozenset[str]:
        """Return the nodes that the cluster calls ready."""
        return frozenset(name for name, node in self._nodes.items() if ready_status(node) == "True")

    def is_doubtful(self, name: str) -> bool:
        """Whether time alone may decide about a node: it is overdue, missing, or not ready."""
        since = self._ready_since.get(name)
        not_ready = since is not None and since[0] != "True"
        return not_ready or name in self._missing_since or self._leases.is_overdue(name)

    def view(self, name: str, boot_ids: dict[str, str]) -> NodeView:
        """Sum up a node.

        :param boot_ids: boot id of each node when the job came; the first one seen is added.
        """
        node = self._nodes.get(name)
        if node is not None and node.status.node_info.boot_id:
            boot_ids.setdefault(name, node.status.node_info.boot_id)
        since = self._ready_since.get(name)
        return node_view(
            name,
            node,
            exists=node is not None or not self._is_missing(name),
            ready_seconds=0.0 if since is None else self._now() - since[1],
            silent_seconds=self._leases.silent_seconds(name),
            renew_seconds=self._leases.renew_seconds(name),
            known_boot_id=boot_ids.get(name, ""),
        )

    def _note_readiness(self, node: Node) -> None:
        name, status = node.metadata.name, ready_status(node)
        since = self._ready_since.get(name)
        if since is None or since[0] != status:
            self._ready_since[name] = (status, self._now())

    def _is_missing(self, name: str) -> bool:
        """Whether an unknown node does not exist: the stream of pods may be ahead of that of nodes."""
        if not self._listed or name in self._unreadable:
            return False
        since = self._missing_since.setdefault(name, self._now())
        return self._now() - since >= _NEW_NODE_SECONDS
