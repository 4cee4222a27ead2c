"""Jobs created once and for the right attempt, on a real cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.exceptions import Conflict, Forbidden, NotFound, WrongCluster
from airflow_gpu_placement.launch.find import find
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.attempt import ATTEMPT_LABEL
from airflow_gpu_placement.model.kube import Toleration
from airflow_gpu_placement.model.pool import Place
from tests.integration.cluster_support import opener, pool_of, spec_of

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def test_a_second_create_adopts_the_first_job(cluster: Cluster, namespace: str) -> None:
    """The same attempt gets the same job, however often it is created."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600", nodes=2)
    async with await opener(cluster)("", None) as client:
        first = await create(client, spec, expected_uid=cluster.uid)
        second = await create(client, spec, expected_uid=None)
        found = await find(client, namespace, spec.attempt.task.hash)
    assert (first.adopted, second.adopted) == (False, True)
    assert first.uid == second.uid
    assert [(one.uid, one.fence, one.exists) for one in found] == [(first.uid, 1, True)]
    jobs = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    assert len(jobs) == 1


async def test_the_job_of_another_attempt_is_left_alone(cluster: Cluster, namespace: str) -> None:
    """A name that is taken by another attempt is an error that names that attempt."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600")
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{spec.attempt.job_name}"
        await asyncio.to_thread(
            cluster.api.patch, path, {"metadata": {"labels": {ATTEMPT_LABEL: "another-attempt"}}}
        )
        with pytest.raises(Conflict, match="another-attempt"):
            await create(client, spec, expected_uid=cluster.uid)
        assert cluster.api.get(path)["metadata"]["uid"] == created.uid


async def test_nothing_is_written_to_another_cluster(cluster: Cluster, namespace: str) -> None:
    """The cluster must be the one that the decision was made for."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600")
    async with await opener(cluster)("", None) as client:
        with pytest.raises(WrongCluster, match="not to some-other-cluster"):
            await create(client, spec, expected_uid="some-other-cluster")
    assert cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"] == []


async def test_the_service_goes_with_its_job(cluster: Cluster, namespace: str) -> None:
    """Whoever deletes the Job, and how, the Service does not stay behind."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600", nodes=2, gpus_per_node=1)
    services, name = f"/api/v1/namespaces/{namespace}/services", spec.attempt.job_name
    async with await opener(cluster)("", None) as client:
        await create(client, spec, expected_uid=cluster.uid)
        assert cluster.api.get(f"{services}/{name}")["spec"]["clusterIP"] == "None"
        await client.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", propagation="Background")
    await asyncio.to_thread(
        cluster.api.wait, f"{services}/{name}", lambda found: found is None, 30, "the Service is gone"
    )


async def test_the_api_accepts_every_field(cluster: Cluster, namespace: str) -> None:
    """A job with everything in it passes the real validation, and lost nodes are not used again."""
    tolerations = (
        Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
        Toleration(key="team", value="research", effect="NoExecute", toleration_seconds=60),
    )
    pool = pool_of(
        cluster, namespace, place=Place(region="eu-1"), tolerations=tolerations, name="pool/with odd: name"
    )
    spec = spec_of(
        pool,
        "sleep 600",
        nodes=2,
        resources={"cpu": "1", "memory": "1Gi"},
        env={"MODE": "full", "OUT": "$(GPU_PLACEMENT_WRITE_DIR)/model"},
        volumes=({"name": "data", "hostPath": {"path": "/data"}},),
        volume_mounts=({"name": "data", "mountPath": "/data"},),
        excluded_nodes=("h100-1", "gone-1"),
        checkpoint_root="/data/checkpoints/abc/1",
        resume_from="/data/checkpoints/abc/1/0-aaaaaaaa/step-3",
    )
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
        selector = f"batch.kubernetes.io/controller-uid={created.uid}"
        pods = await asyncio.to_thread(
            cluster.api.wait,
            f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}",
            lambda found: (
                len(found["items"]) == 2
                and all(
                    any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions", []))
                    for pod in found["items"]
                )
            ),
            30,
            "both pods find no node, since the only one with GPUs is excluded",
        )
    assert {pod["spec"]["subdomain"] for pod in pods["items"]} == {spec.attempt.job_name}


async def test_missing_rights_and_namespaces_are_named(cluster: Cluster, namespace: str) -> None:
    """What is wrong is said by the API's own words: verb, resource, namespace."""
    spec = spec_of(pool_of(cluster, namespace), "true")
    elsewhere = msgspec.structs.replace(spec, pool=pool_of(cluster, "no-such-namespace"))
    async with await opener(cluster)("", None) as client:
        with pytest.raises(NotFound, match="no-such-namespace"):
            await create(client, elsewhere, expected_uid=cluster.uid)
    async with await opener(cluster, "visitor")("", None) as client:
        with pytest.raises(Forbidden, match='cannot get resource "namespaces"'):
            await create(client, spec, expected_uid=cluster.uid)
