"""The command line: ``python -m lab COMMAND``."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab import build, faultcli, launch, nodecli, render, specfile
from lab.api import DEFAULT_NAME, Lab
from lab.errors import LabError, unknown_name
from lab.node.profiles import PROFILES
from lab.paths import LabPaths, default_home, tail
from lab.spec import ADMIN, check_lab_name, default_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EPILOG = """examples:
  python -m lab up                           start the default fleet and return when it is ready
  python -m lab up --print-spec > lab.yaml   write the default fleet down, to change it
  python -m lab up --file lab.yaml           start what the file says
  export KUBECONFIG=$(python -m lab kubeconfig onprem --path)
  python -m lab node kill onprem-l40s-1      cut the node's power: its agent and containers die
  python -m lab node partition gke-a100-1    cut it off; 'node heal' takes that back
  python -m lab server freeze etcd           let etcd hang; 'server thaw' takes that back
  python -m lab logs gke/kube-apiserver -f   follow a server's log
  python -m lab down                         end everything and remove the lab's folder
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    # The default action would end this process without a word; as an exception it passes the clean-up.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))
    try:
        check_lab_name(options.name)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output (head, less) has left; there is nobody to tell.
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=DEFAULT_NAME, help="name of the lab (default: %(default)s)")
    common.add_argument(
        "--home", type=Path, default=None, help=f"folder of all labs (default: {default_home()})"
    )
    parser = argparse.ArgumentParser(
        prog="python -m lab",
        description="Real Kubernetes control planes and process nodes on one machine, rootless.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, parents=[common])
        added.set_defaults(run=run)
        return added

    up = command("up", _up, "Start a lab and return when it is ready; it lives until 'down'.")
    up.add_argument(
        "--file", type=Path, help="spec of the fleet as YAML; without it the default fleet is started"
    )
    up.add_argument("--print-spec", action="store_true", help="print the spec as YAML and start nothing")
    up.add_argument("--foreground", action="store_true", help="stay until ctrl-C and end the lab then")
    command("down", _down, "End a lab, also a half-started or dead one, and remove its folder.")
    command("status", _status, "List all labs, and what runs in the one named.")
    building = command("build", _build, "Build the servers into the cache and start nothing.")
    building.add_argument(
        "extra", nargs="*", metavar="PROGRAM", help=f"built besides: {', '.join(build.EXTRAS)}"
    )
    logs = command("logs", _logs, "Show the end of a server's log.")
    logs.add_argument("component", nargs="?", help="such as onprem/kube-apiserver; without it all are listed")
    logs.add_argument("--lines", type=int, default=100, help="how many lines (default: %(default)s)")
    logs.add_argument(
        "-f", "--follow", action="store_true", help="go on until ctrl-C or until the log is removed"
    )
    kubeconfig = command("kubeconfig", _kubeconfig, "Print the kubeconfig of a cluster.")
    kubeconfig.add_argument("cluster")
    kubeconfig.add_argument("--user", default=ADMIN, help="whose (default: %(default)s)")
    kubeconfig.add_argument("--via", metavar="PROXY", help="go by a proxy, see 'proxy'")
    kubeconfig.add_argument(
        "--path", action="store_true", help="print the file's path in place of its content"
    )
    nodecli.add(commands, common)
    faultcli.add(commands, common)
    return parser


def _paths(options: argparse.Namespace) -> LabPaths:
    return LabPaths((options.home or default_home()).absolute(), options.name)


def _attach(options: argparse.Namespace) -> Lab:
    return Lab.attach(options.name, options.home)


def _progress(line: str) -> None:
    print(line, flush=True)


def _up(options: argparse.Namespace) -> int:
    spec = specfile.load(options.file, PROFILES) if options.file else default_spec()
    if options.print_spec:
        print(specfile.dump_yaml(spec), end="")
        return 0
    lab = Lab.up(
        spec, name=options.name, home=options.home, progress=_progress, detach=not options.foreground
    )
    render.lab(lab)
    first = lab.clusters[0].name
    chosen = f" --name {options.name}" if options.name != DEFAULT_NAME else ""
    chosen += f" --home {options.home}" if options.home else ""
    print(f"for kubectl: export KUBECONFIG=$(python -m lab kubeconfig {first} --path{chosen})")
    if not options.foreground:
        print(f"to end it: python -m lab down{chosen}")
    else:
        with lab:
            print("ctrl-C ends the lab", flush=True)
            while launch.is_running(lab.paths):
                threading.Event().wait(0.5)
            print("the lab was ended from elsewhere")
    return 0


def _down(options: argparse.Namespace) -> int:
    existed = launch.down(_paths(options))
    print(f"lab {options.name!r} is gone" if existed else f"there is no lab {options.name!r}; nothing to do")
    return 0


def _status(options: argparse.Namespace) -> int:
    paths = _paths(options)
    render.labs(list(launch.every_lab(paths.home)), paths.home)
    if launch.is_running(paths) and paths.state_file.is_file():
        render.lab(_attach(options))
    return 0


def _build(options: argparse.Namespace) -> int:
    programs = build.ensure_binaries(_progress)
    programs |= {name: build.ensure_extra(name, _progress) for name in options.extra}
    for name, path in programs.items():
        print(f"{name}: {path}")
    return 0


def _logs(options: argparse.Namespace) -> int:
    paths = _paths(options)
    logs = paths.logs()
    if not logs:
        raise LabError(f"there is no lab {options.name!r}. Start one with: python -m lab up")
    if options.component is None:
        print("\n".join(logs))
        return 0
    if options.component not in logs:
        raise LabError(unknown_name("component", options.component, logs))
    path = logs[options.component]
    position = path.stat().st_size
    print("\n".join(tail(path, options.lines)), flush=True)
    while options.follow and path.exists():
        with path.open("rb") as handle:
            handle.seek(position)
            sys.stdout.buffer.write(handle.read())
            sys.stdout.buffer.flush()
            position = handle.tell()
        time.sleep(0.2)
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    cluster = _attach(options).cluster(options.cluster)
    way = cluster.proxy(options.via) if options.via else cluster
    path = way.kubeconfig_path(options.user)
    print(path if options.path else path.read_text(encoding="utf-8"), end="\n" if options.path else "")
    return 0
