"""Environment, paths and names of containers, without any server."""

from __future__ import annotations

from typing import Any

import pytest

from lab.node.env import build_env, expand, field, quantity, references
from lab.node.objects import ConfigProblem
from lab.node.rendezvous import hosts_file
from lab.node.rewrite import path_rewriter, peer_rewriter

POD: dict[str, Any] = {
    "metadata": {
        "name": "j-3-x",
        "namespace": "team",
        "uid": "u1",
        "labels": {"batch.kubernetes.io/job-completion-index": "3"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
    },
    "spec": {"nodeName": "n1", "containers": [], "hostname": "j-3", "subdomain": "j"},
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2 $(A)"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("kill -9 $$", "kill -9 $"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("$()", "$()"),
        ("", ""),
    ],
)
def test_expansion(text: str, result: str) -> None:
    """$(NAME) is replaced once, $$ is a dollar, and all else stays as it is written."""
    assert expand(text, {"A": "1", "B": "2 $(A)"}) == result


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_the_completion_index_is_a_field(place: str) -> None:
    """The Job's index is served from the label and from the annotation."""
    path = f"metadata.{place}['batch.kubernetes.io/job-completion-index']"
    assert field(POD, path) == "3"
    assert field(POD, f"metadata.{place}['none']") == ""


def test_an_unknown_field_is_a_config_problem() -> None:
    """A field that the downward API lacks is named."""
    with pytest.raises(ConfigProblem, match=r"unsupported fieldPath: spec\.nothing"):
        field(POD, "spec.nothing")


def test_later_sources_win() -> None:
    """Variables of envFrom come first, env overrides them and may use them."""
    container = {
        "name": "main",
        "envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s", "optional": True}}],
        "env": [{"name": "A", "value": "$(A)+"}, {"name": "EMPTY"}],
    }
    assert set(references(container)) == {("configmap", "c"), ("secret", "s")}
    objects = {("configmap", "c"): {"A": b"a", "B": b"b"}, ("secret", "s"): None}
    assert build_env(POD, container, objects, {}) == {"A": "a+", "B": "b", "EMPTY": ""}


def test_a_missing_key_is_named() -> None:
    """A key that an object lacks is reported with the object's name, unless it is optional."""
    reference: dict[str, Any] = {"name": "c", "key": "K"}
    container: dict[str, Any] = {
        "name": "m",
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}],
    }
    objects = {("configmap", "c"): {"B": b"b"}}
    with pytest.raises(ConfigProblem, match="couldn't find key K in ConfigMap team/c"):
        build_env(POD, container, objects, {})
    reference["optional"] = True
    assert build_env(POD, container, objects, {}) == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [("2", 2.0), ("500m", 0.5), ("4Gi", 4 * 2.0**30), ("1k", 1000.0), ("1.5Mi", 1.5 * 2**20)],
)
def test_quantities(text: str, number: float) -> None:
    """Quantities with decimal and binary suffixes are numbers."""
    assert quantity(text) == pytest.approx(number)


def test_a_bad_quantity_says_what_to_write() -> None:
    """A quantity with an unknown suffix is refused with examples."""
    with pytest.raises(ValueError, match="'4Gb'; write for example 2, 500m or 4Gi"):
        quantity("4Gb")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("/data", "/real/d"),
        ("/data/x", "/real/d/x"),
        ("--out=/data/x,/data", "--out=/real/d/x,/real/d"),
        ("file:///data/x", "file:///real/d/x"),
        ("cat '/data/x' > /dev/termination-log", "cat '/real/d/x' > /real/t"),
        ("/data/in/x", "/real/in/x"),
        ("/database", "/database"),
        ("/data-2", "/data-2"),
        ("/data.old", "/data.old"),
        ("/mnt/data", "/mnt/data"),
        ("~/data", "~/data"),
        ("../data", "../data"),
    ],
)
def test_paths_are_rewritten_as_a_whole(text: str, result: str) -> None:
    """Mount paths are replaced where they are whole paths, the longest first."""
    places = {
        "/data": "/real/d",
        "/data/in/": "/real/in",
        "/dev/termination-log": "/real/t",
        "/same": "/same",
    }
    assert path_rewriter(places)(text) == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("j-0.j", "127.0.0.1"),
        ("tcp://j-0.j:29500", "tcp://127.0.0.1:29500"),
        ("j-0.j.team.svc.cluster.local:1,j-1.j.team.svc", "127.0.0.1:1,127.0.0.1"),
        ("train-node-0-0.j", "127.0.0.1"),
        ("model.j", "model.j"),
        ("j-0.jj", "j-0.jj"),
        ("j-0.j.py", "j-0.j.py"),
        ("x/j-0.j", "x/127.0.0.1"),
    ],
)
def test_peer_names_are_rewritten(text: str, result: str) -> None:
    """Names of a gang's members become the loopback address; other words with dots stay."""
    assert peer_rewriter("j", "team")(text) == result
    assert peer_rewriter(None, "team")(text) == text


def test_hosts_file_has_all_forms_of_a_name() -> None:
    """A peer is found by its short name, with the subdomain, and by its full name."""
    text = hosts_file(POD, ["j-0", "j-3"])
    assert "127.0.0.1\tlocalhost\n" in text
    assert "127.0.0.1\tj-0.j.team.svc.cluster.local\tj-0.j.team.svc\tj-0.j\tj-0\n" in text
