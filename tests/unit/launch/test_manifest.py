"""The objects of a remote job, field by field."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.launch.manifest import label_value, manifest, owned_by
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import IDENTITY_ANNOTATION, Attempt, LogicalTask
from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.pool import ClusterRef, DeclaredGpu, GpuPool, Place

TASK = LogicalTask(dag_id="llm", run_id="manual__2026-01-01T00:00:00+00:00", task_id="train")
ATTEMPT = Attempt(task=TASK, attempt_id="0196e7b2-8d1a-7c31-a5b4-00000000002a", try_number=2, fence=5)
POOL = GpuPool(
    name="h100-eu",
    cluster=ClusterRef(kubernetes_conn_id="gke", namespace="ml"),
    place=Place(region="eu-1"),
)
SPEC = LaunchSpec(attempt=ATTEMPT, pool=POOL, image="train:1", command=("python",), args=("t.py",))
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def changed(**changes: Any) -> LaunchSpec:
    """Return the standard spec with changes."""
    return msgspec.structs.replace(SPEC, **changes)


def pod_of(spec: LaunchSpec) -> dict[str, Any]:
    """Return the pod's spec."""
    pod: dict[str, Any] = manifest(spec)[0]["spec"]["template"]["spec"]
    return pod


def env_of(spec: LaunchSpec) -> dict[str, Any]:
    """Return the environment by name; references stay objects."""
    entries = pod_of(spec)["containers"][0]["env"]
    assert len({entry["name"] for entry in entries}) == len(entries)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def test_the_same_attempt_gives_the_same_objects() -> None:
    """Nothing random, no clock: a second creation is the same one."""
    assert manifest(SPEC) == manifest(SPEC)
    assert manifest(SPEC)[0]["metadata"]["name"] == ATTEMPT.job_name


