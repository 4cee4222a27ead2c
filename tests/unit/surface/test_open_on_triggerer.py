"""Opening a cluster in a triggerer, where all triggers share one event loop."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_gpu_placement.hooks.clusters import open_on_triggerer
from tests.unit.clusters.test_connect import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_disk_that_hangs_stops_no_other_trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig comes only when the event loop has written it, which it could not if it waited."""
    path = tmp_path / "config"
    os.mkfifo(path)

    async def connection(_: str) -> SimpleNamespace:
        return SimpleNamespace(extra_dejson={"kube_config_path": str(path)})

    monkeypatch.setattr(BaseHook, "aget_connection", connection)

    async def open_and_write() -> str:
        opening = asyncio.create_task(open_on_triggerer("slow", None))
        async with asyncio.timeout(30):
            while (pipe := written(path)) is None:  # noqa: ASYNC110 - the reader is in a thread
                await asyncio.sleep(0.02)
            os.write(pipe, json.dumps(CONFIG).encode())
            os.close(pipe)
            async with await opening as client:
                return client.server

    assert asyncio.run(open_and_write()) == "http://10.0.0.1:6443"


def written(path: Path) -> int | None:
    """Open a pipe for writing; ``None``: nobody reads it yet."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def test_the_client_library_is_loaded_beside_the_event_loop() -> None:
    """It takes half a second and more, in a process that has not used it yet."""
    program = """
import asyncio, builtins, sys, threading
from airflow_gpu_placement.hooks.clusters import ClusterAccess
from airflow_gpu_placement.exceptions import ConnectionMissing
usual, seen = builtins.__import__, set()
def noting(name, *more):
    if name.startswith("kubernetes_asyncio") and "kubernetes_asyncio" not in sys.modules:
        seen.add(threading.current_thread() is threading.main_thread())
    return usual(name, *more)
builtins.__import__ = noting
try:
    asyncio.run(ClusterAccess(config={}, context=None).open())
except ConnectionMissing:
    print(seen)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "{False}"
