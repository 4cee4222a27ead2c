"""What the shim must know to run one container: command, environment, mounts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.node.devices import device_env
from lab.node.env import build_env, expand
from lab.node.rendezvous import hostname, hosts_file
from lab.node.rewrite import path_rewriter, peer_rewriter
from lab.node.volumes import Mount, container_mounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.node.config import NodeConfig
    from lab.node.devices import Held
    from lab.node.objects import Objects
    from lab.node.run import Run
    from lab.node.sandbox import Sandbox


class NoCommand(Exception):
    """A container without a command; the lab's images are names and bring none."""


def base_env(pod: Mapping[str, Any], home: Path) -> dict[str, str]:
    """Return what every container has, as if its image had set it; the agent's own variables stay out."""
    own = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if own not in path.split(os.pathsep):
        path = own + os.pathsep + path  # "python" in a container is the Python that runs the lab
    return {"PATH": path, "HOME": str(home), "HOSTNAME": hostname(pod), "LANG": "C.UTF-8"}


def make_spec(
    config: NodeConfig,
    sandbox: Sandbox,
    pod: Mapping[str, Any],
    run: Run,
    *,
    objects: Objects,
    places: Mapping[str, Path],
    peers: list[str],
    devices: Held,
) -> dict[str, Any]:
    """Describe one container to the shim."""
    source = run.spec
    asked = build_env(pod, source, objects, config.capacity)
    env = base_env(pod, run.folder / "home") | asked | device_env(devices)
    argv = [expand(word, asked) for word in (*(source.get("command") or ()), *(source.get("args") or ()))]
    if not argv:
        raise NoCommand("no command specified")
    run.folder.mkdir(parents=True, exist_ok=True)
    run.termination_path.touch()
    mounts = container_mounts(source, places, asked)
    mounts.append(Mount(str(run.termination_path), source["terminationMessagePath"]))
    cwd = source.get("workingDir") or str(run.folder / "home")
    if sandbox is None:
        to_place = path_rewriter({mount.target: mount.source for mount in mounts})
        to_peer = peer_rewriter(pod["spec"].get("subdomain"), pod["metadata"]["namespace"])
        own = {"HOME", "PATH"} - asked.keys()
        env = {name: text if name in own else to_peer(to_place(text)) for name, text in env.items()}
        argv = [to_peer(to_place(word)) for word in argv]
        cwd = to_place(cwd)
        mounts = []
    elif not any(mount.target == "/etc/hosts" for mount in mounts):
        hosts = run.folder / "hosts"
        hosts.write_text(hosts_file(pod, peers))
        mounts.append(Mount(str(hosts), "/etc/hosts"))
    return {
        "argv": argv,
        "env": env,
        "cwd": cwd,
        "lifeline": config.lifeline,
        "sandbox": sandbox,
        "root": str(run.folder / "root"),
        "hostname": hostname(pod),
        "mounts": [
            {"source": mount.source, "target": mount.target, "read_only": mount.read_only} for mount in mounts
        ],
    }
