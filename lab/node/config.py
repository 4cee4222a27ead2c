"""What the keeper tells a node about itself."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BOOT_ID_FILE = "boot_id"
"""In a node's folder; it lives as long as the node has power."""


@dataclass(frozen=True)
class NodeConfig:
    """The content of a node's config.json."""

    name: str
    cluster: str
    server: str
    ca_file: str
    token: str
    kubelet_cert_file: str
    kubelet_key_file: str
    kubelet_client_ca_file: str
    root_dir: Path
    lifeline: str
    labels: dict[str, str]
    taints: list[dict[str, str]]
    capacity: dict[str, str]
    provider_id: str
    renew_seconds: float
    sandbox: str
    images: tuple[str, ...]
    backoff_seconds: float

    @property
    def pods_dir(self) -> Path:
        """The folder that holds one folder for each pod, named by uid."""
        return self.root_dir / "pods"


def boot_id(root_dir: Path) -> str:
    """Return what tells this boot of a node from others: the same until its power is cut."""
    path = root_dir / BOOT_ID_FILE
    if not path.exists():
        path.write_text(str(uuid.uuid4()))
    return path.read_text()


def load_config(path: Path) -> NodeConfig:
    """Read a node's config.json."""
    data: dict[str, Any] = json.loads(path.read_text())
    profile: dict[str, Any] = data.pop("profile")
    sandbox = data.get("sandbox", "auto")
    if sandbox not in ("auto", "namespace", "plain"):
        raise ValueError(f"{path}: sandbox is {sandbox!r}; write auto, namespace or plain")
    return NodeConfig(
        name=data["name"],
        cluster=data["cluster"],
        server=data["server"].rstrip("/"),
        ca_file=data["ca_file"],
        token=data["token"],
        kubelet_cert_file=data["kubelet_cert_file"],
        kubelet_key_file=data["kubelet_key_file"],
        kubelet_client_ca_file=data["kubelet_client_ca_file"],
        root_dir=Path(data["root_dir"]).absolute(),
        lifeline=data["lifeline"],
        labels=profile["labels"],
        taints=profile["taints"],
        capacity=profile["capacity"],
        provider_id=profile["provider_id"],
        renew_seconds=float(data.get("renew_seconds", 10.0)),
        sandbox=sandbox,
        images=tuple(data["images"]),
        backoff_seconds=float(data["backoff_seconds"]),
    )
