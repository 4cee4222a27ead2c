"""Where a lab keeps its files: one folder a lab, below the user's state folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def default_home() -> Path:
    """Return the folder of all labs: below XDG_STATE_HOME, else ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "airflow-gpu-placement-lab"


@dataclass(frozen=True, slots=True)
class LabPaths:
    """The files of one lab.

    :param home: the folder of all labs.
    """

    home: Path
    name: str

    @property
    def folder(self) -> Path:
        """Everything of this lab; the user alone can enter it."""
        return self.home / self.name

    @property
    def up_lock(self) -> Path:
        """Lock held while a lab of this name starts or is cleaned away."""
        return self.home / f".{self.name}.lock"

    @property
    def spec_file(self) -> Path:
        """The spec as JSON, written before the keeper starts."""
        return self.folder / "spec.json"

    @property
    def state_file(self) -> Path:
        """What a client needs to know, as JSON, written by the keeper once the lab is ready."""
        return self.folder / "lab.json"

    @property
    def keeper_pid(self) -> Path:
        """Process record of the keeper."""
        return self.folder / "keeper.pid"

    @property
    def keeper_log(self) -> Path:
        """Output of the keeper."""
        return self.folder / "keeper.log"

    @property
    def socket(self) -> Path:
        """Unix socket on which the keeper takes orders."""
        return self.folder / "keeper.sock"

    @property
    def lifeline(self) -> Path:
        """FIFO whose write end the keeper holds; its end of file tells the others that the lab is gone."""
        return self.folder / "lifeline"

    def component(self, name: str) -> Path:
        """Return the folder of a server; names are ``etcd`` or ``CLUSTER/PROGRAM``."""
        return self.folder / name

    def cluster(self, cluster: str) -> Path:
        """Return the folder of a cluster."""
        return self.folder / cluster

    def node(self, cluster: str, node: str) -> Path:
        """Return the folder of a node."""
        return self.folder / cluster / "node" / node

    def proxy(self, cluster: str, proxy: str) -> Path:
        """Return the folder of a proxy before a cluster's API server."""
        return self.folder / cluster / f"proxy-{proxy}"

    def kubeconfig(self, cluster: str, user: str, proxy: str | None = None) -> Path:
        """Return the kubeconfig file of a user, with the API server's own address or a proxy's."""
        way = f".{proxy}" if proxy else ""
        return self.folder / cluster / f"kubeconfig-{user}{way}.yaml"

    def logs(self) -> dict[str, Path]:
        """Return the log files that exist, by component, such as ``etcd`` or ``onprem/kube-apiserver``."""
        found = {"keeper": self.keeper_log} if self.keeper_log.is_file() else {}
        for pattern, file_name in (("*", "log"), ("*/*", "log"), ("*/node/*", "agent.log")):
            for folder in sorted(self.folder.glob(pattern)):
                if (folder / file_name).is_file():
                    found[str(folder.relative_to(self.folder))] = folder / file_name
        return found


def tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a file, reading only its end; an absent file has none."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 400 * lines - 4096))
            text = handle.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:] if lines > 0 else []
