"""Builds etcd and the Kubernetes servers from the committed Go modules, once, into a cache of the user."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab import toolchain
from lab.errors import LabError, unknown_name
from lab.locks import exclusive
from lab.processes import bound_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HERE = Path(__file__).resolve().parent
LOCK_FILE = _HERE.parent / "requirements" / "go.txt"

_STRIP = "-s -w"
_STAMP = "k8s.io/component-base/version"
_KEEP_ALIVE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class GoModule:
    """One Go module below lab/go and the programs built from it.

    :param programs: file name of each program and its Go package.
    """

    name: str
    programs: tuple[tuple[str, str], ...]
    ldflags: str = _STRIP

    @property
    def folder(self) -> Path:
        """Folder with go.mod and go.sum."""
        return _HERE / "go" / self.name


MODULES = (
    GoModule(name="etcd", programs=(("etcd", "go.etcd.io/etcd/server/v3"),)),
    GoModule(
        name="kubernetes",
        programs=tuple(
            (name, f"k8s.io/kubernetes/cmd/{name}")
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        ),
        # Without the stamp the servers call themselves v0.0.0 and clients refuse features by version.
        ldflags=f"{_STRIP} -X {_STAMP}.gitVersion=v1.36.3 -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=36",
    ),
)

# Built when somebody asks for them: what a lab needs does not depend on them.
EXTRAS = {"kwok": GoModule(name="kwok", programs=(("kwok", "sigs.k8s.io/kwok/cmd/kwok"),))}


def cache_folder() -> Path:
    """Return the folder that keeps built programs: below XDG_CACHE_HOME, else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "airflow-gpu-placement-lab"


def cache_key(module: GoModule, go_version: str) -> str:
    """Return a key that changes with anything that changes the built programs."""
    parts = [
        (module.folder / "go.mod").read_bytes(),
        (module.folder / "go.sum").read_bytes(),
        repr((module.programs, module.ldflags, go_version, platform.system(), platform.machine())).encode(),
    ]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def ensure_binaries(progress: Callable[[str], None]) -> dict[str, Path]:
    """Build what the cache does not hold yet.

    :param progress: gets one line for each program built, and one every 30 s while a build runs.
    :return: path of each program by its name.
    :raises LabError: when no toolchain is found or a build fails; says what to do.
    """
    return _ensure(MODULES, progress)


def ensure_extra(name: str, progress: Callable[[str], None]) -> Path:
    """Build one of the programs that are built on demand, if the cache does not hold it yet.

    :return: its path.
    :raises LabError: as :func:`ensure_binaries` does.
    """
    if name not in EXTRAS:
        raise LabError(unknown_name("program built on demand", name, EXTRAS))
    return _ensure((EXTRAS[name],), progress)[name]


def _ensure(modules: Sequence[GoModule], progress: Callable[[str], None]) -> dict[str, Path]:
    required = max(toolchain.required_version(module.folder / "go.mod") for module in modules)
    chosen = toolchain.choose(required, LOCK_FILE)
    programs: dict[str, Path] = {}
    for module in modules:
        folder = cache_folder() / f"{module.name}-{cache_key(module, chosen.version)}"
        _ensure_module(module, folder, chosen, progress)
        programs.update({name: folder / name for name, _ in module.programs})
    return programs


def _ensure_module(
    module: GoModule, folder: Path, chosen: toolchain.Toolchain, progress: Callable[[str], None]
) -> None:
    missing = [(name, package) for name, package in module.programs if not (folder / name).is_file()]
    if not missing:
        return
    lock = folder.with_name(folder.name + ".lock")
    with exclusive(lock, on_wait=lambda: progress(f"waiting for another process that builds {module.name}")):
        missing = [(name, package) for name, package in missing if not (folder / name).is_file()]
        if not missing:
            return
        go = toolchain.install(chosen, LOCK_FILE, cache_folder(), progress)
        folder.mkdir(parents=True, exist_ok=True)
        for broken_off in folder.glob(".*"):
            shutil.rmtree(broken_off)
        names = ", ".join(name for name, _ in missing)
        progress(f"building {names} with {chosen.version}: minutes, if Go's build cache is cold")
        for name, package in missing:
            _build(module, go, name, package, folder, progress)


def _build(
    module: GoModule, go: Path, name: str, package: str, folder: Path, progress: Callable[[str], None]
) -> None:
    """Build one program beside its final place and rename it, so that a half-written one is never used."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as scratch:
        target = Path(scratch) / name
        command = [str(go), "build", "-mod=readonly", "-trimpath", "-ldflags", module.ldflags]
        command += ["-o", str(target), package]
        output = _run(command, module.folder, lambda seconds: progress(f"building {name}: {seconds:.0f} s"))
        if output is not None:
            raise LabError(
                f"building {name} failed. If the Go module proxy was unreachable, try again with network "
                f"access; else restore {module.folder} from version control.\n{output}"
            )
        target.rename(folder / name)
    progress(f"built {name} in {time.monotonic() - started:.1f} s")


def _run(command: list[str], folder: Path, keep_alive: Callable[[float], None]) -> str | None:
    """Run a build; return ``None`` when it succeeded, else the end of its output."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            bound_command(command),
            cwd=folder,
            env=toolchain.go_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(timeout=_KEEP_ALIVE_SECONDS)
                except subprocess.TimeoutExpired:
                    keep_alive(time.monotonic() - started)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode == 0:
            return None
        output.seek(0)
        return "\n".join(output.read().splitlines()[-20:])
