"""Labs that a test starts and ends by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab import ClusterSpec, LabSpec, specfile
from tests.lab import leftovers

if TYPE_CHECKING:
    from lab.paths import LabPaths

    pass


CHECKOUT = Path(__file__).resolve().parents[2]
SMALL = LabSpec((ClusterSpec("one", cpu_node=False),))
GONE_SECONDS = 5.0


def command(*arguments: str, home: Path) -> list[str]:
    """Return the command line of ``python -m lab``."""
    return [sys.executable, "-m", "lab", *arguments, "--home", str(home)]


def start(*arguments: str, home: Path) -> subprocess.Popen[str]:
    """Start ``python -m lab`` and return the process, its output as a pipe."""
    return subprocess.Popen(
        command(*arguments, home=home),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run ``python -m lab`` to its end."""
    return subprocess.run(
        command(*arguments, home=home), cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )


def small_file(home: Path) -> str:
    """Write the small spec as a file."""
    path = home / "small.yaml"
    path.write_text(specfile.dump_yaml(SMALL), encoding="utf-8")
    return str(path)


def wait_half_started(paths: LabPaths) -> None:
    """Wait until an API server process exists while the lab is not ready."""
    log = paths.component("one/kube-apiserver") / "pid"
    leftovers.wait_until(log.exists, 30, lambda: f"{log} exists")
    assert not paths.state_file.exists()
