"""The owner's side of the warden, on a program that only sleeps."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lab.airflow.processes import WardedProcesses

if TYPE_CHECKING:
    from pathlib import Path


def test_several_threads_ask_one_warden(tmp_path: Path) -> None:
    """Each gets the answer to its own question."""
    out = tmp_path / "out"
    with WardedProcesses(os.environ, cwd=tmp_path, log=tmp_path / "log") as processes:
        pids = {name: processes.start(name, ["/bin/sleep", "60"], out=out, err=out) for name in "abcd"}

        def ask(name: str) -> bool:
            return processes.members(name) == [pids[name]] and processes.status()[name].exit_code is None

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, list(pids) * 50))
