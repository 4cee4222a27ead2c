"""Programs that a cluster runs beside its servers when somebody asks for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab import control
from lab.component import Component, on_free_port
from lab.errors import LabError
from lab.ports import free_port, wait_free
from lab.spec import ADMIN

if TYPE_CHECKING:
    from lab.controlplane import ClusterFiles

_CHECKOUT = Path(__file__).resolve().parent.parent
_STAGES = Path(__file__).resolve().parent / "go" / "kwok" / "stages.yaml"


class RunningProxy:
    """A proxy before a cluster's API server, as the keeper sees it."""

    def __init__(self, files: ClusterFiles, name: str, upstream: int) -> None:
        self.port = 0
        folder = files.paths.proxy(files.name, name)
        self.component = Component(
            f"{files.name}/{folder.name}", folder, cwd=_CHECKOUT, again=self.start_again
        )
        self._files = files
        self._name = name
        self._upstream = upstream

    async def start(self) -> None:
        """Start it for the first time, on a port that is free, and write the kubeconfigs."""
        await on_free_port(self._start_first)
        self._files.write_kubeconfigs(self.port, self._name)

    async def start_again(self) -> None:
        """Start it at the address that its clients know; it carries everything."""
        await wait_free(self.port, self.component.name)
        await self._run()

    async def _start_first(self) -> None:
        self.port = free_port()
        await self._run()

    async def _run(self) -> None:
        socket = self.component.folder / "control"
        socket.unlink(missing_ok=True)
        # -m looks for the package in the working directory, whatever the user's path settings are.
        command = [sys.executable, "-m", "lab.proxy", str(self.port), str(self._upstream), str(socket)]
        self.component.start(command)
        await self.component.until(lambda: _answers(socket))


class RunningKwok:
    """The KWOK controller of a cluster, as the keeper sees it."""

    def __init__(self, files: ClusterFiles, node_monitor_grace_seconds: int) -> None:
        name = f"{files.name}/kwok"
        self.component = Component(name, files.paths.component(name), again=self.start_again)
        self._files = files
        self._lease_seconds = 2 * node_monitor_grace_seconds
        self._program = ""

    async def start(self, program: str) -> None:
        """Start it for the first time."""
        self._program = program
        await self.start_again()

    async def start_again(self) -> None:
        """Start it; it looks after the nodes that it finds."""
        self.component.start(
            [
                self._program,
                f"--kubeconfig={self._files.paths.kubeconfig(self._files.name, ADMIN)}",
                f"--config={_STAGES}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                # A Lease is renewed in a quarter of this time.
                f"--node-lease-duration-seconds={self._lease_seconds}",
                "--node-ip=127.0.0.1",
            ]
        )


def _answers(socket: Path) -> bool:
    try:
        control.ask(socket, {}, timeout_seconds=5.0, owner="the proxy")
    except LabError:
        return False
    return True
