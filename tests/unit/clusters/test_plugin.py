"""Credentials that a program gives: waited for in bounded time, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.clusters import plugin
from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.exceptions import ConnectionMissing, Unreachable
from tests.unit.clusters.test_connect import CONFIG, opened

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "client.authentication.k8s.io/v1"


def config(program: str, **more: Any) -> dict[str, Any]:
    """Return a kubeconfig whose user is a Python program."""
    entry = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", program], **more}
    return {**CONFIG, "users": [{"name": "u", "user": {"exec": entry}}]}


def saying(**status: str) -> str:
    """Return a program that gives credentials."""
    answer = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(answer)!r})"


def test_a_token_of_a_plugin_is_used() -> None:
    """The plugin gets its own environment, and is told what is asked for and that nobody sits there."""
    program = (
        "import os, json; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "assert not info['spec']['interactive']; assert os.environ['PATH'];"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',"
        "                  'status': {'token': os.environ['ROLE']}}))"
    )
    env = [{"name": "ROLE", "value": "trainer"}]
    assert opened(config(program, env=env)) == ("http://10.0.0.1:6443", "Bearer trainer")


def test_a_plugin_that_says_much_on_the_side_is_read() -> None:
    """What fills the pipe of its errors does not stop it."""
    program = "import sys; sys.stderr.write('x' * 10**6);" + saying(token="t")
    assert opened(config(program))[1] == "Bearer t"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('expired: log in')", "ended with 1: expired: log in"),
        ("print('hello')", "no ExecCredential"),
        (saying(), "neither a token nor a certificate"),
        (saying(clientCertificateData="pem"), "neither a token nor a certificate"),
        (saying(token="t").replace("/v1", "/v1beta1"), "speaks client.authentication.k8s.io/v1beta1"),
    ],
)
def test_a_plugin_without_credentials_is_said(program: str, words: str) -> None:
    """Going on as nobody would be refused by the cluster for another reason."""
    with pytest.raises(ConnectionMissing, match=words):
        opened(config(program))


@pytest.mark.parametrize("entry", ["aws", {"command": "aws"}, {"apiVersion": VERSION}])
def test_half_a_plugin_is_said(entry: Any) -> None:
    """The command and the version are both needed."""
    with pytest.raises(ConnectionMissing, match="must have a command and an apiVersion"):
        opened({**CONFIG, "users": [{"name": "u", "user": {"exec": entry}}]})


def test_keys_that_a_plugin_gives_stay_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read once, like those in the kubeconfig; here they are no keys, which is told."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = saying(clientCertificateData="not a certificate", clientKeyData="not a key")
    tls = {"clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}]}
    with pytest.raises(ConnectionMissing, match="cannot be used"):
        opened({**config(program), **tls})
    assert os.listdir(tmp_path) == []


def hanging(pids: Path) -> dict[str, Any]:
    """Return a kubeconfig whose plugin starts another program and says nothing for an hour."""
    child = "import time; time.sleep(3600)"
    program = (
        f"import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} .'); child.wait()"
    )
    return config(program)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for nobody but its parent's look."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"
    return True


def all_ended(pids: Path) -> bool:
    """Whether the plugin and what it started are gone in a moment."""
    started = [int(one) for one in pids.read_text().split()[:2]]
    until = time.monotonic() + 10
    while not all(map(has_ended, started)) and time.monotonic() < until:
        time.sleep(0.05)
    return all(map(has_ended, started))


def test_a_plugin_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That may pass; neither it nor what it started is left running."""
    monkeypatch.setattr(plugin, "PLUGIN_SECONDS", 3.0)
    pids = tmp_path / "pids"
    with pytest.raises(Unreachable, match="has not answered within 3 s"):
        opened(hanging(pids))
    assert all_ended(pids)


def test_a_plugin_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    """A cluster that takes too long is given up by whoever asks, every few seconds for days."""
    pids = tmp_path / "pids"

    async def open_impatiently() -> None:
        opening = asyncio.create_task(client_from_kubeconfig(hanging(pids)))
        async with asyncio.timeout(30):
            while not (pids.exists() and pids.read_text().endswith(".")):  # noqa: ASYNC110 - a file tells
                await asyncio.sleep(0.05)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(open_impatiently())
    assert all_ended(pids)
