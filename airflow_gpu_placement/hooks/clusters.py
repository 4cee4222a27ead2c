"""Open a pool's cluster from its Airflow connection, and from nothing else.

The provider's own hook falls back to the worker's default credentials when a connection is empty, which
launches in the wrong cluster without a word. Here a connection that does not say which cluster it means is
refused.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_gpu_placement.exceptions import ConnectionMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection

    from airflow_gpu_placement.clusters.client import ClusterClient

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LONGEST_PATH = 255
_FILES = frozenset({"certificate-authority", "client-certificate", "client-key", "tokenFile"})
_LEGACY_PREFIX = "extra__kubernetes__"
_NO = frozenset({"false", "0", "no", "off"})


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterAccess:
    """Credentials of one cluster, read from its connection; Airflow is not asked for them again.

    :param config: a kubeconfig; it holds secrets and is never shown.
    """

    config: Mapping[str, Any]
    context: str | None

    async def open(self) -> ClusterClient:
        """Return a client of its own for the event loop that runs now.

        :raises ConnectionMissing: the kubeconfig says nothing usable.
        """
        # The client library takes long to load, and triggers share an event loop.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.clusters.connect")
        from airflow_gpu_placement.clusters.connect import client_from_kubeconfig

        return await client_from_kubeconfig(self.config, self.context)


async def access_on_worker(conn_id: str, context: str | None) -> ClusterAccess:
    """Read the credentials of a cluster in a task process; the connection is read again at every call.

    :param conn_id: Airflow connection of the type Kubernetes.
    :param context: kubeconfig context; ``None``: the connection's own choice.
    :raises ConnectionMissing: it does not exist, or does not say which cluster it means.
    """
    try:
        connection = await asyncio.to_thread(BaseHook.get_connection, conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error
    return _access(connection, conn_id, context)


async def open_on_worker(conn_id: str, context: str | None) -> ClusterClient:
    """Open a cluster from a task process; otherwise as :func:`access_on_worker`."""
    return await (await access_on_worker(conn_id, context)).open()


async def open_on_triggerer(conn_id: str, context: str | None) -> ClusterClient:
    """Open a cluster from the triggerer's event loop; otherwise as :func:`access_on_worker`."""
    try:
        connection = await BaseHook.aget_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id) from error
    # A large kubeconfig takes half a second to be read, and the disk under a path may hang.
    access = await asyncio.to_thread(_access, connection, conn_id, context)
    return await access.open()


def _access(connection: Connection, conn_id: str, context: str | None) -> ClusterAccess:
    extra = connection.extra_dejson
    config = kubeconfig_from_extra(extra, conn_id)
    return ClusterAccess(config=config, context=context or _field(extra, "cluster_context"))


def kubeconfig_from_extra(extra: Mapping[str, Any], conn_id: str) -> dict[str, Any]:
    """Turn a connection's extra fields into a kubeconfig.

    :param extra: fields ``kube_config`` (JSON text or object), ``kube_config_path`` or ``in_cluster``.
    :raises ConnectionMissing: none of them, or more than one, or one that cannot be read.
    """
    given = {name: _field(extra, name) for name in ("kube_config", "kube_config_path", "in_cluster")}
    chosen = [name for name, value in given.items() if value]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none of them"
        raise ConnectionMissing(
            f"Airflow connection {conn_id!r} must set exactly one of the extra fields kube_config, "
            f"kube_config_path and in_cluster, but sets {found}; the default credentials are never used"
        )
    if given["in_cluster"]:
        return _in_cluster(conn_id)
    try:
        text = given["kube_config"] or Path(given["kube_config_path"]).expanduser().read_text()
        config = yaml.safe_load(text) if isinstance(text, str) else json.loads(json.dumps(text))
    except OSError as error:
        what = _shown_path(given["kube_config_path"])
        raise ConnectionMissing(_unreadable(conn_id, chosen[0], f"{what}: {error.strerror}")) from error
    except (RuntimeError, TypeError, ValueError, yaml.YAMLError) as error:
        # What was read stays untold: it may be a secret.
        raise ConnectionMissing(_unreadable(conn_id, chosen[0], type(error).__name__)) from error
    if not isinstance(config, dict):
        raise ConnectionMissing(f"Airflow connection {conn_id!r}: {chosen[0]} holds no kubeconfig")
    if given["kube_config_path"]:
        _find_files(config, Path(given["kube_config_path"]).expanduser().parent)
    return config


def _find_files(config: Mapping[str, Any], folder: Path) -> None:
    """Make the paths in a kubeconfig whole: those that are not begin where it lies itself."""
    for kind, key in (("clusters", "cluster"), ("users", "user")):
        entries = config.get(kind)
        for entry in entries if isinstance(entries, list) else ():
            value = entry.get(key) if isinstance(entry, dict) else None
            if isinstance(value, dict):
                _find_files_of(value, folder)


def _find_files_of(value: dict[str, Any], folder: Path) -> None:
    for name in _FILES & value.keys():
        if isinstance(value[name], str) and value[name]:
            value[name] = str(folder / value[name])
    plugin = value.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        plugin["command"] = str(folder / plugin["command"])


def _unreadable(conn_id: str, field: str, why: str) -> str:
    wanted = (
        "the path of a kubeconfig on this machine" if field == "kube_config_path" else "a whole kubeconfig"
    )
    return f"Airflow connection {conn_id!r}: {field} cannot be read ({why}); put {wanted} there"


def _shown_path(path: Any) -> str:
    """Return a path for a message; a text that is none may be a secret in the wrong field."""
    text = str(path)
    is_path = text.startswith(("/", "~")) and len(text) <= _LONGEST_PATH and text.isprintable()
    return repr(text) if is_path else "no absolute path"


def _in_cluster(conn_id: str) -> dict[str, Any]:
    """Describe the cluster that this process runs in as a kubeconfig, when the connection asks for it."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (_SERVICE_ACCOUNT / "token").exists():
        raise ConnectionMissing(
            f"Airflow connection {conn_id!r} says in_cluster, but this process does not run in a pod "
            f"with a service account"
        )
    return {
        "current-context": "in-cluster",
        "contexts": [{"name": "in-cluster", "context": {"cluster": "in-cluster", "user": "in-cluster"}}],
        "clusters": [
            {
                "name": "in-cluster",
                "cluster": {
                    "server": f"https://{f'[{host}]' if ':' in host else host}:{port}",
                    "certificate-authority": str(_SERVICE_ACCOUNT / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "in-cluster", "user": {"tokenFile": str(_SERVICE_ACCOUNT / "token")}}],
    }


def _field(extra: Mapping[str, Any], name: str) -> Any:
    value = extra.get(name) or extra.get(f"{_LEGACY_PREFIX}{name}")
    if name == "in_cluster" and str(value).strip().lower() in _NO:
        return None  # written by hand or by a tool that knows texts only
    return value or None


def _missing(conn_id: str) -> ConnectionMissing:
    return ConnectionMissing(
        f"Airflow connection {conn_id!r} does not exist; make it with: airflow connections add {conn_id} "
        '--conn-type kubernetes --conn-extra \'{"kube_config_path": "/path/to/kubeconfig"}\''
    )
