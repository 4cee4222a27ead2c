"""Command lines and files of the servers: one etcd a lab, three Kubernetes servers a cluster."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from lab import pki
from lab.spec import ADMIN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.paths import LabPaths
    from lab.spec import ClusterSpec

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
NODE_USER = "lab-node"

_CONTROLLERS = (
    "job-controller",
    "node-lifecycle-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "ttl-after-finished-controller",
    "taint-eviction-controller",
    "resourcequota-controller",
    "disruption-controller",
)


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Keys, tokens and kubeconfigs of a cluster.

    :param tokens: token of each user, ``admin`` among them.
    """

    name: str
    keys: pki.ClusterPki
    tokens: Mapping[str, str]
    paths: LabPaths

    @property
    def tokens_file(self) -> Path:
        """Token file of the API server."""
        return self.paths.cluster(self.name) / "tokens.csv"

    def write_kubeconfigs(self, port: int, proxy: str | None = None) -> None:
        """Write the kubeconfig file of every user, for the API server itself or for a proxy before it."""
        for user in self.tokens:
            content = yaml.safe_dump(self.kubeconfig(user, port), sort_keys=False)
            pki.write_private(self.paths.kubeconfig(self.name, user, proxy), content.encode())

    def kubeconfig(self, user: str, port: int) -> dict[str, Any]:
        """Return the kubeconfig of a user; complete in itself, it refers to no other file."""
        authority = base64.b64encode(self.keys.ca.read_bytes()).decode("ascii")
        cluster = {"server": server_url(port), "certificate-authority-data": authority}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": user}}],
            "current-context": self.name,
        }


def server_url(port: int) -> str:
    """Return the address of an API server."""
    return f"https://127.0.0.1:{port}"


def create_files(paths: LabPaths, spec: ClusterSpec) -> ClusterFiles:
    """Make keys and tokens of a cluster."""
    paths.cluster(spec.name).mkdir(parents=True, exist_ok=True)
    keys = pki.create(paths.cluster(spec.name) / "pki", spec.name)
    tokens = {user: secrets.token_urlsafe(24) for user in (ADMIN, NODE_USER, *spec.users)}
    files = ClusterFiles(spec.name, keys, tokens, paths)
    lines = []
    for index, (user, token) in enumerate(tokens.items()):
        groups = ',"system:masters"' if user in (ADMIN, NODE_USER) else ""
        lines.append(f"{token},{user},{index}{groups}\n")
    pki.write_private(files.tokens_file, "".join(lines).encode())
    return files


def etcd_command(program: Path, member: str, data: Path, client_port: int, peer_port: int) -> list[str]:
    """Return the command line of etcd."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(program),
        f"--name={member}",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={member}={peer}",
        # The data are thrown away with the lab, so nothing is lost by not waiting for the disk.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server_command(program: Path, files: ClusterFiles, etcd_port: int, port: int) -> list[str]:
    """Return the command line of a cluster's API server."""
    keys = files.keys
    return [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--etcd-prefix=/{files.name}",
        "--bind-address=127.0.0.1",
        # Named, because the default comes from the machine's route, which a machine without network lacks.
        # Nothing may publish it then, because a loopback address is refused as an endpoint.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={keys.folder}",
        f"--tls-cert-file={keys.certificate('apiserver')}",
        f"--tls-private-key-file={keys.key('apiserver')}",
        f"--client-ca-file={keys.ca}",
        f"--token-auth-file={files.tokens_file}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://lab.invalid",
        f"--service-account-key-file={keys.key('service-account')}",
        f"--service-account-signing-key-file={keys.key('service-account')}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # With it every pod gets a token volume, which a process node does not serve.
        "--disable-admission-plugins=ServiceAccount",
        "--profiling=false",
        f"--kubelet-client-certificate={keys.certificate('kubelet-client')}",
        f"--kubelet-client-key={keys.key('kubelet-client')}",
        f"--kubelet-certificate-authority={keys.ca}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_manager_command(
    program: Path, files: ClusterFiles, node_monitor_grace_seconds: int
) -> list[str]:
    """Return the command line of a cluster's controller manager."""
    return [
        str(program),
        f"--kubeconfig={files.paths.kubeconfig(files.name, ADMIN)}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={files.keys.key('service-account')}",
        "--use-service-account-credentials=false",
        f"--node-monitor-grace-period={node_monitor_grace_seconds}s",
        f"--node-monitor-period={max(1, min(2, node_monitor_grace_seconds // 4))}s",
        # The default of 20 a second takes minutes to untaint a large fleet.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        f"--controllers={','.join(_CONTROLLERS)}",
    ]


def scheduler_command(program: Path, files: ClusterFiles) -> list[str]:
    """Return the command line of a cluster's scheduler."""
    kubeconfig = files.paths.kubeconfig(files.name, ADMIN)
    return [str(program), f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]
