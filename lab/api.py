"""The Python interface of the lab: ``Lab`` and ``Cluster``, synchronous, as ``Node`` is."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lab import build, control, controlplane, launch, specfile
from lab.client import ApiClient
from lab.credentials import Credential
from lab.errors import LabError, unknown_name
from lab.etcd import compact
from lab.kwok import Kwok
from lab.node.profiles import PROFILES
from lab.nodes import Node
from lab.paths import LabPaths, default_home, tail
from lab.proxies import Proxy
from lab.servers import ORDER_TIMEOUT_SECONDS, Server
from lab.spec import ADMIN, check_lab_name
from lab.throttle import throttled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from lab.launch import KeeperHandle
    from lab.spec import LabSpec, NodeSpec

DEFAULT_NAME = "lab"
_HISTORY_WRITES = 3


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster of a running lab.

    :param uid: uid of its kube-system namespace, by which clusters are told apart.
    """

    name: str
    paths: LabPaths
    server: str
    ca_file: Path
    uid: str

    @property
    def api(self) -> ApiClient:
        """Client with all rights."""
        return self.client(ADMIN)

    def client(self, user: str) -> ApiClient:
        """Return a client that acts as a user."""
        tokens = self._state()["tokens"]
        if user not in tokens:
            raise LabError(unknown_name(f"user of cluster {self.name!r}", user, tokens))
        return ApiClient(self.server, self.ca_file, tokens[user])

    def kubeconfig(self, user: str = ADMIN) -> dict[str, Any]:
        """Return the kubeconfig of a user."""
        content: dict[str, Any] = yaml.safe_load(self.kubeconfig_path(user).read_text(encoding="utf-8"))
        return content

    def kubeconfig_path(self, user: str = ADMIN) -> Path:
        """Return the kubeconfig file of a user; the owner alone can read it."""
        path = self.paths.kubeconfig(self.name, user)
        if not path.is_file():
            raise LabError(unknown_name(f"user of cluster {self.name!r}", user, self._state()["tokens"]))
        return path

    @property
    def nodes(self) -> list[Node]:
        """Every node, in the order in which they were added."""
        return [Node(name, self) for name in self._state()["nodes"]]

    def node(self, name: str) -> Node:
        """Return one node."""
        names = self._state()["nodes"]
        if name not in names:
            raise LabError(unknown_name(f"node of cluster {self.name!r}", name, names))
        return Node(name, self)

    def add_node(self, spec: NodeSpec) -> Node:
        """Start one node more and wait until it is Ready."""
        self.order("node-add", node=specfile.dump_node(spec))
        return Node(spec.name, self)

    @property
    def api_server(self) -> Server:
        """Its API server, to be harmed."""
        return self._server(controlplane.API_SERVER)

    @property
    def controller_manager(self) -> Server:
        """Its controller manager, to be harmed."""
        return self._server(controlplane.CONTROLLER_MANAGER)

    @property
    def scheduler(self) -> Server:
        """Its scheduler, to be harmed."""
        return self._server(controlplane.SCHEDULER)

    @property
    def etcd(self) -> Server:
        """The etcd that stores its objects, to be harmed: its own one, or the one that clusters share."""
        if self._state()["own_etcd"]:
            return self._server(controlplane.ETCD)
        return Server(controlplane.ETCD, self.paths)

    def _server(self, program: str) -> Server:
        return Server(f"{self.name}/{program}", self.paths)

    def proxy(self, name: str = "proxy") -> Proxy:
        """Return a way to the API server that can fail by itself; it is made when it is first asked for.

        :param name: gives several clients a way of their own each.
        """
        port: int = self.order("proxy-add", proxy=name)
        return Proxy(name, self, port)

    @property
    def kwok(self) -> Kwok:
        """Nodes that exist in the API alone, for scale."""
        return Kwok(self)

    def credential(self, account: str, namespace: str = "default") -> Credential:
        """Return a credential that can be revoked and renewed, with a first token; it has no rights."""
        credential = Credential(self, namespace, account)
        credential.renew()
        return credential

    def throttled(self, user: str) -> AbstractContextManager[None]:
        """Have nearly every request of a user answered with 429 during the block of ``with``.

        :param user: one of the spec's users; it needs the right to list nodes.
        """
        return throttled(self.api, self.client(user), user)

    def expire_history(self) -> None:
        """Make every version that clients know now too old: 410 for watches, and for lists begun before.

        The API server is killed and started again, for it answers for old versions from its memory; and etcd
        keeps none but the present one, also for clusters that share it.
        """
        path = "/api/v1/namespaces/default/configmaps"
        for number in range(_HISTORY_WRITES):
            name = f"lab-history-{number}"
            self.api.post(path, {"metadata": {"name": name}})
            self.api.delete(f"{path}/{name}")
        self.api_server.kill()
        compact(self._state()["etcd_port"])
        self.api_server.start()

    def order(self, operation: str, **arguments: Any) -> Any:
        """Give the keeper an order about this cluster."""
        return control.request(self.paths, operation, ORDER_TIMEOUT_SECONDS, cluster=self.name, **arguments)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = _read_state(self.paths)["clusters"][self.name]
        return state


