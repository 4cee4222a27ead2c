"""The commands that add faults and take them back, on the running lab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab import LabApiError, cli
from tests.lab.node_support import Workspace, container, pod_spec, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab import Cluster, Lab, Node

    Run = Callable[..., str]

pytestmark = pytest.mark.lab


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], lab: Lab) -> Run:
    """Return a function that runs a command on the lab, expects success and returns its output."""

    def execute(*command: str) -> str:
        capsys.readouterr()
        code = cli.main([*command, "--home", str(lab.paths.home), "--name", lab.name])
        output = capsys.readouterr()
        assert code == 0, output.err
        return output.out

    return execute


def _taints(node: Node) -> set[str]:
    found = node.cluster.api.get(f"/api/v1/nodes/{node.name}")["spec"]
    return {taint["key"] for taint in found.get("taints") or ()}


def test_node_commands_harm_and_heal(onprem: Cluster, spare_node: Callable[..., Node], run: Run) -> None:
    """Every fault of a node has a command, and a command that takes it back."""
    node = spare_node(onprem)
    name = node.name
    assert run("node", "partition", name) == (
        f"{name} is cut off; its 1 processes run on until 'node heal' or 'node kill'\n"
    )
    assert (node.root_dir / "link.cut").exists()
    assert "has its network back" in run("node", "heal", name)
    assert not (node.root_dir / "link.cut").exists()
    assert "1 processes are stopped until 'node thaw'" in run("node", "freeze", name)
    assert "goes on" in run("node", "thaw", name)
    assert "its containers run on" in run("node", "freeze", name, "--agent-only")
    run("node", "thaw", name)

    run("node", "notice", name, "--style", "karpenter")
    assert "karpenter.sh/disrupted" in _taints(node)
    run("node", "notice", name, "--withdraw")
    assert "karpenter.sh/disrupted" not in _taints(node)

    with Workspace.scoped(onprem, name) as work:
        pod = work.run(pod_spec(container("exec sleep 60")))
        work.running(pod)
        assert run("node", "drain", name).splitlines() == [
            f"{name} is cordoned; 1 pods were evicted",
            f"{work.namespace}/{pod}",
        ]
        assert "takes new pods" in run("node", "uncordon", name)


def test_server_commands_harm_and_heal(gke: Cluster, run: Run) -> None:
    """A server can be frozen, thawed, killed and started by its name."""
    scheduler = "gke/kube-scheduler"
    assert run("server", "freeze", scheduler) == f"{scheduler} stands still until 'server thaw'\n"
    assert run("server", "thaw", scheduler) == f"{scheduler} goes on\n"
    assert run("server", "kill", scheduler) == f"{scheduler} is dead until 'server start'\n"
    assert run("server", "start", scheduler) == f"{scheduler} is ready\n"
    assert run("server", "terminate", scheduler) == f"{scheduler} was asked to end\n"
    assert run("server", "start", scheduler) == f"{scheduler} is ready\n"
    assert gke.api.get("/readyz") == "ok"


def test_proxy_command_changes_the_way(gke: Cluster, run: Run) -> None:
    """The way to the API server is made, harmed and healed, and has a kubeconfig."""
    proxy = gke.proxy("cli")
    path = run("kubeconfig", "gke", "--via", "cli", "--path").strip()
    assert path == str(proxy.kubeconfig_path())
    for mode, shown in (("refuse", "refuse"), ("hold", "hold"), ("reset", "hold"), ("carry", "pass")):
        output = run("proxy", "gke", mode, "--via", "cli")
        assert output.startswith(f"{proxy.server}: mode {shown}, delay_seconds 0.0, connections ")
    assert "delay_seconds 0.5" in run("proxy", "gke", "--via", "cli", "--delay", "0.5")
    assert run("proxy", "gke", "carry", "--via", "cli").endswith(f"kubeconfig: {path}\n")


def test_api_commands_make_clients_fail(gke: Cluster, run: Run) -> None:
    """A credential is issued and revoked, and history expires."""
    output = run("api", "issue", "gke", "robot")
    user, path = output.strip().split(": ")
    assert (user, Path(path).is_file()) == ("system:serviceaccount:default:robot", True)
    client = gke.credential("robot").client
    run("api", "revoke", "gke", "robot")
    with pytest.raises(LabApiError, match="401 Unauthorized"):
        client.get("/api/v1/nodes")
    assert "older watches and lists get 410" in run("api", "expire", "gke")


def test_throttle_command_lasts_as_long_as_it_says(
    onprem: Cluster, run: Run, readers_role: Callable[[Cluster, str], None]
) -> None:
    """The user is told to come later during the command, and served after it."""
    readers_role(onprem, "visitor")
    assert run("api", "throttle", "onprem", "visitor", "--seconds", "0.5").splitlines() == [
        "visitor gets 429 for 0.5 s; ctrl-C ends it",
        "visitor is served again",
    ]

    def served() -> Any:
        try:
            return onprem.client("visitor").get("/version")
        except LabApiError:
            return None

    wait_for(served, 10, "the visitor is served")