def test_nothing_is_ever_started_twice() -> None:
    """The next try belongs to Airflow; on a disruption the Job fails instead of replacing a pod."""
    spec = manifest(SPEC)[0]["spec"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["podFailurePolicy"]["rules"] == [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert spec["ttlSecondsAfterFinished"] == 86_400


def test_the_identity_is_on_the_job_and_on_its_pods() -> None:
    """Labels to find it by, an annotation that tells it in full."""
    job = manifest(SPEC)[0]
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert metadata["labels"] == {
            "airflow-gpu-placement/managed": "true",
            "airflow-gpu-placement/logical-task": TASK.hash,
            "airflow-gpu-placement/attempt-id": ATTEMPT.attempt_id,
            "airflow-gpu-placement/fence": "5",
            "airflow-gpu-placement/pool": "h100-eu",
        }
        assert json.loads(metadata["annotations"][IDENTITY_ANNOTATION]) == {
            "dag_id": "llm",
            "run_id": TASK.run_id,
            "task_id": "train",
            "map_index": -1,
            "try_number": 2,
            "attempt_id": ATTEMPT.attempt_id,
            "fence": 5,
            "move": 0,
            "pool": "h100-eu",
        }


@pytest.mark.parametrize(
    "text", ["plain", "with space", "ünïcode/slash", "-edge-", "x" * 80, "a" * 62 + "- b"]
)
def test_label_values_are_valid(text: str) -> None:
    """Whatever a pool is called, the API takes it."""
    assert LABEL.fullmatch(label_value(text))


def test_one_node_needs_no_index_and_no_service() -> None:
    """The simplest job is the simplest object."""
    job, service = manifest(SPEC)
    assert service is None
    assert "completionMode" not in job["spec"]
    assert "subdomain" not in pod_of(SPEC)
    assert "MASTER_ADDR" not in env_of(SPEC)


def test_several_nodes_find_each_other() -> None:
    """An index each, names below a headless Service, and what torchrun reads."""
    spec = changed(nodes=4, gpus_per_node=8)
    job, service = manifest(spec)
    name = ATTEMPT.job_name
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == (
        "Indexed",
        4,
        4,
    )
    assert service is not None
    assert service["metadata"]["name"] == pod_of(spec)["subdomain"] == name
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {"batch.kubernetes.io/job-name": name},
        "publishNotReadyAddresses": True,
    }
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    env = env_of(spec)
    assert env["MASTER_ADDR"] == env["PET_MASTER_ADDR"] == f"{name}-0.{name}"
    assert env["MASTER_PORT"] == env["PET_MASTER_PORT"] == str(20_000 + 0x2A)
    assert env["NODE_RANK"] == env["PET_NODE_RANK"] == rank
    assert (env["PET_NNODES"], env["PET_NPROC_PER_NODE"]) == ("4", "8")


def test_the_service_belongs_to_the_job_without_blocking_its_deletion() -> None:
    """No right on finalizers is needed."""
    service = manifest(changed(nodes=2))[1]
    assert service is not None
    (owner,) = owned_by(service, job_name="gp-x", job_uid="u")["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "batch/v1", "kind": "Job", "name": "gp-x", "uid": "u"}


def test_the_checkpoint_contract_is_in_the_environment() -> None:
    """A program needs nothing else to know where to write and where to go on from."""
    env = env_of(changed(checkpoint_root="s3://b/x/abc/1/", resume_from="s3://b/x/abc/1/4-aa/step-9"))
    assert {name: env[name] for name in env if name.startswith("GPU_PLACEMENT_")} == {
        "GPU_PLACEMENT_CHECKPOINT_ROOT": "s3://b/x/abc/1/",
        "GPU_PLACEMENT_WRITE_DIR": "s3://b/x/abc/1/5-0000002a",
        "GPU_PLACEMENT_RESUME_FROM": "s3://b/x/abc/1/4-aa/step-9",
        "GPU_PLACEMENT_FENCE": "5",
        "GPU_PLACEMENT_ATTEMPT": ATTEMPT.attempt_id,
        "GPU_PLACEMENT_TRY": "2",
        "GPU_PLACEMENT_POOL": "h100-eu",
        "GPU_PLACEMENT_REGION": "eu-1",
        "GPU_PLACEMENT_RESULT_PATH": "/dev/termination-log",
        "GPU_PLACEMENT_NODES": "1",
        "GPU_PLACEMENT_GPUS_PER_NODE": "1",
    }
    without = env_of(SPEC)
    assert {without[f"GPU_PLACEMENT_{name}"] for name in ("CHECKPOINT_ROOT", "WRITE_DIR", "RESUME_FROM")} == {
        ""
    }


def test_the_author_adds_but_does_not_override() -> None:
    """Author variables come last, so that they may refer to ours; ours cannot be set."""
    spec = changed(nodes=2, env={"OUT": "$(GPU_PLACEMENT_WRITE_DIR)/m", "MASTER_PORT": "1234"})
    names = [entry["name"] for entry in pod_of(spec)["containers"][0]["env"]]
    assert names[-2:] == ["OUT", "MASTER_PORT"]
    assert env_of(spec)["MASTER_PORT"] == "1234"
    with pytest.raises(RequestError, match="GPU_PLACEMENT_FENCE"):
        manifest(changed(env={"GPU_PLACEMENT_FENCE": "9"}))


def test_gpus_and_other_resources_are_requested_and_limited_alike() -> None:
    """The pool says what the GPUs are called."""
    pool = msgspec.structs.replace(POOL, gpu=DeclaredGpu(resource_name="amd.com/gpu"))
    container = pod_of(changed(pool=pool, gpus_per_node=8, resources={"memory": "64Gi"}))["containers"][0]
    assert container["resources"]["requests"] == {"memory": "64Gi", "amd.com/gpu": "8"}
    assert container["resources"]["limits"] == container["resources"]["requests"]


def test_the_pod_goes_where_the_pool_is_and_not_where_a_node_was_lost() -> None:
    """Selector and tolerations of the pool; each lost node excluded by its own field requirement."""
    toleration = Toleration(key="gpu", operator="Exists", effect="NoSchedule", toleration_seconds=30)
    pool = msgspec.structs.replace(POOL, node_selector={"gpu": "h100"}, tolerations=(toleration,))
    pod = pod_of(changed(pool=pool, excluded_nodes=("n2", "n1", "n2")))
    assert pod["nodeSelector"] == {"gpu": "h100"}
    assert {"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30} in pod[
        "tolerations"
    ]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
                {"key": "metadata.name", "operator": "NotIn", "values": ["n2"]},
            ]
        }
    ]
    assert "affinity" not in pod_of(SPEC)