class Lab:
    """A running lab. As a context manager it ends at the end of the block."""

    def __init__(self, paths: LabPaths, handle: KeeperHandle | None = None) -> None:
        self.paths = paths
        self._handle = handle

    @classmethod
    def up(
        cls,
        spec: LabSpec,
        *,
        name: str = DEFAULT_NAME,
        home: Path | None = None,
        progress: Callable[[str], None] | None = None,
        detach: bool = False,
    ) -> Self:
        """Build the servers if needed, start a lab and wait until it is ready.

        :param home: folder in which labs live, each below its name; the user's state folder by default.
        :param progress: gets one line for each step.
        :param detach: let the lab live on when this process ends. By default it ends with this process,
            also when that is killed.
        :raises LabError: says why and what to do; no process is left then.
        """
        tell = progress or (lambda _line: None)
        check_lab_name(name)
        spec.check(PROFILES)
        programs = build.ensure_binaries(tell)
        paths = LabPaths((home or default_home()).absolute(), name)
        started = time.monotonic()
        handle = launch.start(paths, spec, programs, tell)
        if detach:
            handle.release()
        tell(f"lab {name!r} is ready after {time.monotonic() - started:.1f} s")
        return cls(paths, handle)

    @classmethod
    def attach(cls, name: str = DEFAULT_NAME, home: Path | None = None) -> Self:
        """Return a lab that runs already.

        :raises LabError: when there is none of that name, or it is not ready yet; says how to start one.
        """
        paths = LabPaths((home or default_home()).absolute(), name)
        if not control.request(paths, "status")["ready"]:
            raise LabError(
                f"lab {name!r} is still starting; wait for it, or end it with 'python -m lab down'"
            )
        return cls(paths)

    @property
    def name(self) -> str:
        """Name of the lab."""
        return self.paths.name

    @property
    def spec(self) -> LabSpec:
        """What the lab consists of, nodes added later included."""
        return specfile.parse(_read_state(self.paths)["spec"], str(self.paths.state_file))

    @property
    def clusters(self) -> list[Cluster]:
        """Every cluster."""
        return [self.cluster(name) for name in _read_state(self.paths)["clusters"]]

    def cluster(self, name: str) -> Cluster:
        """Return one cluster."""
        clusters = _read_state(self.paths)["clusters"]
        if name not in clusters:
            raise LabError(unknown_name("cluster", name, clusters))
        state = clusters[name]
        return Cluster(name, self.paths, state["server"], Path(state["ca_file"]), state["uid"])

    @property
    def etcd(self) -> Server:
        """The etcd that the clusters share which have none of their own."""
        return Server(controlplane.ETCD, self.paths)

    def status(self) -> dict[str, Any]:
        """Return what runs, as the keeper sees it."""
        status: dict[str, Any] = control.request(self.paths, "status")
        return status

    def log_tails(self, lines: int = 40) -> dict[str, str]:
        """Return the end of every log by component, for a failed test's report."""
        return {name: "\n".join(tail(path, lines)) for name, path in self.paths.logs().items()}

    def down(self) -> None:
        """End the lab and remove its folder; ending it again does nothing."""
        launch.down(self.paths)
        if self._handle is not None:
            self._handle.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()


def _read_state(paths: LabPaths) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(paths.state_file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LabError(f"lab {paths.name!r} does not run; start it with: python -m lab up") from error
    return state
