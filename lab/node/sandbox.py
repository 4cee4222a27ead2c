"""How a container is started: the shim, and the namespaces it may use on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SHIM = Path(__file__).with_name("shim_main.py")
PROBE_SECONDS = 10.0

Sandbox = dict[str, bool] | None  # {"user": own user namespace, "pid": own pid namespace}; None: plain mode


def launch(folder: Path, spec: dict[str, Any]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a container's shim; the second value is a pipe that ends when its command has started."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    ready, ready_end = os.pipe2(os.O_CLOEXEC)
    try:
        with (folder / "shim.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-S", "-E", str(SHIM), str(folder), str(ready_end)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=(ready_end,),
                start_new_session=True,
            )
    finally:
        os.close(ready_end)
    return process, ready


async def until_closed(pipe: int) -> None:
    """Wait for the end of a pipe that nobody writes to, and close it."""
    loop = asyncio.get_running_loop()
    closed = loop.create_future()
    loop.add_reader(pipe, closed.set_result, None)
    try:
        await closed
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)


async def choose_sandbox(mode: str, folder: Path, lifeline: str) -> Sandbox:
    """Try which namespaces work here, by running a command in each kind of sandbox."""
    if mode == "plain":
        return None
    candidates = [{"user": False, "pid": True}] if os.geteuid() == 0 else []
    candidates += [{"user": True, "pid": True}, {"user": True, "pid": False}]
    for candidate in candidates:
        if await _works(candidate, folder, lifeline):
            return candidate
    if mode == "namespace":
        raise RuntimeError(
            "this machine allows no mount namespaces to ordinary users; "
            "write sandbox: plain, or allow user namespaces "
            "(sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a less strict seccomp profile)"
        )
    return None


async def _works(sandbox: dict[str, bool], folder: Path, lifeline: str) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    spec = {
        "argv": ["true"],
        "env": {"PATH": os.environ.get("PATH", os.defpath)},
        "cwd": "/",
        "lifeline": lifeline,
        "sandbox": sandbox,
        "root": str(folder / "root"),
        "hostname": "probe",
        "mounts": [{"source": str(folder / "home"), "target": "/probe/folder"}],
    }
    process, ready = launch(folder, spec)
    os.close(ready)
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, PROBE_SECONDS)
    process.kill()
    process.wait()
    try:
        record = json.loads((folder / "exit.json").read_text())
    except FileNotFoundError:
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(record["exit_code"] == 0)
