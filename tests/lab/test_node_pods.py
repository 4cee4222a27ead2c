"""What a process node makes of a pod: the facts that a kubelet's users rely on, in both kinds of sandbox."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.lab.node_support import Workspace, condition, container, job_body, pod_spec, state

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.lab


@pytest.fixture
def node_name(sandboxed_node: str) -> str:
    """Return a node of each kind of sandbox in turn."""
    return sandboxed_node


def test_success_has_a_termination_message(work: Workspace) -> None:
    """A Job succeeds; the pod carries exit code 0, reason Completed and the message file's text."""
    script = "echo working; printf '{\"accuracy\": 0.9}' > /dev/termination-log"
    path = work.job(job_body("good", pod_spec(container(script), nodeSelector=_on(work))))
    job = work.cluster.api.wait(path, lambda job: condition(job, "Complete"), 20, "Job good completes")
    assert job["status"]["succeeded"] == 1
    (pod,) = work.job_pods("good")
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert ended["message"] == '{"accuracy": 0.9}'
    assert pod["status"]["phase"] == "Succeeded"
    assert condition(pod, "Ready")["reason"] == "PodCompleted"
    assert pod["status"]["podIP"] == "127.0.0.1"


def test_failure_has_exit_code_and_log_tail(work: Workspace) -> None:
    """A Job fails; the exit code is the command's, and the message falls back to the log's end."""
    main = container(
        "echo first; echo last words >&2; exit 3", terminationMessagePolicy="FallbackToLogsOnError"
    )
    path = work.job(job_body("bad", pod_spec(main, nodeSelector=_on(work))))
    job = work.cluster.api.wait(path, lambda job: condition(job, "Failed"), 20, "Job bad fails")
    assert condition(job, "Failed")["reason"] == "BackoffLimitExceeded"
    (pod,) = work.job_pods("bad")
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "first\nlast words\n")
    assert condition(pod, "Ready")["reason"] == "PodFailed"


def test_no_message_without_a_fallback(work: Workspace) -> None:
    """A failed container that wrote no message file and asks for no fallback has no message."""
    assert "message" not in state(work.finish(pod_spec(container("echo no; exit 1"))))["terminated"]


def test_long_messages_are_cut(work: Workspace) -> None:
    """The message is at most 4096 bytes of the file, at a path of the author's choice."""
    main = container(
        "head -c 5000 /dev/zero | tr '\\0' x > /tmp/out/msg", terminationMessagePath="/tmp/out/msg"
    )
    assert state(work.finish(pod_spec(main)))["terminated"]["message"] == "x" * 4096


def test_a_signal_is_128_plus_its_number(work: Workspace) -> None:
    """A command that dies of a signal has exit code 128 + its number."""
    script = "import ctypes; ctypes.string_at(0)"  # a real crash: SIGSEGV, which no sandbox can ignore
    main = container(None, command=["python3", "-c", script])
    assert state(work.finish(pod_spec(main)))["terminated"]["exitCode"] == 128 + signal.SIGSEGV


def test_a_container_can_play_that_its_memory_was_used_up(work: Workspace) -> None:
    """With the marker in its home, exit code 137 is reported as OOMKilled; without it as an error."""
    for marker, reason in (("oom-killed", "OOMKilled"), ("other", "Error")):
        main = container(f"touch $HOME/{marker}; exit 137")
        ended = state(work.finish(pod_spec(main)))["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, reason)


def test_command_not_found_is_a_start_error(work: Workspace) -> None:
    """A command that does not exist ends with StartError 128 and says what was not found."""
    pod = work.finish(pod_spec(container(None, command=["no-such-program"])))
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert '"no-such-program": executable file not found in $PATH' in ended["message"]
    assert pod["status"]["phase"] == "Failed"


def test_no_command_waits(work: Workspace) -> None:
    """Without a command (and the lab has no images that could bring one) the container is never made."""
    name = work.run(pod_spec(container(None)))
    pod = work.wait_pod(name, lambda pod: state(pod).get("waiting", {}).get("message"), "says why it waits")
    assert state(pod)["waiting"] == {"reason": "CreateContainerError", "message": "no command specified"}


def test_environment(work: Workspace) -> None:
    """Variables come from values, fields, resources, ConfigMaps and Secrets, and are expanded in order."""
    api = work.cluster.api
    api.post(work.path("configmaps"), {"metadata": {"name": "c"}, "data": {"A": "from-config", "K": "v"}})
    api.post(work.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"P": "hidden", "Q": "q"}})
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "USES", "value": "$(PLAIN)-$(C_A)-$(UNKNOWN)-$$(PLAIN)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['note']"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "K"}}},
        {"name": "PASS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "P"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "t", "key": "P", "optional": True}}},
        {"name": "GPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    main = container(
        "env | sort; echo args $(PLAIN) $0",
        env=env,
        envFrom=[{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
        resources={"limits": {"memory": "2Gi"}},
    )
    pod = work.finish(pod_spec(main), "envpod", labels={"team": "blue"}, annotations={"note": "a b"})
    lines = work.log("envpod").splitlines()
    assert pod["status"]["phase"] == "Succeeded"
    for line in (
        "USES=x-from-config-$(UNKNOWN)-$(PLAIN)",
        "POD=envpod",
        f"NODE={work.node}",
        "IP=127.0.0.1",
        "TEAM=blue",
        "NOTE=a b",
        "KEY=v",
        "PASS=hidden",
        "Q=q",
        "GPUS=2048",
        "HOSTNAME=envpod",
        "args x sh",
    ):
        assert line in lines
    leaked = {"NONE", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "USER", "LOGNAME"}
    assert not leaked & {line.partition("=")[0] for line in lines}


def test_missing_config_is_waited_for(work: Workspace) -> None:
    """A missing Secret is CreateContainerConfigError; the container starts when the Secret appears."""
    main = container(
        "echo got $T", env=[{"name": "T", "valueFrom": {"secretKeyRef": {"name": "late", "key": "t"}}}]
    )
    name = work.run(pod_spec(main))
    pod = work.wait_pod(name, lambda pod: state(pod).get("waiting", {}).get("message"), "waits")
    assert state(pod)["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "late" not found',
    }
    assert pod["status"]["phase"] == "Pending"
    work.cluster.api.post(work.path("secrets"), {"metadata": {"name": "late"}, "stringData": {"t": "it"}})
    assert work.ended(name)["status"]["phase"] == "Succeeded"
    assert work.log(name) == "got it\n"


def test_volumes(work: Workspace, tmp_path: Path) -> None:
    """Containers share an emptyDir, see ConfigMaps and Secrets as files, and leave results on a hostPath."""
    api = work.cluster.api
    api.post(work.path("configmaps"), {"metadata": {"name": "c"}, "data": {"train.py": "print('trained')"}})
    api.post(work.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"token": "t0p"}})
    kept = tmp_path / "kept"
    writer = container(
        "echo shared > /scratch/file; python3 /code/train.py > /results/out; cat /creds/token >> $OUT",
        name="writer",
        env=[{"name": "OUT", "value": "/results/out"}],
        volumeMounts=[
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "code", "mountPath": "/code"},
            {"name": "creds", "mountPath": "/creds", "readOnly": True},
            {"name": "results", "mountPath": "/results"},
        ],
    )
    reader = container(
        "until [ -f /data/in/file ]; do sleep 0.05; done; cat /data/in/file; pwd",
        name="reader",
        workingDir="/data/in",
        volumeMounts=[{"name": "scratch", "mountPath": "/data/in"}],
    )
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "code", "configMap": {"name": "c"}},
        {"name": "creds", "secret": {"secretName": "s"}},
        {"name": "results", "hostPath": {"path": str(kept), "type": "DirectoryOrCreate"}},
    ]
    pod = work.finish(pod_spec(writer, reader, volumes=volumes))
    assert [state(pod, index)["terminated"]["exitCode"] for index in (0, 1)] == [0, 0]
    assert (kept / "out").read_text() == "trained\nt0p"
    assert work.log(pod["metadata"]["name"], container="reader").startswith("shared\n")


