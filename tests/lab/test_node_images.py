"""Images that a node can have, the refusals of registries, and what the product makes of each refusal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.outcome import LossPolicy, Observation, OutcomeKind
from lab import LabSpecError, NodeSpec, specfile
from lab.errors import LabApiError
from lab.node.backoff import Backoff
from lab.node.images import Images
from tests.lab.node_support import PodHistory, Workspace, container, pod_spec, sandbox_modes, state, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Cluster, Lab

APPLICATION, CONFIGURATION = OutcomeKind.APPLICATION, OutcomeKind.CONFIGURATION
RUNNING = OutcomeKind.RUNNING

REFUSALS = [
    ("registry.invalid/none:1", "registry.invalid/none:1: not found", CONFIGURATION, "ImageNotFound"),
    ("team/none:1", "pull access denied, repository does not", CONFIGURATION, "ImagePullDenied"),
    ("private.registry.invalid/team/train", "401 Unauthorized", CONFIGURATION, "ImagePullDenied"),
    ("forbidden.registry.invalid/train:2", "403 Forbidden", CONFIGURATION, "ImagePullDenied"),
    ("busy.registry.invalid/train:2", "429 Too Many Requests", RUNNING, None),
    ("down.registry.invalid/train:2", "no such host", RUNNING, None),
    ("foreign.registry.invalid/train:2", "no match for platform", CONFIGURATION, "WrongArchitecture"),
]


def outcome(pod: dict[str, Any]) -> tuple[OutcomeKind, str | None]:
    """Judge a pod as the product does; a cause counts only at an end."""
    found = classify(Observation(job=Job(), pods=(msgspec.convert(pod, Pod),)), LossPolicy())
    return found.kind, found.cause if found.final else None


@pytest.fixture(scope="module")
def node_name(lab: Lab) -> str:
    """Return a node that knows few images and whose delays are short."""
    spec = NodeSpec(
        "images-1", "onprem-l40s", renew_seconds=2.0, images=("train", "lab/*"), backoff_seconds=1.0
    )
    lab.cluster("onprem").add_node(spec)
    return spec.name


@pytest.mark.lab
@pytest.mark.parametrize(("image", "words", "kind", "cause"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_a_refused_pull_is_understood(
    work: Workspace, image: str, words: str, kind: OutcomeKind, cause: str | None
) -> None:
    """An unknown image waits as ErrImagePull, then ImagePullBackOff; the product reads the same from both."""
    name = work.run(pod_spec(container("true", image=image)))
    for reason in ("ErrImagePull", "ImagePullBackOff"):
        pod = _wait_for_reason(work, name, reason)
        assert words in state(pod)["waiting"]["message"]
        assert pod["status"]["phase"] == "Pending"
        assert outcome(pod) == (kind, cause)


@pytest.mark.lab
def test_the_pull_is_tried_again_and_again(work: Workspace) -> None:
    """Failed pull and wait alternate, and the container starts when the image has been pushed."""
    image = "registry.invalid/late:1"
    name = work.run(pod_spec(container("echo started", image=image)))
    work.wait_pod(name, _waits, "waits")
    history = PodHistory(work, name)
    wait_for(lambda: _reasons(history).count("ErrImagePull") >= 2, 15, "two pulls have failed")
    assert {*_reasons(history)} == {"ErrImagePull", "ImagePullBackOff"}
    with pytest.raises(
        LabApiError, match=r"is waiting to start: (image can't be|trying and failing to) pull"
    ):
        work.log(name)
    (work.cluster.node(work.node).root_dir / "images").write_text("registry.invalid/late\n")
    assert work.ended(name)["status"]["phase"] == "Succeeded"
    assert work.log(name) == "started\n"
    work.delete(name)
    history.until_deleted()


@pytest.mark.lab
def test_images_that_nobody_is_asked_for(work: Workspace) -> None:
    """A name that is none, and a pull that is forbidden, have reasons of their own."""
    bad = work.run(pod_spec(container("true", image="Team/Train")))
    never = work.run(pod_spec(container("true", image="team/train", imagePullPolicy="Never")))
    for name, reason in ((bad, "InvalidImageName"), (never, "ErrImageNeverPull")):
        pod = _wait_for_reason(work, name, reason)
        assert outcome(pod) == (CONFIGURATION, reason)
    assert work.finish(pod_spec(container("true", image="train:7")))["status"]["phase"] == "Succeeded"


@pytest.mark.lab
def test_a_pod_can_be_deleted_while_it_waits_for_its_image(work: Workspace) -> None:
    """Nothing has run, and the object goes at once."""
    name = work.run(pod_spec(container("true", image="registry.invalid/none")))
    work.wait_pod(name, _waits, "waits")
    work.delete(name)
    work.wait_pod(name, lambda pod: pod is None, "is gone", 5)


@pytest.mark.lab
@pytest.mark.parametrize("sandbox", sandbox_modes())
def test_a_command_that_cannot_be_executed_is_understood(
    onprem: Cluster, tmp_path: Path, sandbox: str
) -> None:
    """Each kind of bad command ends as with runc: StartError 128, but a bad format only when it runs."""
    onprem.add_node(NodeSpec(f"exec-{sandbox}", "cpu", renew_seconds=2.0, sandbox=sandbox))
    text = tmp_path / "text"
    text.write_text("no program")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF" + bytes(100))
    foreign.chmod(0o755)
    volume = {"name": "v", "hostPath": {"path": str(tmp_path)}}
    mounts = {"volumeMounts": [{"name": "v", "mountPath": str(tmp_path)}]}
    runc = "OCI runtime create failed: runc create failed: unable to start container process: "
    with Workspace.scoped(onprem, f"exec-{sandbox}") as work:
        for command, said in (
            ("no-such", 'exec: "no-such": executable file not found in $PATH: unknown'),
            ("/no/such", 'exec: "/no/such": stat /no/such: no such file or directory: unknown'),
            (str(text), f'exec: "{text}": permission denied: unknown'),
        ):
            spec = pod_spec(container(None, command=[command], **mounts), volumes=[volume])
            pod = work.finish(spec)
            ended = state(pod)["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
            assert runc in ended["message"]
            assert ended["message"].endswith(said)
            assert outcome(pod) == (APPLICATION, "StartError")
        spec = pod_spec(container(None, command=[str(foreign)], **mounts), volumes=[volume])
        pod = work.finish(spec)
        assert (state(pod)["terminated"]["exitCode"], state(pod)["terminated"]["reason"]) == (255, "Error")
        assert work.log(pod["metadata"]["name"]) == f"exec {foreign}: exec format error\n"


def test_patterns_of_images(tmp_path: Path) -> None:
    """A star stands for text without a slash; a tag or digest need not be named; a file adds names."""
    images = Images(("*", "lab/*", "registry.example/a/train:1"), tmp_path / "images")
    digest = "sha256:" + "0" * 64

    def missing(*names: str) -> list[str]:
        return [name for name in names if images.problem(name, "Always") is not None]

    assert not missing("train", "train:1", f"train@{digest}", f"lab/train:1@{digest}")
    assert missing("lab/a/b", "team/train", "registry.example/a/train:2") == [
        "lab/a/b",
        "team/train",
        "registry.example/a/train:2",
    ]
    assert not missing("registry.example/a/train:1")
    (tmp_path / "images").write_text("team/*\nregistry.example/a/train:2\n")
    assert not missing("team/train", "registry.example/a/train:2")


@pytest.mark.parametrize(
    "name", ["Train", "a b", "team//train", "train:", "-x", "host.invalid/", "t@sha256:1"]
)
def test_names_that_are_no_image(name: str, tmp_path: Path) -> None:
    """They are refused before any registry is asked."""
    problem = Images(("*",), tmp_path / "images").problem(name, "Always")
    assert problem is not None
    assert (problem.reason, problem.pull) == ("InvalidImageName", False)


def test_delays_are_a_kubelet_s() -> None:
    """A pull waits 10, 20, ... 300 s; a first restart does not wait at all."""
    pulls, crashes = Backoff(10.0), Backoff(10.0, first_free=True)
    assert [pulls.next() for _ in range(7)] == [10, 20, 40, 80, 160, 300, 300]
    assert [crashes.next() for _ in range(7)] == [0, 10, 20, 40, 80, 160, 300]


def test_delays_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After twice the longest delay without a try all begins anew."""
    clock = itertools.chain([1000.0, 1001.0, 1601.5]).__next__
    monkeypatch.setattr("lab.node.backoff.time.monotonic", clock)
    pulls = Backoff(10.0)
    assert [pulls.next() for _ in range(3)] == [10, 20, 10]


