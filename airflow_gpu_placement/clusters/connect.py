"""Build a client from a kubeconfig and from nothing else.

No default credentials are ever picked up: not ``~/.kube/config``, not a service account of the pod that
runs this, not ``~/.netrc``; and the client library's process-wide default configuration is neither read nor
changed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import copy
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from airflow_gpu_placement.clusters.client import ClusterClient
from airflow_gpu_placement.clusters.plugin import with_credentials
from airflow_gpu_placement.exceptions import ConnectionMissing

OpenCluster = Callable[[str, str | None], Awaitable[ClusterClient]]
"""Opens the cluster of an Airflow connection: (connection id, kubeconfig context)."""

_READ_BUFFER_BYTES = 2**20
_INLINE_FILES = ("certificate-authority", "client-certificate", "client-key")
_WHAT_TO_PUT = (
    "put a whole kubeconfig (clusters, contexts, users, current-context) into the field"
    " 'Kube config (JSON format)' of the Airflow connection, or its path into 'Kube config path'"
)


async def client_from_kubeconfig(config: Mapping[str, Any], context: str | None = None) -> ClusterClient:
    """Return a client for one context of a kubeconfig.

    :param config: the kubeconfig as a dict; not changed.
    :param context: name of the context; ``None``: the current one.
    :raises ConnectionMissing: nothing usable is in it; the text says what to put where.
    :raises Unreachable: its credential plugin does not answer.
    """
    chosen = _only_context(config, context)
    server = chosen["clusters"][0]["cluster"]["server"].rstrip("/")
    settings = Configuration(host=server)
    settings.connection_pool_maxsize = (
        0  # streams hold their connections, so a limit would block calls for good
    )
    with tempfile.TemporaryDirectory(prefix="gpu-placement-") as folder:
        try:
            chosen["users"][0]["user"] = await with_credentials(chosen["users"][0]["user"])
            _write_inline_files(chosen, Path(folder))
            await KubeConfigLoader(chosen, config_base_path="").load_and_set(settings)
            api_client = ApiClient(configuration=settings)
        except (ConfigException, OSError, ValueError, KeyError, TypeError) as error:
            # ssl.SSLError is an OSError; the library raises the others for entries of the wrong shape.
            raise ConnectionMissing(
                f"the kubeconfig for {server} cannot be used: {error}; {_WHAT_TO_PUT}"
            ) from error
    await _own_session(api_client, server)
    return ClusterClient(api_client, server=server)


def _only_context(config: Mapping[str, Any], context: str | None) -> dict[str, Any]:
    """Return a kubeconfig with the chosen context alone, checked to name a server and a user."""
    name = context or config.get("current-context")
    if not name:
        raise ConnectionMissing(
            f"the kubeconfig has no current-context and the pool names no context; {_WHAT_TO_PUT}"
        )
    entry = _entry(config, "contexts", "context", name)
    cluster_name, user_name = entry.get("cluster"), entry.get("user")
    if not cluster_name:
        raise ConnectionMissing(f"context {name!r} of the kubeconfig names no cluster; {_WHAT_TO_PUT}")
    cluster = _entry(config, "clusters", "cluster", cluster_name)
    if not _is_server(str(cluster.get("server") or "")):
        raise ConnectionMissing(
            f"cluster {cluster_name!r} of the kubeconfig has no server URL; {_WHAT_TO_PUT}"
        )
    if not user_name:
        raise ConnectionMissing(f"context {name!r} of the kubeconfig names no user; {_WHAT_TO_PUT}")
    user = _entry(config, "users", "user", user_name)
    if any(str(key) == "as" or str(key).startswith("as-") for key in user):
        raise ConnectionMissing(
            f"user {user_name!r} of the kubeconfig acts as somebody else (as), which is not done here; "
            f"{_WHAT_TO_PUT} with credentials of whom it acts as"
        )
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": copy.deepcopy(dict(entry))}],
        "clusters": [{"name": cluster_name, "cluster": copy.deepcopy(dict(cluster))}],
        "users": [{"name": user_name, "user": copy.deepcopy(dict(user))}],
    }


def _is_server(text: str) -> bool:
    """Whether a text is the address of an API server: a scheme, a host, and a port that there can be."""
    try:
        url = urlsplit(text)
        return url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:  # a port of more than 65535, a bracket that is not closed
        return False


def _entry(config: Mapping[str, Any], kind: str, key: str, name: str) -> Mapping[str, Any]:
    entries = config.get(kind) or ()
    for entry in entries if isinstance(entries, list | tuple) else ():
        if isinstance(entry, Mapping) and entry.get("name") == name:
            value = entry.get(key)
            return value if isinstance(value, Mapping) else {}
    named = ", ".join(repr(e.get("name")) for e in entries if isinstance(e, Mapping)) or "none"
    raise ConnectionMissing(f"the kubeconfig has no {key} {name!r} (there: {named}); {_WHAT_TO_PUT}")


def _write_inline_files(config: Mapping[str, Any], folder: Path) -> None:
    """Turn inline certificates and keys into files of ``folder``.

    The library would write them to files that stay until the process ends; these are read once, when the
    client is built, and go with the folder.
    """
    for holder in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for key in _INLINE_FILES:
            data = holder.pop(f"{key}-data", None)
            if not data:
                continue
            path = folder / key
            path.touch(mode=0o600)
            try:
                path.write_bytes(base64.b64decode(data, validate=False))
            except binascii.Error as error:
                raise ValueError(f"{key}-data is not base64: {error}") from error
            holder[key] = str(path)


async def _own_session(api_client: ApiClient, server: str) -> None:
    """Replace the HTTP session, which would take credentials from ``~/.netrc``; keep the proxy settings."""
    rest = api_client.rest_client
    library_session: aiohttp.ClientSession = rest.pool_manager
    rest.pool_manager = aiohttp.ClientSession(
        connector=library_session.connector,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER_BYTES,
    )
    library_session.detach()
    url = urlsplit(server)
    if rest.proxy is None and not _is_reached_directly(url.hostname or ""):
        rest.proxy = getproxies().get(url.scheme)


def _is_reached_directly(host: str) -> bool:
    """Whether ``NO_PROXY`` names a host, or a network with it, which the standard library does not see."""
    if proxy_bypass(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _networks(getproxies().get("no", "")))


def _networks(hosts: str) -> Iterator[IPv4Network | IPv6Network]:
    for one in hosts.split(","):
        with contextlib.suppress(ValueError):
            yield ip_network(one.strip(), strict=False)
