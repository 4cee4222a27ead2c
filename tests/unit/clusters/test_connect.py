"""A kubeconfig is used as it is, or refused with what to put where."""

from __future__ import annotations

import asyncio
import base64
import copy
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes_asyncio.client import Configuration

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.exceptions import ConnectionMissing

if TYPE_CHECKING:
    from pathlib import Path

CONFIG: dict[str, Any] = {
    "current-context": "main",
    "contexts": [
        {"name": "main", "context": {"cluster": "c", "user": "u"}},
        {"name": "other", "context": {"cluster": "d", "user": "u"}},
        {"name": "nobody", "context": {"cluster": "c"}},
        {"name": "nowhere", "context": {"cluster": "missing", "user": "u"}},
    ],
    "clusters": [
        {"name": "c", "cluster": {"server": "http://10.0.0.1:6443/"}},
        {"name": "d", "cluster": {"server": "http://10.0.0.2:6443"}},
    ],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def opened(config: dict[str, Any], context: str | None = None) -> tuple[str, str]:
    """Return the server and the Authorization value that a client would use."""

    async def look() -> tuple[str, str]:
        async with await client_from_kubeconfig(config, context) as client:
            settings = client._wire._api.configuration
            return client.server, settings.api_key.get("BearerToken", "")

    return asyncio.run(look())


def test_the_context_decides_the_cluster() -> None:
    """The current context is the default; the dict is not changed."""
    before = copy.deepcopy(CONFIG)
    assert opened(CONFIG) == ("http://10.0.0.1:6443", "Bearer secret")
    assert opened(CONFIG, "other") == ("http://10.0.0.2:6443", "Bearer secret")
    assert before == CONFIG


@pytest.mark.parametrize(
    ("change", "context", "words"),
    [
        ({"current-context": None}, None, "no current-context"),
        ({"current-context": "gone"}, None, "no context 'gone'"),
        ({"contexts": []}, None, "there: none"),
        ({"contexts": None}, None, "no context 'main'"),
        ({}, "nobody", "names no user"),
        ({}, "nowhere", "no cluster 'missing' (there: 'c', 'd')"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, None, "no server URL"),
        ({"clusters": [{"name": "c", "cluster": {"server": "10.0.0.1:6443"}}]}, None, "no server URL"),
        ({"clusters": [{"name": "c", "cluster": {"server": "https://a:99999"}}]}, None, "no server URL"),
        ({"clusters": [{"name": "c", "cluster": {"server": "https://[::1"}}]}, None, "no server URL"),
        ({"clusters": [{"name": "c", "cluster": {"server": "https://:6443"}}]}, None, "no server URL"),
        ({"users": []}, None, "no user 'u'"),
        ({"users": [{"name": "u", "user": {"token": "secret", "as": "job"}}]}, None, "as somebody else"),
        ({"users": [{"name": "u", "user": {"tokenFile": "/no/such/file"}}]}, None, "cannot be used"),
    ],
)
def test_what_is_unusable_is_said(change: dict[str, Any], context: str | None, words: str) -> None:
    """The text names the missing entry and the field of the Airflow connection."""
    with pytest.raises(ConnectionMissing) as caught:
        opened({**CONFIG, **change}, context)
    assert words in str(caught.value)
    assert "Kube config" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("data", ["%%%", base64.b64encode(b"no certificate").decode()])
def test_a_certificate_that_is_none_is_said(data: str) -> None:
    """Broken certificate data is the connection's fault, not the cluster's."""
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": data}
    with pytest.raises(ConnectionMissing, match="cannot be used"):
        opened({**CONFIG, "clusters": [{"name": "c", "cluster": cluster}]})


def test_nothing_is_left_and_nothing_is_taken_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file stays behind, no global default is set, and the home directory is not read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 10.0.0.1 login thief password thief")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-such-config"))

    default = Configuration._default

    async def trusts_environment() -> bool:
        async with await client_from_kubeconfig(CONFIG) as client:
            return bool(client._wire._api.rest_client.pool_manager.trust_env)

    assert asyncio.run(trusts_environment()) is False
    assert os.listdir(tmp_path) == ["netrc"]
    assert Configuration._default is default


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        ("https://10.96.0.1:443", "localhost,10.0.0.0/8", True),
        ("https://10.96.0.1:443", "localhost, 10.96.0.1", True),
        ("https://10.96.0.1:443", "192.168.0.0/16,.svc", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://gpu.example.com", "10.0.0.0/8", False),
        ("https://gpu.example.com", ".example.com", True),
        ("https://10.96.0.1:443", "", False),
    ],
)
def test_networks_without_a_proxy_are_reached_directly(
    server: str, no_proxy: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters are named in NO_PROXY by their networks, as every other Kubernetes client understands it."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    monkeypatch.delenv("no_proxy", raising=False)

    async def proxy() -> str | None:
        config = {**CONFIG, "clusters": [{"name": "c", "cluster": {"server": server}}]}
        async with await client_from_kubeconfig(config) as client:
            found: str | None = client._wire._api.rest_client.proxy
            return found

    assert asyncio.run(proxy()) == (None if direct else "http://proxy.example.com:3128")
