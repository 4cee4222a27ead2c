"""The commands about servers and what is between them and their clients."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

from lab.api import Lab
from lab.credentials import Credential
from lab.node.profiles import PROFILES
from lab.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.api import Cluster

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_SERVER_ACTIONS: dict[str, tuple[Callable[[Server], None], str, str]] = {
    "kill": (Server.kill, "End a server at once (SIGKILL).", "is dead until 'server start'"),
    "terminate": (Server.terminate, "Ask a server to end (SIGTERM) and do not wait.", "was asked to end"),
    "freeze": (
        Server.freeze,
        "Stop a server (SIGSTOP): connections stay open.",
        "stands still until 'server thaw'",
    ),
    "thaw": (Server.thaw, "Let a server go on that is frozen.", "goes on"),
    "start": (Server.start, "Start a server again, with the address and the data that it had.", "is ready"),
}
_PROXY_MODES = {
    "status": "say how it is",
    "carry": "carry everything",
    "refuse": "refuse new connections",
    "hold": "keep everything back until 'carry'",
    "blackhole": "swallow everything",
    "reset": "break open connections off",
}


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the commands."""
    _add_server(commands, common)
    _add_proxy(commands, common)
    _add_api(commands, common)
    _add_kwok(commands, common)


def _group(commands: Commands, name: str, text: str) -> Commands:
    return commands.add_parser(name, help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )


def _add_server(commands: Commands, common: argparse.ArgumentParser) -> None:
    actions = _group(commands, "server", "Kill, terminate, freeze, thaw or start a server.")
    for name, (do, text, result) in _SERVER_ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text, parents=[common])
        action.add_argument("server", help="such as etcd or onprem/kube-apiserver, as 'logs' lists them")
        action.set_defaults(run=lambda options, do=do, result=result: _serve(do, result, options))


def _serve(do: Callable[[Server], None], result: str, options: argparse.Namespace) -> int:
    do(Server(options.server, Lab.attach(options.name, options.home).paths))
    print(f"{options.server} {result}")
    return 0


def _add_proxy(commands: Commands, common: argparse.ArgumentParser) -> None:
    text = "Harm the network before an API server: for clients whose kubeconfig goes by the proxy."
    proxy = commands.add_parser("proxy", help=text, description=text, parents=[common])
    proxy.add_argument("cluster")
    modes = "; ".join(f"{mode}: {meaning}" for mode, meaning in _PROXY_MODES.items())
    proxy.add_argument("mode", nargs="?", choices=_PROXY_MODES, default="status", help=modes)
    proxy.add_argument("--via", default="proxy", metavar="PROXY", help="which one (default: %(default)s)")
    proxy.add_argument("--delay", type=float, metavar="SECONDS", help="carry each piece so much later")
    proxy.set_defaults(run=_proxy)


def _proxy(options: argparse.Namespace) -> int:
    proxy = _cluster(options).proxy(options.via)
    if options.mode != "status":
        getattr(proxy, options.mode)()
    if options.delay is not None:
        proxy.delay(options.delay)
    status = ", ".join(f"{key} {value}" for key, value in proxy.status().items())
    print(f"{proxy.server}: {status}\nkubeconfig: {proxy.kubeconfig_path()}")
    return 0


def _add_api(commands: Commands, common: argparse.ArgumentParser) -> None:
    actions = _group(commands, "api", "Let an API server answer 410, 429 or 401.")

    def action(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=text, description=text, parents=[common])
        added.add_argument("cluster")
        added.set_defaults(run=run)
        return added

    action("expire", _expire, "Make every version that clients know too old (410).")
    throttle = action("throttle", _throttle, "Answer a user's requests with 429 for some time.")
    throttle.add_argument("user", help="one of the spec's users; it needs the right to list nodes")
    throttle.add_argument("--seconds", type=float, default=30.0, help="how long (default: %(default)g)")
    for name, run, text in (
        ("issue", _issue, "Make a ServiceAccount's kubeconfig, or write a new token into it."),
        ("revoke", _revoke, "Make all tokens of 'api issue' void (401)."),
    ):
        credential = action(name, run, text)
        credential.add_argument("account", help="name of the ServiceAccount")
        credential.add_argument("--namespace", default="default", help="its namespace (default: %(default)s)")


def _expire(options: argparse.Namespace) -> int:
    _cluster(options).expire_history()
    print(f"{options.cluster} has forgotten what was before; older watches and lists get 410")
    return 0


def _throttle(options: argparse.Namespace) -> int:
    with _cluster(options).throttled(options.user):
        print(f"{options.user} gets 429 for {options.seconds:g} s; ctrl-C ends it", flush=True)
        threading.Event().wait(options.seconds)
    print(f"{options.user} is served again")
    return 0


def _issue(options: argparse.Namespace) -> int:
    credential = _cluster(options).credential(options.account, options.namespace)
    print(f"{credential.user}: {credential.kubeconfig_path}")
    return 0


def _revoke(options: argparse.Namespace) -> int:
    credential = Credential(_cluster(options), options.namespace, options.account)
    credential.revoke()
    print(f"{credential.user} gets 401 until 'api issue'")
    return 0


def _count(text: str) -> int:
    """Read a number of nodes."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} nodes are none; give 1 or more")
    return count


def _add_kwok(commands: Commands, common: argparse.ArgumentParser) -> None:
    actions = _group(commands, "kwok", "Add or remove nodes that exist in the API alone, for scale.")
    text = "Add nodes; the controller is built when it is first needed."
    adding = actions.add_parser("add", help=text, description=text, parents=[common])
    adding.add_argument("cluster")
    adding.add_argument("count", type=_count, help="how many")
    adding.add_argument(
        "profile", choices=sorted(PROFILES), metavar="PROFILE", help=", ".join(sorted(PROFILES))
    )
    adding.add_argument(
        "--prefix", default="kwok", help="they are called PREFIX-0 and so on (default: %(default)s)"
    )
    adding.set_defaults(run=_kwok_add)
    removing = actions.add_parser("remove", help="Remove all of them.", parents=[common])
    removing.add_argument("cluster")
    removing.set_defaults(run=_kwok_remove)


def _kwok_add(options: argparse.Namespace) -> int:
    kwok = _cluster(options).kwok
    names = kwok.add_nodes(options.count, options.profile, prefix=options.prefix, progress=print)
    print(f"{len(names)} KWOK nodes are Ready")
    return 0


def _kwok_remove(options: argparse.Namespace) -> int:
    kwok = _cluster(options).kwok
    names = kwok.names()
    kwok.remove_nodes(names)
    print(f"{len(names)} KWOK nodes are removed")
    return 0


def _cluster(options: argparse.Namespace) -> Cluster:
    return Lab.attach(options.name, options.home).cluster(options.cluster)