def test_images_and_delays_are_fields_of_a_node() -> None:
    """They survive the file, and a delay that is none is refused."""
    node = NodeSpec("n", "cpu", images=("a", "b/*"), backoff_seconds=0.5)
    assert specfile.node(specfile.dump_node(node), "x") == node
    assert specfile.node({"name": "n", "profile": "cpu"}, "x").images == NodeSpec("n", "cpu").images
    data = {"clusters": [{"name": "c", "nodes": [{"name": "n", "profile": "cpu", "backoff_seconds": 0}]}]}
    with pytest.raises(LabSpecError, match=r"nodes\[0\]\.backoff_seconds: is 0; give at least 0\.1"):
        specfile.parse(data, "f")
    with pytest.raises(LabSpecError, match=r"images: is 'a'; give a list of texts"):
        specfile.node({"name": "n", "profile": "cpu", "images": "a"}, "f")


def _waits(pod: dict[str, Any] | None) -> str | None:
    reason = state(pod).get("waiting", {}).get("reason")
    return None if reason == "ContainerCreating" else reason


def _wait_for_reason(work: Workspace, name: str, reason: str) -> dict[str, Any]:
    pod: dict[str, Any] = work.wait_pod(name, lambda pod: _waits(pod) == reason, reason)
    return pod


def _reasons(history: PodHistory) -> list[str]:
    found = [_waits(event["object"]) for event in history.events if event["type"] != "BOOKMARK"]
    return [reason for reason, _ in itertools.groupby(found) if reason is not None]
