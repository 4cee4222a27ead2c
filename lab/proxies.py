"""The network between a client and an API server, to be harmed: a handle on one ``lab.proxy``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from lab import control, controlplane
from lab.spec import ADMIN

if TYPE_CHECKING:
    from pathlib import Path

    from lab.api import Cluster
    from lab.client import ApiClient


@dataclass(frozen=True, slots=True)
class Proxy:
    """A way to a cluster's API server that can fail while the server is well.

    :param name: several clients may have a way of their own each.
    :param port: where it listens.
    """

    name: str
    cluster: Cluster
    port: int

    @property
    def server(self) -> str:
        """Address of the API server by this way."""
        return controlplane.server_url(self.port)

    def client(self, user: str = ADMIN) -> ApiClient:
        """Return a client that acts as a user and goes this way."""
        return dataclasses.replace(self.cluster.client(user), server=self.server)

    def kubeconfig(self, user: str = ADMIN) -> dict[str, Any]:
        """Return the kubeconfig of a user that goes this way."""
        content: dict[str, Any] = yaml.safe_load(self.kubeconfig_path(user).read_text(encoding="utf-8"))
        return content

    def kubeconfig_path(self, user: str = ADMIN) -> Path:
        """Return the kubeconfig file of a user that goes this way; the owner alone can read it."""
        self.cluster.kubeconfig_path(user)  # says which users there are
        return self.cluster.paths.kubeconfig(self.cluster.name, user, self.name)

    def carry(self) -> None:
        """Carry everything again, without delay."""
        self._order(mode="pass", delay_seconds=0.0)

    def refuse(self) -> None:
        """Refuse new connections; those that are open go on."""
        self._order(mode="refuse")

    def hold(self) -> None:
        """Keep everything back, also the ends of connections; :meth:`carry` carries it then."""
        self._order(mode="hold")

    def blackhole(self) -> None:
        """Swallow everything. Connections of that time stay open and silent for good: half-open ones."""
        self._order(mode="blackhole")

    def delay(self, seconds: float) -> None:
        """Carry each piece some seconds late; the mode stays as it is."""
        self._order(delay_seconds=seconds)

    def reset(self) -> None:
        """Break off all open connections, as a firewall's reset does; the mode stays as it is."""
        self._order(reset=True)

    def status(self) -> dict[str, Any]:
        """Return ``mode``, ``delay_seconds`` and the number of open ``connections``."""
        return self._order()

    def _order(self, **order: Any) -> dict[str, Any]:
        socket = self.cluster.paths.proxy(self.cluster.name, self.name) / "control"
        answer: dict[str, Any] = control.ask(
            socket, order, timeout_seconds=10.0, owner=f"proxy {self.name!r} of cluster {self.cluster.name!r}"
        )
        return answer
