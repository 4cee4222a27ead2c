"""A remote job that succeeded for a try that Airflow has lost, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.launch.job import create, jobs_path
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.outcome import OutcomeKind
from airflow_gpu_placement.operators.adopting import unreported_success
from airflow_gpu_placement.operators.returning import result_of
from tests.integration.cluster_support import opener, pool_of, spec_of

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

_ENDED = frozenset({"Complete", "Failed"})
TRAINED = 'echo "{\\"accuracy\\": 0.9}" > "$GPU_PLACEMENT_RESULT_PATH"'


async def launch(cluster: Cluster, namespace: str, script: str, **changes: Any) -> AttemptRecord:
    """Create a job, wait until it has ended, and return what the operator remembers of its creation."""
    known = await create_job(cluster, namespace, script, **changes)
    cluster.api.wait(
        jobs_path(namespace, known.job_name),
        lambda job: job and _ENDED & {one["type"] for one in job["status"].get("conditions", ())},
        60,
        "the job has ended",
    )
    return known


async def create_job(cluster: Cluster, namespace: str, script: str, **changes: Any) -> AttemptRecord:
    """Create a job and return what the operator remembers of it.

    :param changes: of the :class:`LaunchSpec`.
    """
    spec = spec_of(pool_of(cluster, namespace), script, **changes)
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    return AttemptRecord(
        attempt_id=spec.attempt.attempt_id,
        try_number=1,
        fence=spec.attempt.fence,
        pool=spec.pool.name,
        kubernetes_conn_id=cluster.name,
        cluster_uid=cluster.uid,
        namespace=namespace,
        job_name=spec.attempt.job_name,
        job_uid=created.uid,
        phase=AttemptPhase.CREATED,
    )


async def look(cluster: Cluster, known: AttemptRecord, *, try_number: int = 2, max_tries: int = 0) -> Any:
    """Return the result that the next try finds, ``None`` for none."""
    found = await unreported_success(
        TaskRecord(attempts=(known,)),
        try_number=try_number,
        max_tries=max_tries,
        open_cluster=opener(cluster),
    )
    return None if found is None else result_of(found.outcome)


async def test_a_success_is_found_with_its_result(cluster: Cluster, namespace: str) -> None:
    """Also when only its intent was written, or when the dead worker had got as far as noting the end."""
    known = await launch(cluster, namespace, TRAINED)
    intended = msgspec.structs.replace(known, phase=AttemptPhase.INTENT, job_uid=None)
    noted = msgspec.structs.replace(known, phase=AttemptPhase.ENDED, outcome=OutcomeKind.SUCCEEDED)
    for one in (known, intended, noted):
        assert await look(cluster, one) == {"accuracy": 0.9}


async def test_who_wants_the_work_done_again_gets_it(cluster: Cluster, namespace: str) -> None:
    """After a clear, after the deletion of the task instance, and after an end that was settled otherwise."""
    known = await launch(cluster, namespace, TRAINED)
    lost = msgspec.structs.replace(known, phase=AttemptPhase.ENDED, outcome=OutcomeKind.INFRASTRUCTURE)
    assert await look(cluster, known, max_tries=1) is None
    assert await look(cluster, known, try_number=1) is None
    assert await look(cluster, lost) is None


async def test_only_the_very_job_counts(cluster: Cluster, namespace: str) -> None:
    """Not a failure, not another attempt's job of that name, not another cluster's, not one that is gone."""
    failed = await launch(cluster, namespace, "exit 1")
    assert await look(cluster, failed) is None
    cluster.api.delete(jobs_path(namespace, failed.job_name), {"propagationPolicy": "Foreground"})
    cluster.api.wait(jobs_path(namespace, failed.job_name), lambda job: job is None, 60, "the job is gone")
    assert await look(cluster, failed) is None
    known = await launch(cluster, namespace, TRAINED)
    for changes in ({"attempt_id": "other"}, {"job_uid": "other"}, {"cluster_uid": "other"}):
        assert await look(cluster, msgspec.structs.replace(known, **changes)) is None
