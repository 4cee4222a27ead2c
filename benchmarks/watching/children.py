"""The processes of the benchmark: one with the triggers, one that sees when each job has ended."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
import uuid
from typing import IO, TYPE_CHECKING, Any

from benchmarks.watching.child import CONN_ID
from lab.airflow import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lab import Cluster


class _Process:
    """A module of ours that gets one order and answers in lines of JSON."""

    def __init__(self, module: str, order: Mapping[str, Any], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("a process without pipes")
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            if line.startswith(b"{"):
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()


class Ends(_Process):
    """Sees with a watch of its own when the pod of each Job has succeeded.

    ``at`` has the moment of each Job by its name.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.at: dict[str, float] = {}
        order = {"kubeconfig": cluster.kubeconfig(), "namespace": namespace}
        super().__init__("benchmarks.watching.ends", order)

    def _take(self, line: dict[str, Any]) -> None:
        self.at.setdefault(line["name"], line["at"])


class Triggers(_Process):
    """All triggers in one event loop.

    ``events`` has the moment of each event by the name of its Job, ``last`` what all of them cost so far.
    """

    def __init__(
        self,
        kind: str,
        warm: Mapping[str, str],
        jobs: Sequence[Mapping[str, str]],
        cluster: Cluster,
        home: Path,
    ) -> None:
        self.events: dict[str, float] = {}
        self.last: dict[str, Any] = {}
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        folder = home / f"airflow-{kind}-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        extra = json.dumps({"kube_config": json.dumps(cluster.kubeconfig())})
        environment = {
            **settings.base_environment(folder, folder / "dags"),
            **settings.connection_variables({CONN_ID: {"conn_type": "kubernetes", "extra": extra}}),
        }
        order = {"kind": kind, "warm": warm, "jobs": jobs, "cluster_uid": cluster.uid}
        super().__init__("benchmarks.watching.child", order, environment)

    def _take(self, line: dict[str, Any]) -> None:
        self._lines.put(line)

    def wait(self, done: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """Take lines until one is what is waited for, and return that."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                raise SystemExit(f"the triggers said nothing for {seconds:g} s; last: {self.last}") from None
            if line["kind"] == "event":
                self.events[line["name"]] = line["at"]
            else:
                self.last = line
            if done(line):
                return line
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {seconds:g} s; {len(self.events)} events, last: {self.last}")
