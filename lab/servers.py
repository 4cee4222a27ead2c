"""Faults of a server: etcd, or one of a cluster's servers. All are played on its process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab import control

if TYPE_CHECKING:
    from lab.paths import LabPaths

# An API server that starts has up to two minutes.
ORDER_TIMEOUT_SECONDS = 150.0


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a running lab.

    :param name: as in ``logs``: ``etcd``, ``onprem/etcd``, ``onprem/kube-apiserver``.
    """

    name: str
    paths: LabPaths

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does, also one that is frozen or still ending."""
        self._order("server-kill")

    def terminate(self) -> None:
        """Ask it to end (SIGTERM) and do not wait.

        An API server closes its port at once and keeps open watches for up to a minute; it can be started
        again meanwhile, and then both processes are there.
        """
        self._order("server-terminate")

    def freeze(self) -> None:
        """Stop it (SIGSTOP): connections stay open and nothing is answered."""
        self._order("server-freeze")

    def thaw(self) -> None:
        """Let it go on after a freeze."""
        self._order("server-thaw")

    def start(self) -> None:
        """Start it again, at the same address and with the same data, and wait until it is ready."""
        self._order("server-start")

    def _order(self, operation: str) -> None:
        control.request(self.paths, operation, ORDER_TIMEOUT_SECONDS, server=self.name)
