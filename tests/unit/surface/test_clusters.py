"""Which cluster an Airflow connection means, and that no other is ever taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.exceptions import ConnectionMissing
from airflow_gpu_placement.hooks.clusters import kubeconfig_from_extra

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {"current-context": "c", "clusters": [], "contexts": [], "users": []}


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"kube_config": json.dumps(CONFIG)}, id="kubeconfig as JSON text"),
        pytest.param({"kube_config": CONFIG}, id="kubeconfig as an object"),
        pytest.param({"extra__kubernetes__kube_config": json.dumps(CONFIG)}, id="the old prefixed name"),
        pytest.param({"kube_config": "current-context: c\nclusters: []\ncontexts: []\nusers: []"}, id="YAML"),
    ],
)
def test_a_kubeconfig_in_the_connection_is_read(extra: dict[str, Any]) -> None:
    """Every form that the provider accepts is accepted."""
    assert kubeconfig_from_extra(extra, "gpu") == CONFIG


def test_a_path_in_the_connection_is_read(tmp_path: Path) -> None:
    """A kubeconfig file is read from where the connection says."""
    path = tmp_path / "config"
    path.write_text(json.dumps(CONFIG))

    assert kubeconfig_from_extra({"kube_config_path": str(path)}, "gpu") == CONFIG


def test_files_that_a_kubeconfig_names_lie_beside_it(tmp_path: Path) -> None:
    """As for kubectl; a command without a folder is looked for where commands are."""
    users: list[dict[str, Any]] = [
        {"client-certificate": "tls/me.crt", "client-key": "/keys/me.key", "tokenFile": ""},
        {"exec": {"command": "bin/token"}, "token": "t"},
        {"exec": {"command": "aws"}},
    ]
    config = {
        **CONFIG,
        "clusters": [{"name": "c", "cluster": {"server": "s", "certificate-authority": "ca.crt"}}],
        "users": [{"name": str(index), "user": user} for index, user in enumerate(users)],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))

    found = kubeconfig_from_extra({"kube_config_path": str(path)}, "gpu")

    assert found["clusters"][0]["cluster"]["certificate-authority"] == f"{tmp_path}/ca.crt"
    assert [one["user"] for one in found["users"]] == [
        {"client-certificate": f"{tmp_path}/tls/me.crt", "client-key": "/keys/me.key", "tokenFile": ""},
        {"exec": {"command": f"{tmp_path}/bin/token"}, "token": "t"},
        {"exec": {"command": "aws"}},
    ]
    path.write_text("clusters: [1, {cluster: 2}]\nusers: 3\ncontexts: []")
    assert kubeconfig_from_extra({"kube_config_path": str(path)}, "gpu")["users"] == 3


@pytest.mark.parametrize(
    ("extra", "want"),
    [
        pytest.param({}, "none of them", id="an empty connection never means the default credentials"),
        pytest.param({"kube_config": ""}, "none of them", id="an empty field is no field"),
        pytest.param(
            {"kube_config": "{}", "in_cluster": True},
            "kube_config and in_cluster",
            id="two fields contradict",
        ),
        pytest.param(
            {"kube_config_path": "/no/such/file"},
            "kube_config_path cannot be read .'/no/such/file': No such file",
            id="no such file",
        ),
        pytest.param(
            {"kube_config_path": "~nobody-has-it/a"}, "kube_config_path cannot be read", id="no home"
        ),
        pytest.param({"kube_config_path": "/a\0b"}, "kube_config_path cannot be read", id="no path"),
        pytest.param({"kube_config_path": 5}, "kube_config_path cannot be read", id="a number"),
        pytest.param({"kube_config": "a: " + "9" * 5000}, "kube_config cannot be read", id="a huge number"),
        pytest.param({"kube_config": "[" * 3000 + "]" * 3000}, "cannot be read .Recursion", id="nested"),
        pytest.param({"kube_config": "{"}, "kube_config cannot be read", id="broken YAML"),
        pytest.param({"kube_config": "just text"}, "holds no kubeconfig", id="text that is no kubeconfig"),
        pytest.param({"in_cluster": True}, "does not run in a pod", id="in_cluster outside of a pod"),
        pytest.param({"in_cluster": "True"}, "does not run in a pod", id="in_cluster as a text"),
        pytest.param({"in_cluster": "False"}, "none of them", id="a text that says no"),
    ],
)
def test_a_connection_that_names_no_cluster_is_refused(
    extra: dict[str, Any], want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the connection and what is wrong with it."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(ConnectionMissing, match=want) as caught:
        kubeconfig_from_extra(extra, "gpu_conn")

    assert "gpu_conn" in str(caught.value)


def test_a_broken_kubeconfig_is_not_shown() -> None:
    """A kubeconfig holds secrets, so a parse error never quotes it."""
    with pytest.raises(ConnectionMissing) as caught:
        kubeconfig_from_extra({"kube_config": "token: hunter2\n\t- {"}, "gpu_conn")

    assert "hunter2" not in str(caught.value)


def test_a_secret_in_the_field_for_a_path_is_not_shown() -> None:
    """Only what looks like a path is."""
    with pytest.raises(ConnectionMissing, match="no absolute path") as caught:
        kubeconfig_from_extra({"kube_config_path": "token: hunter2"}, "gpu_conn")

    assert "hunter2" not in str(caught.value)
