"""The spec and its file: what is accepted, what is refused with which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab import ClusterSpec, LabSpec, LabSpecError, NodeSpec, specfile
from lab.node.profiles import PROFILES
from lab.spec import default_spec

if TYPE_CHECKING:
    from pathlib import Path


def test_default_spec_survives_its_yaml(tmp_path: Path) -> None:
    """The printed default fleet is read back as the same fleet."""
    path = tmp_path / "lab.yaml"
    path.write_text(specfile.dump_yaml(default_spec()), encoding="utf-8")

    assert specfile.load(path, PROFILES) == default_spec()


def test_every_field_survives_its_yaml() -> None:
    """Fields that differ from their defaults are written and read back."""
    node = NodeSpec("n", "cpu", 0, {"a": "b"}, "z", "r", 1.5, "plain")
    cluster = ClusterSpec("c", (node,), ("u",), cpu_node=False, own_etcd=True)
    spec = LabSpec((cluster,), node_monitor_grace_seconds=9)

    assert specfile.parse(specfile.dump(spec), "x", PROFILES) == spec
    assert specfile.node(specfile.dump_node(node), "x") == node


def test_cluster_gets_a_cpu_node() -> None:
    """A node without GPUs is added unless there is one or it is not wanted."""
    gpu, cpu = NodeSpec("g", "gke-l4", renew_seconds=2), NodeSpec("mine", "cpu")

    assert ClusterSpec("c", (gpu,)).all_nodes() == (gpu, NodeSpec("c-cpu", "cpu", renew_seconds=2))
    assert ClusterSpec("c", (gpu, cpu)).all_nodes() == (gpu, cpu)
    assert ClusterSpec("c", (gpu,), cpu_node=False).all_nodes() == (gpu,)


def _one(node: dict[str, Any]) -> dict[str, Any]:
    return {"clusters": [{"name": "c", "nodes": [{"name": "n", "profile": "cpu", **node}]}]}


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(None, "f: is empty; give a mapping with the keys", id="an empty file"),
        pytest.param({}, "f:clusters: is missing", id="no clusters"),
        pytest.param({"clusters": []}, "f:clusters: is empty; list at least one cluster", id="empty list"),
        pytest.param({"clusters": {}}, "f:clusters: is a mapping; give a list", id="no list"),
        pytest.param({"clusters": ["c"]}, "f:clusters[0]: is 'c'; give a mapping with", id="no mapping"),
        pytest.param(
            {"cluster": [], "clusters": [{"name": "c"}]},
            "f:cluster: no key 'cluster'. Did you mean 'clusters'?",
            id="a key misspelt",
        ),
        pytest.param({"clusters": [{"nodes": []}]}, "f:clusters[0].name: is missing", id="no name"),
        pytest.param(_one({"gpus": "8"}), "f:clusters[0].nodes[0].gpus: is '8'; give a whole", id="text"),
        pytest.param(_one({"gpus": True}), "f:clusters[0].nodes[0].gpus: is True; give a whole", id="bool"),
        pytest.param(_one({"gpus": -1}), "f:clusters[0].nodes[0].gpus: is -1; give 0 to 1024", id="negative"),
        pytest.param(
            _one({"labels": {"a": 1}}),
            "f:clusters[0].nodes[0].labels: is a mapping; give a mapping of texts (quote numbers)",
            id="a label that is a number",
        ),
        pytest.param(
            _one({"profile": "onprem-h100-sxn"}),
            "f:clusters[0].nodes[0].profile: no profile 'onprem-h100-sxn'. Did you mean 'onprem-h100-sxm'?",
            id="an unknown profile",
        ),
        pytest.param(
            _one({"renew_seconds": 15}),
            "nodes[0].renew_seconds: is 15, too slow for node_monitor_grace_seconds 20: the node would flap; "
            "give at most 13.3",
            id="a heartbeat slower than the grace",
        ),
        pytest.param(
            _one({"renew_seconds": float("nan")}),
            "renew_seconds: is nan; give at least 0.1",
            id="not a number",
        ),
        pytest.param(
            _one({"gpus": 2}),
            "f:clusters[0].nodes[0].gpus: is 2, but profile 'cpu' has none; take one that has",
            id="GPUs of a node that has none",
        ),
        pytest.param(_one({"sandbox": "docker"}), "sandbox: no sandbox 'docker'.", id="an unknown sandbox"),
        pytest.param(_one({"name": "N_1"}), "f:clusters[0].nodes[0].name: 'N_1' is no name", id="a bad name"),
        pytest.param(
            {"clusters": [{"name": "c"}, {"name": "c"}]},
            "f:clusters: 'c' is listed more than once",
            id="a cluster twice",
        ),
        pytest.param(
            {"clusters": [{"name": "c", "users": ["admin"]}]},
            "f:clusters[0].users[0]: 'admin' exists in every cluster; leave it out",
            id="admin as user",
        ),
    ],
)
def test_problem_is_named_with_its_path(data: Any, want: str) -> None:
    """A wrong spec is refused with file, path and what to do."""
    with pytest.raises(LabSpecError) as caught:
        specfile.parse(data, "f", PROFILES)

    assert want in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    """A spec with several wrong keys is refused with one line for each."""
    data = {"clusters": [{"name": 1, "nodes": [{"nam": "n"}], "users": "u"}], "grace": 1}

    with pytest.raises(LabSpecError) as caught:
        specfile.parse(data, "f", PROFILES)

    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "f:grace",
        "f:clusters[0].name",
        "f:clusters[0].users",
        "f:clusters[0].nodes[0].nam",
        "f:clusters[0].nodes[0].name",
        "f:clusters[0].nodes[0].profile",
    ]


def test_file_that_is_absent_or_no_yaml_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is refused with its name and the way to get a good one."""
    absent, broken = tmp_path / "absent.yaml", tmp_path / "broken.yaml"
    broken.write_text("clusters: [", encoding="utf-8")

    with pytest.raises(LabSpecError, match=r"absent\.yaml: No such file.*--print-spec"):
        specfile.load(absent, PROFILES)
    with pytest.raises(LabSpecError, match=r"broken\.yaml: is no YAML: .*line 1"):
        specfile.load(broken, PROFILES)