def test_a_missing_volume_source_keeps_the_pod_pending(work: Workspace) -> None:
    """A ConfigMap volume that does not exist yet holds all containers back, without any failure."""
    main = container("cat /c/k", volumeMounts=[{"name": "c", "mountPath": "/c"}])
    name = work.run(pod_spec(main, volumes=[{"name": "c", "configMap": {"name": "later"}}]))
    pod = work.wait_pod(name, state, "is seen")
    assert state(pod)["waiting"]["reason"] == "ContainerCreating"
    work.cluster.api.post(work.path("configmaps"), {"metadata": {"name": "later"}, "data": {"k": "v"}})
    work.ended(name)
    assert work.log(name) == "v"


def test_phase_needs_all_containers(work: Workspace) -> None:
    """A pod runs on while one container does; one failed container of two makes the pod fail."""
    good = container("until [ -f /s/go ]; do sleep 0.05; done", name="good")
    bad = container("exit 7", name="bad")
    good["volumeMounts"] = [{"name": "s", "mountPath": "/s"}]
    name = work.run(pod_spec(bad, good, volumes=[{"name": "s", "emptyDir": {}}]))
    pod = work.wait_pod(
        name, lambda pod: "terminated" in state(pod) and "running" in state(pod, 1), "half ended"
    )
    assert pod["status"]["phase"] == "Running"
    assert condition(pod, "Ready")["message"] == "containers with unready status: [bad]"
    folder = work.cluster.node(work.node).root_dir / "pods" / pod["metadata"]["uid"] / "volumes" / "s"
    (folder / "go").touch()
    assert work.ended(name)["status"]["phase"] == "Failed"


def test_deadline_of_a_pod(work: Workspace) -> None:
    """ActiveDeadlineSeconds ends the pod on the node: phase Failed, reason DeadlineExceeded."""
    pod = work.finish(
        pod_spec(container("sleep 60"), activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)
    )
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert state(pod)["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"containers": [container("x", readinessProbe={"exec": {"command": ["true"]}})]}, "readinessProbe"),
        ({"initContainers": [container("true", restartPolicy="Always", name="i")]}, "has restartPolicy"),
        (
            {"initContainers": [container(None, name="i", resources={"limits": {"nvidia.com/gpu": 1}})]},
            "has GPUs",
        ),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentVolumeClaim"),
    ],
)
def test_what_the_lab_lacks_is_said(other: Workspace, fields: dict[str, object], word: str) -> None:
    """A pod that asks for something the lab's nodes cannot do fails and says what."""
    pod = other.finish(pod_spec(container("true"), **fields))
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "LabUnsupported")
    assert word in pod["status"]["message"]


def _on(work: Workspace) -> dict[str, str]:
    return {"kubernetes.io/hostname": work.node}


def test_log_stamps_look_like_a_kubelet_s(work: Workspace) -> None:
    """A time-stamped log line begins with RFC 3339 in nanoseconds."""
    pod = work.finish(pod_spec(container("echo line")))
    text = work.log(pod["metadata"]["name"], timestamps=True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line\n", text)
