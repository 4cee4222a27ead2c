"""What a lab shall consist of: clusters, their nodes, their users. Frozen values, checked as a whole."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lab.errors import LabSpecError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.node.profiles import NodeProfile

SANDBOXES = ("auto", "namespace", "plain")
CPU_PROFILE = "cpu"
ADMIN = "admin"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One process node.

    :param profile: name of a machine profile (``lab.node.profiles.PROFILES``).
    :param gpus: number of GPUs in place of the profile's; ``None`` keeps the profile's.
    :param labels: labels added to the profile's.
    :param zone: topology zone in place of the profile's; ``None`` keeps the profile's.
    :param region: topology region in place of the profile's; ``None`` keeps the profile's.
    :param renew_seconds: period of the node's heartbeat.
    :param sandbox: ``namespace`` (mount and pid namespaces), ``plain``, or ``auto``: what the machine allows.
    :param images: names of the images that it can have; ``*`` stands for any text without a slash.
    :param backoff_seconds: delay after a first failed pull or crash; it doubles, up to 30 times.
    """

    name: str
    profile: str
    gpus: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    region: str | None = None
    renew_seconds: float = 10.0
    sandbox: str = "auto"
    images: tuple[str, ...] = ("*", "lab/*", "registry.example/*")
    backoff_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One Kubernetes cluster.

    :param nodes: its nodes. One node without GPUs is added when none is listed, because a cluster whose nodes
        are all lost never evicts a pod.
    :param users: names that get a token and a kubeconfig and no rights.
    :param cpu_node: whether that node is added.
    :param own_etcd: whether it gets an etcd of its own, so that an outage of it hits no other cluster.
    """

    name: str
    nodes: tuple[NodeSpec, ...] = ()
    users: tuple[str, ...] = ()
    cpu_node: bool = True
    own_etcd: bool = False

    def all_nodes(self) -> tuple[NodeSpec, ...]:
        """Return the nodes listed and the node that is added."""
        if not self.cpu_node or any(node.profile == CPU_PROFILE for node in self.nodes):
            return self.nodes
        renew_seconds = min((node.renew_seconds for node in self.nodes), default=10.0)
        return (*self.nodes, NodeSpec(f"{self.name}-cpu", CPU_PROFILE, renew_seconds=renew_seconds))


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A whole lab.

    :param node_monitor_grace_seconds: whole seconds after a node's last heartbeat at which the node lifecycle
        controller calls it lost.
    """

    clusters: tuple[ClusterSpec, ...]
    node_monitor_grace_seconds: int = 20

    def check(self, profiles: Mapping[str, NodeProfile] | None = None) -> None:
        """Check the whole spec.

        :param profiles: the known machine profiles; ``None`` leaves profile names unchecked.
        :raises LabSpecError: with every problem found.
        """
        problems = [f"{where}: {what}" for where, what in self.problems(profiles)]
        if problems:
            raise LabSpecError(problems)

    def problems(self, profiles: Mapping[str, NodeProfile] | None = None) -> Iterator[tuple[str, str]]:
        """Yield each problem as path and text."""
        if not self.clusters:
            yield "clusters", "is empty; list at least one cluster"
        if self.node_monitor_grace_seconds < 1:
            yield "node_monitor_grace_seconds", f"is {self.node_monitor_grace_seconds}; give at least 1"
        yield from _doubles("clusters", [cluster.name for cluster in self.clusters])
        for index, cluster in enumerate(self.clusters):
            where = f"clusters[{index}]"
            yield from _bad_name(f"{where}.name", cluster.name)
            yield from _users(f"{where}.users", cluster.users)
            yield from _doubles(f"{where}.nodes", [node.name for node in cluster.all_nodes()])
            for position, node in enumerate(cluster.all_nodes()):
                path = f"{where}.nodes[{position}]"
                yield from self.node_problems(path, node, profiles)

    def node_problems(
        self, path: str, node: NodeSpec, profiles: Mapping[str, NodeProfile] | None
    ) -> Iterator[tuple[str, str]]:
        """Yield each problem of one node as path and text."""
        yield from _bad_name(f"{path}.name", node.name)
        if profiles is not None and node.profile not in profiles:
            yield f"{path}.profile", unknown_name("profile", node.profile, profiles)
        elif profiles is not None and node.gpus and not profiles[node.profile].gpus:
            yield f"{path}.gpus", f"is {node.gpus}, but profile {node.profile!r} has none; take one that has"
        if node.gpus is not None and not 0 <= node.gpus <= 1024:
            yield f"{path}.gpus", f"is {node.gpus}; give 0 to 1024"
        if node.sandbox not in SANDBOXES:
            yield f"{path}.sandbox", unknown_name("sandbox", node.sandbox, SANDBOXES)
        if not (math.isfinite(node.backoff_seconds) and node.backoff_seconds >= 0.1):
            yield f"{path}.backoff_seconds", f"is {node.backoff_seconds}; give at least 0.1"
        if not (math.isfinite(node.renew_seconds) and node.renew_seconds >= 0.1):
            yield f"{path}.renew_seconds", f"is {node.renew_seconds}; give at least 0.1"
        elif node.renew_seconds * 1.5 > self.node_monitor_grace_seconds:
            yield (
                f"{path}.renew_seconds",
                f"is {node.renew_seconds:g}, too slow for node_monitor_grace_seconds "
                f"{self.node_monitor_grace_seconds}: the node would flap; give at most "
                f"{self.node_monitor_grace_seconds / 1.5:.1f}",
            )

    def with_node(self, cluster_name: str, node: NodeSpec) -> LabSpec:
        """Return the spec with one node more."""
        clusters = tuple(
            replace(cluster, nodes=(*cluster.all_nodes(), node)) if cluster.name == cluster_name else cluster
            for cluster in self.clusters
        )
        return replace(self, clusters=clusters)


def default_spec() -> LabSpec:
    """Return the fleet that ``up`` starts without a file: one cluster on the premises, one in a cloud."""
    return LabSpec(
        clusters=(
            ClusterSpec(
                "onprem",
                nodes=(
                    NodeSpec("onprem-h100-1", "onprem-h100-sxm"),
                    NodeSpec("onprem-l40s-1", "onprem-l40s"),
                ),
            ),
            ClusterSpec(
                "gke", nodes=(NodeSpec("gke-a100-1", "gke-a100-80"), NodeSpec("gke-a100-2", "gke-a100-80"))
            ),
        )
    )


def check_lab_name(name: str) -> None:
    """Refuse a lab name that is no folder name.

    :raises LabSpecError: says what a name may be.
    """
    check_name("name of the lab", name)


def check_name(what: str, name: str) -> None:
    """Refuse a name that is no folder name.

    :param what: what is named.
    :raises LabSpecError: says what a name may be.
    """
    problems = [f"{where}: {problem}" for where, problem in _bad_name(what, name)]
    if problems:
        raise LabSpecError(problems)


def _bad_name(path: str, name: str) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(name):
        yield path, f"{name!r} is no name; use 1 to 63 lower-case letters, digits and '-', no '-' at the ends"


def _users(path: str, users: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield from _doubles(path, list(users))
    for index, user in enumerate(users):
        yield from _bad_name(f"{path}[{index}]", user)
        if user == ADMIN:
            yield f"{path}[{index}]", f"{ADMIN!r} exists in every cluster; leave it out"


def _doubles(path: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield path, f"{name!r} is listed more than once"
