"""Cases about the life of a remote job that ordinary tests can answer without a cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.engine.next_step import next_step
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.money import Tenant
from airflow_gpu_placement.model.outcome import LossPolicy, Observation, OutcomeKind
from airflow_gpu_placement.model.pool import (
    ClusterRef,
    DeclaredGpu,
    Execution,
    GpuIdentity,
    GpuPool,
    KueueQueue,
    Price,
)
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import (
    GapKind,
    NodeCapacity,
    PoolSignals,
    QuotaSignals,
    SignalGap,
    Snapshot,
)
from tests.cases.adapters.series import last_outcome

DATA = Path(__file__).with_name("data")
NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


def read(case_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the input and the expectation of a case."""
    case = json.loads((DATA / f"{case_id}.json").read_text(encoding="utf-8"))
    return case["input"], case["expect"]


def test_a_pod_that_is_gone_is_judged_by_its_job() -> None:
    """Its Job says that it succeeded; when the Job is gone too, nothing is proven nor run again."""
    facts, expect = read("WAT-06")
    outcome = last_outcome({}, facts["events"])
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert expect["final"] == "success"
    outcome = last_outcome({}, facts["variant_b"])
    assert (outcome.kind, outcome.final) == (OutcomeKind.UNKNOWN, True)
    assert next_step(outcome, tries_left=2).rerun is expect["variant_b"]["auto_replace_without_evidence"]


def test_a_list_after_an_expired_watch_tells_the_end() -> None:
    """What happened while the watch was broken is in the list that follows."""
    facts, _ = read("WAT-02")
    listed = facts["events"][-1]["list"]["job"]
    outcome = last_outcome({}, [{"t": 0, "pod": "Running"}, {"t": 60, "pod": "Running", "job": listed}])
    assert outcome.kind is OutcomeKind.SUCCEEDED


def test_a_job_without_pods_is_waited_for() -> None:
    """No pods yet is not a failure; the end is what the Job says."""
    facts, _ = read("LAU-07")
    looks: list[dict[str, Any]] = []
    for event in facts["timeline"]:
        done = event.get("job") == "Complete"
        seen = {"pod": "Succeeded" if done else "Running"} if event.get("pods", 1) else {}
        job = {"status": {"conditions": ["Complete"] if done else []}}
        looks.append({"t": event["t"], "job": job, **seen})
        outcome = last_outcome({"start_deadline_s": facts["start_deadline_s"]}, looks)
        assert outcome.kind is (OutcomeKind.SUCCEEDED if done else OutcomeKind.RUNNING)
    assert outcome.final


def test_mapped_tasks_have_names_and_labels_of_their_own() -> None:
    """Index 0 is an index like any other."""
    facts, expect = read("LAU-04")
    pool = GpuPool(name="p", cluster=ClusterRef(kubernetes_conn_id="c"))
    names, labels = set(), set()
    for number, one in enumerate(facts["instances"]):
        identity = {key: value for key, value in one.items() if key != "try_number"}
        attempt = Attempt(
            task=LogicalTask(**identity),
            attempt_id=f"0196e7b2-0000-7000-8000-00000000000{number}",
            try_number=1,
        )
        job, _ = manifest(LaunchSpec(attempt=attempt, pool=pool, image="train:1"))
        names.add(job["metadata"]["name"])
        labels.add(tuple(sorted(job["metadata"]["labels"].items())))
    assert (len(names), len(labels)) == (expect["distinct_names"], expect["distinct_selectors"])


def test_a_report_shows_no_environment() -> None:
    """What a failure tells has the reason and no value of a variable or argument."""
    facts, expect = read("SEC-03")
    pod = msgspec.convert(facts["pod"], Pod)
    outcome = classify(Observation(job=Job(), pods=(pod,)), LossPolicy())
    told = msgspec.json.encode(outcome).decode()
    assert outcome.exit_code == 1
    assert "exited with code 1" in told
    assert not [word for word in expect["report_must_not_contain"] if word in told]


def test_a_stored_trigger_holds_no_secret() -> None:
    """Only identifiers go into the database."""
    from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

    _, expect = read("SEC-01")
    trigger = RemoteJobTrigger(
        kubernetes_conn_id="gke",
        context=None,
        cluster_uid=None,
        namespace="ml",
        job_name="j",
        job_uid="u",
        node_grace_seconds=1,
        cluster_grace_seconds=1,
        node_deletion_is_proof=False,
    )
    stored = json.dumps(trigger.serialize())
    assert not [word for word in expect["must_not_contain"] if word in stored]


def test_six_pools_are_refused_for_six_reasons() -> None:
    """Each pool has its own reason, and none is left out."""
    facts, expect = read("UI-04")
    h100 = GpuIdentity(model="H100", memory_gb=80, form_factor="SXM")
    whole: dict[str, Any] = {"gpu": h100, "capacity": 8, "allocatable": 8}
    shut = QuotaSignals(local_queue="q", cluster_queue="q", flavor="f", stopped_because="queue stopped")
    seen: dict[str, dict[str, Any]] = {
        "a": {
            "nodes": (
                NodeCapacity(name="a1", gpu=GpuIdentity(model="A100"), capacity=8, allocatable=8, free=8),
            )
        },
        "b": {"nodes": tuple(NodeCapacity(name=f"b{n}", used=7, free=1, **whole) for n in range(8))},
        "c": {"nodes": (NodeCapacity(name="c1", unusable_because="taint x:NoSchedule", **whole),)},
        "d": {"nodes": (NodeCapacity(name="d1", free=8, **whole),), "quota": {"q": shut}},
        "e": {"gap": SignalGap(kind=GapKind.UNREACHABLE, message="no answer")},
        "f": {"nodes": (NodeCapacity(name="f1", free=8, **whole),)},
    }
    decision = place(
        GpuRequest(models=("H100",), gpus_per_node=8),
        [_pool_of(name, usd=8.0 if name == "f" else 0.0, queue=name == "d") for name in facts["pools"]],
        Snapshot(
            taken_at=NOW,
            pools={
                name: PoolSignals(pool=name, observed_at=NOW, source="a case", **parts)
                for name, parts in seen.items()
            },
        ),
        History(),
        Setting(tenant=Tenant(name="t", monthly_budget_usd=1.0)),
        now=NOW,
        subject="a case",
        catalog_hash="",
    )
    reasons = {one.pool: one.reasons[0].code for one in decision.verdicts}
    assert sorted(reasons) == expect["explained"]
    assert len(set(reasons.values())) == expect["reasons_distinct"], reasons


def _pool_of(name: str, *, usd: float, queue: bool) -> GpuPool:
    return GpuPool(
        name=name,
        cluster=ClusterRef(kubernetes_conn_id=name),
        gpu=DeclaredGpu(per_node=8),
        price=Price(gpu_hour_usd=usd),
        execution=Execution.KUEUE if queue else Execution.JOB,
        kueue=KueueQueue(local_queues={"*": "q"} if queue else {}),
    )
