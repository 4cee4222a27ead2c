"""The commands about nodes: ``python -m lab node ACTION``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab import render
from lab.api import Lab
from lab.errors import LabError, unknown_name
from lab.eviction import NOTICES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from lab.api import Cluster
    from lab.nodes import Node

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command ``node``."""
    text = "List nodes, add faults to them and take those back."
    actions = commands.add_parser("node", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    listing = actions.add_parser(
        "list", help="List the nodes.", description="List the nodes.", parents=[common]
    )
    listing.set_defaults(run=_list)

    def action(
        name: str, do: Callable[[Node, argparse.Namespace], str], text: str
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=text, description=text, parents=[common])
        added.add_argument("node", metavar="NODE", help="its name, or CLUSTER/NAME")
        added.set_defaults(run=lambda options: _run(do, options))
        return added

    kill = action("kill", _kill, "Cut a node's power: its agent and all its containers die at once.")
    kill.add_argument("--agent-only", action="store_true", help="kill the agent; containers live on")
    action("start", _start, "Start a node whose agent does not run.")
    action("partition", _partition, "Cut a node off from the API server; all that runs on it lives on.")
    action("heal", _heal, "Give a node its network back.")
    freeze = action("freeze", _freeze, "Stop everything on a node (SIGSTOP), as a machine that hangs.")
    freeze.add_argument("--agent-only", action="store_true", help="stop the agent; containers run on")
    action("thaw", _thaw, "Let everything on a node go on.")
    drain = action("drain", _drain, "Cordon a node and evict its pods, as kubectl drain does.")
    drain.add_argument(
        "--timeout", type=float, default=120.0, metavar="SECONDS", help="give up then (default: %(default)g)"
    )
    action("uncordon", _uncordon, "Let new pods come to a node again.")
    notice = action("notice", _notice, "Announce that a cloud takes a node away, with that cloud's taint.")
    notice.add_argument("--style", choices=NOTICES, default="gke", help="whose (default: %(default)s)")
    notice.add_argument("--withdraw", action="store_true", help="take every announcement back instead")
    action("delete", _delete, "Delete the Node object, as a cloud does that took the machine back.")


def _run(do: Callable[[Node, argparse.Namespace], str], options: argparse.Namespace) -> int:
    print(do(find_node(Lab.attach(options.name, options.home), options.node), options))
    return 0


def _list(options: argparse.Namespace) -> int:
    render.nodes(Lab.attach(options.name, options.home))
    return 0


def _kill(node: Node, options: argparse.Namespace) -> str:
    if not options.agent_only:
        return f"{node.name} has lost its power: {node.power_off()} processes died"
    node.kill_agent()
    return f"the agent of {node.name} is dead; {len(node.pids())} processes of its containers run on"


def _start(node: Node, _options: argparse.Namespace) -> str:
    node.start()
    return f"the agent of {node.name} runs; the node is Ready in some seconds"


def _partition(node: Node, _options: argparse.Namespace) -> str:
    node.partition()
    return f"{node.name} is cut off; its {len(node.pids())} processes run on until 'node heal' or 'node kill'"


def _heal(node: Node, _options: argparse.Namespace) -> str:
    node.heal()
    return f"{node.name} has its network back; the node is Ready in some seconds"


def _freeze(node: Node, options: argparse.Namespace) -> str:
    if not options.agent_only:
        return f"{node.name} stands still: {node.freeze()} processes are stopped until 'node thaw'"
    node.freeze_agent()
    return f"the agent of {node.name} stands still until 'node thaw'; its containers run on"


def _thaw(node: Node, _options: argparse.Namespace) -> str:
    node.thaw()
    return f"everything on {node.name} goes on"


def _drain(node: Node, options: argparse.Namespace) -> str:
    evicted = node.drain(options.timeout)
    return "\n".join([f"{node.name} is cordoned; {len(evicted)} pods were evicted", *evicted])


def _uncordon(node: Node, _options: argparse.Namespace) -> str:
    node.uncordon()
    return f"{node.name} takes new pods"


def _notice(node: Node, options: argparse.Namespace) -> str:
    if options.withdraw:
        node.withdraw_notice()
        return f"{node.name} stays"
    node.notice(options.style)
    return f"{node.name} has the taint {NOTICES[options.style]}"


def _delete(node: Node, _options: argparse.Namespace) -> str:
    node.delete_object()
    return f"the Node object {node.name} is deleted; its processes run on until 'node kill'"


def find_node(lab: Lab, wanted: str) -> Node:
    """Find a node by ``NAME`` or ``CLUSTER/NAME``."""
    every: dict[str, list[Node]] = {}
    clusters: list[Cluster] = lab.clusters
    for cluster in clusters:
        for node in cluster.nodes:
            every.setdefault(node.name, []).append(node)
            every[f"{cluster.name}/{node.name}"] = [node]
    found = every.get(wanted, [])
    if len(found) == 1:
        return found[0]
    if found:
        names = " or ".join(f"{node.cluster.name}/{node.name}" for node in found)
        raise LabError(f"several clusters have a node {wanted!r}; say which one: {names}")
    raise LabError(unknown_name("node", wanted, [name for name in every if "/" not in name]))
