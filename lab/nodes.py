"""One process node of a running lab, and the faults that it can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.eviction import Drain
from lab.node import faults

if TYPE_CHECKING:
    from pathlib import Path

    from lab.api import Cluster


@dataclass(frozen=True, slots=True)
class Node:
    """One process node."""

    name: str
    cluster: Cluster

    @property
    def root_dir(self) -> Path:
        """Return the node's own folder."""
        return self.cluster.paths.node(self.cluster.name, self.name)

    def power_off(self) -> int:
        """End everything that runs on the node at once; return how many processes died."""
        died: int = self.cluster.order("node-power-off", node=self.name)
        return died

    def kill_agent(self) -> None:
        """End the node's agent alone; its containers run on."""
        self.cluster.order("node-kill-agent", node=self.name)

    def start(self) -> None:
        """Start the node's agent again; the node becomes Ready some seconds later."""
        self.cluster.order("node-start", node=self.name)

    def partition(self) -> None:
        """Cut the node off: its agent neither reaches nor hears the API server; all that runs lives on."""
        self.cluster.order("node-partition", node=self.name)

    def heal(self) -> None:
        """Give the node its network back after :meth:`partition`."""
        self.cluster.order("node-heal", node=self.name)

    def freeze(self) -> int:
        """Stop everything on the node (SIGSTOP), as a machine that hangs; return how many processes."""
        stopped: int = self.cluster.order("node-freeze", node=self.name)
        return stopped

    def freeze_agent(self) -> None:
        """Stop the node's agent alone (SIGSTOP), as a kubelet that hangs; its containers run on."""
        self.cluster.order("node-freeze-agent", node=self.name)

    def thaw(self) -> None:
        """Let everything on the node go on after :meth:`freeze` or :meth:`freeze_agent`."""
        self.cluster.order("node-thaw", node=self.name)

    def cordon(self) -> None:
        """Keep new pods away from the node."""
        self._drain.cordon()

    def uncordon(self) -> None:
        """Let new pods come to the node again."""
        self._drain.cordon(unschedulable=False)

    def drain(self, timeout_seconds: float = 120.0, *, wait: bool = True) -> list[str]:
        """Cordon the node and evict its pods through the Eviction API, as ``kubectl drain`` does.

        :param wait: until the evicted pods are gone.
        :return: the pods evicted, as ``namespace/name``.
        :raises LabTimeoutError: when a disruption budget forbids an eviction, or a pod stays, for too long.
        """
        return self._drain.run(timeout_seconds, wait=wait)

    def notice(self, style: str) -> None:
        """Announce that the node will be taken away, with the taint that a cloud's controller writes.

        :param style: one of ``lab.eviction.NOTICES``: ``gke``, ``karpenter``, ``aws-spot``, ...
        """
        self._drain.notice(style)

    def withdraw_notice(self) -> None:
        """Take back what :meth:`notice` has announced."""
        self._drain.withdraw_notice()

    def delete_object(self) -> None:
        """Delete the Node object, as a cloud does that has taken the machine back; processes live on.

        An agent that lives does not register again before it is started anew.
        """
        self.cluster.api.delete(f"/api/v1/nodes/{self.name}")

    @property
    def _drain(self) -> Drain:
        return Drain(self.cluster.api, self.name)

    def pids(self) -> list[int]:
        """Return the pids of everything that runs on the node."""
        return sorted(process.pid for process in faults.node_processes(self.root_dir))