def test_the_pod_goes_to_nodes_with_the_labels_of_the_right_gpu() -> None:
    """Every label in one requirement, in one term with the names, since all of it must hold."""
    labels = {"gpu.product": ("A100-80", "A100-80-PCIe"), "zone": ("a",)}
    want = [
        {"key": "gpu.product", "operator": "In", "values": ["A100-80", "A100-80-PCIe"]},
        {"key": "zone", "operator": "In", "values": ["a"]},
    ]
    for excluded, fields in (
        ((), {}),
        (("n1",), {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}),
    ):
        pod = pod_of(changed(node_labels=labels, excluded_nodes=excluded))
        required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert required == {"nodeSelectorTerms": [{"matchExpressions": want, **fields}]}


def test_the_pod_stays_off_nodes_with_a_barred_label() -> None:
    """A node without the label may take it, so that it holds on every cloud."""
    pod = pod_of(changed(node_labels={"zone": ("a",)}, barred_labels={"kind": ("spot", "preemptible")}))
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"][0]["matchExpressions"] == [
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "kind", "operator": "NotIn", "values": ["spot", "preemptible"]},
    ]


def test_volumes_are_passed_on_as_they_are() -> None:
    """Plain API objects, for whatever kind of volume."""
    volume = {"name": "data", "hostPath": {"path": "/data"}}
    mount = {"name": "data", "mountPath": "/data"}
    pod = pod_of(changed(volumes=(volume,), volume_mounts=(mount,)))
    assert pod["volumes"] == [volume]
    assert pod["containers"][0]["volumeMounts"] == [mount]


def test_each_launch_of_an_attempt_has_a_name_that_fits() -> None:
    """A Job's pods add an index and five characters to it and must stay within 63."""
    task = msgspec.structs.replace(TASK, dag_id="d" * 40, task_id="t" * 40)
    names = [msgspec.structs.replace(ATTEMPT, task=task, move=move).job_name for move in range(4)]
    assert len(set(names)) == 4
    assert [name[-len(ATTEMPT.tail) - 2 :] for name in names[1:]] == [
        f"{ATTEMPT.tail}-{n}" for n in (1, 2, 3)
    ]
    assert names[0].endswith(f"-{ATTEMPT.tail}")
    assert max(map(len, names)) <= 52


def test_the_cluster_ends_a_job_only_when_it_is_told_to() -> None:
    """No estimate becomes a limit."""
    assert "activeDeadlineSeconds" not in manifest(SPEC)[0]["spec"]
    limited = msgspec.structs.replace(SPEC, active_deadline_seconds=90)
    assert manifest(limited)[0]["spec"]["activeDeadlineSeconds"] == 90


def test_the_name_of_the_installation_is_a_label_of_every_object() -> None:
    """Several Airflows can share a cluster and tell their jobs apart; without a name there is no label."""
    label = "airflow-gpu-placement/installation"
    named = msgspec.structs.replace(SPEC.attempt, installation="prod-eu")
    job, service = manifest(changed(attempt=named, nodes=2))
    assert service is not None
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"], service["metadata"]):
        assert metadata["labels"][label] == "prod-eu"
    assert label not in manifest(SPEC)[0]["metadata"]["labels"]
