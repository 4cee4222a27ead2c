"""Evidence beside pods and the Job: a queue, the log, the author's own check."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.engine.log_hints import HINT_RULES, hint_in
from airflow_gpu_placement.engine.workload_evidence import QueueState, queue_state
from airflow_gpu_placement.model.kueue import Workload
from airflow_gpu_placement.model.outcome import CompletionCheck, LossPolicy, Outcome, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, node, pod, seen

POLICY = LossPolicy()
APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
SUCCEEDED, UNKNOWN, QUEUE = OutcomeKind.SUCCEEDED, OutcomeKind.UNKNOWN, OutcomeKind.QUEUE


def workload(*conditions: tuple[str, str, str], active: bool | None = None, checks: Any = ()) -> Workload:
    """Build a workload; a condition is its type, status and reason."""
    return msgspec.convert(
        {
            "spec": {} if active is None else {"active": active},
            "status": {
                "conditions": [
                    {"type": type_, "status": status, "reason": reason}
                    for type_, status, reason in conditions
                ],
                "admissionChecks": list(checks),
            },
        },
        Workload,
    )


def by_queue(one: Workload, *, gone: bool = False, **fields: Any) -> Outcome:
    """Classify a suspended job by its workload."""
    return classify(seen(gone=gone, of=job(suspend=True), workload=one, **fields), POLICY)


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((), QueueState.QUEUED),
        ((("QuotaReserved", "True", ""),), QueueState.QUEUED),
        ((("QuotaReserved", "True", ""), ("Admitted", "True", "")), QueueState.ADMITTED),
        ((("Admitted", "False", ""), ("Evicted", "True", "Preempted")), QueueState.EVICTED),
        ((("Admitted", "True", ""), ("Evicted", "False", "")), QueueState.ADMITTED),
        ((("Finished", "True", "Succeeded"),), QueueState.FINISHED),
        ((("Admitted", "True", ""), ("Finished", "True", "WorkloadSliceReplaced")), QueueState.ADMITTED),
    ],
)
def test_a_reservation_is_no_admission_and_an_admission_no_start(
    conditions: tuple[tuple[str, str, str], ...], state: QueueState
) -> None:
    """Each is one step."""
    assert queue_state(workload(*conditions), suspended=True) is state


@pytest.mark.parametrize(
    ("reason", "kind", "cause"),
    [
        ("Preempted", QUEUE, "QueuePreempted"),
        ("PodsReadyTimeout", QUEUE, "QueuePodsNotReady"),
        ("AdmissionCheck", QUEUE, "QueueAdmissionCheck"),
        ("ClusterQueueStopped", QUEUE, "QueueStopped"),
        ("LocalQueueStopped", QUEUE, "QueueStopped"),
        ("NodeFailures", QUEUE, "QueueNodeFailures"),
        ("FlavorMigration", QUEUE, "QueueFlavorMigration"),
        ("EvictedOnManagerCluster", QUEUE, "QueueEvicted"),
        ("SomethingNew", QUEUE, "QueueEvicted"),
        ("DeactivatedDueToRequeuingLimitExceeded", INFRASTRUCTURE, "QueueDeactivated"),
        ("Deactivated", INFRASTRUCTURE, "QueueDeactivated"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", APPLICATION, "DeadlineExceeded"),
    ],
)
def test_an_eviction_is_read_by_its_reason(reason: str, kind: OutcomeKind, cause: str) -> None:
    """Only what is switched off does not come back."""
    outcome = by_queue(workload(("Evicted", "True", reason)))
    assert (outcome.kind, outcome.cause, outcome.final) == (kind, cause, kind is not QUEUE)


@pytest.mark.parametrize(
    ("reason", "gone", "kind"),
    [
        ("OutOfSync", False, INFRASTRUCTURE),
        ("OwnerNotFound", True, INFRASTRUCTURE),
        ("Succeeded", True, SUCCEEDED),
        ("Failed", True, APPLICATION),
        ("Succeeded", False, OutcomeKind.RUNNING),
    ],
)
def test_finished_is_not_succeeded(reason: str, gone: bool, kind: OutcomeKind) -> None:
    """The condition is True for every end; while the Job is there, it says more."""
    assert by_queue(workload(("Finished", "True", reason)), gone=gone).kind is kind


def test_what_a_queue_waits_for_is_told() -> None:
    """An admission check by its name."""
    waits = workload(("QuotaReserved", "True", ""), checks=[{"name": "provisioning", "state": "Pending"}])
    outcome = by_queue(waits)
    assert (outcome.cause, outcome.message) == (
        "Queued",
        "quota is reserved, admission waits: provisioning is Pending",
    )
    assert by_queue(workload(active=False)).cause == "QueueDeactivated"


def test_an_admitted_job_that_stays_suspended_is_stuck_after_a_while() -> None:
    """It counts from when its quota was reserved."""
    stuck = msgspec.convert(
        {
            "status": {
                "conditions": [
                    {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-05T10:00:00Z"},
                    {"type": "Admitted", "status": "True"},
                ]
            }
        },
        Workload,
    )
    for minute, kind in ((9, OutcomeKind.RUNNING), (11, INFRASTRUCTURE)):
        observation = seen(
            of=job(suspend=True), workload=stuck, now=datetime(2026, 1, 5, 10, minute, tzinfo=UTC)
        )
        assert classify(observation, POLICY).kind is kind


# The log


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "ecc"),
        ("NVRM: Xid (PCI:0000:48:00): 79, pid=1, GPU has fallen off the bus.", "off-the-bus"),
        ("NVRM: Xid (PCI:0000:48:00): 94, pid=1, name=python", "ecc"),
        ("NVRM: Xid (PCI:0000:79:00): 31, pid=1", "program-on-gpu"),
        ("NVRM: Xid (PCI:0000:0a:00): 119, Timeout waiting for RPC from GSP", "gsp"),
        ("NVRM: Xid (PCI:0000:0a:00): 74, NVLink", "nvlink"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "gpu-out-of-memory"),
        ("[E ProcessGroupNCCL.cpp] Watchdog caught collective operation timeout", "collective"),
        ("exec /usr/bin/python3: exec format error", "wrong-architecture"),
        ("Failed to initialize NVML: Driver/library version mismatch", "driver"),
        ("OSError: [Errno 28] No space left on device", "disk"),
        ("RuntimeError: DataLoader worker is killed by signal: Bus error.", "shared-memory"),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "ecc"),
        ("RuntimeError: HIP error: hipErrorECCNotCorrectable", "ecc"),
        ("NVRM: Xid (PCI:0000:0a:00): 140, pid=7", "ecc"),
        ("NVRM: Xid (PCI:0000:0a:00): 149, NETIR_LINK_EVT", "nvlink"),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x22:0x38:667)", "driver"),
        ("RuntimeError: No CUDA GPUs are available", "driver"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable", "gpu-busy"),
        ("CUDA-capable device(s) is/are busy or unavailable", "gpu-busy"),
        ("Traceback (most recent call last):", None),
        ("step 48: loss 0.79, epoch 94 of 120", None),
    ],
)
def test_a_line_is_recognised(line: str, rule: str | None) -> None:
    """And nothing else is."""
    found = hint_in(["epoch 1", line, "bye"])
    assert (None if found is None else found[0].name) == rule


def test_every_rule_says_where_it_is_from() -> None:
    """Rules are data with a source; names are unique."""
    assert all(rule.source and rule.means for rule in HINT_RULES)
    assert len({rule.name for rule in HINT_RULES}) == len(HINT_RULES)
    assert all(rule.cause for rule in HINT_RULES if rule.kind is not None)


ECC = ("RuntimeError: CUDA error: uncorrectable ECC error encountered",)


def test_a_hint_decides_or_is_only_shown() -> None:
    """The node is avoided in both cases."""
    observation = seen(failed(1), nodes=[node()], log_tail=ECC)
    outcome = classify(observation, POLICY)
    assert (outcome.kind, outcome.cause, outcome.nodes) == (INFRASTRUCTURE, "DeviceFault", ("n1",))
    assert "ECC" in outcome.message
    outcome = classify(observation, POLICY, logs_decide=False)
    assert (outcome.kind, outcome.cause, outcome.nodes) == (APPLICATION, "Error", ("n1",))
    assert outcome.hint == f"the memory of a GPU is broken ({ECC[0]})"


def test_a_hint_does_not_overrule_what_the_cluster_says() -> None:
    """A preemption and a memory limit explain themselves."""
    preempted = seen(failed(137, conditions=[disrupted("PreemptionByScheduler")]), log_tail=ECC)
    assert classify(preempted, POLICY).cause == "Preempted"
    assert classify(seen(failed(137, "OOMKilled", memory="1Gi"), log_tail=ECC), POLICY).cause == "OOMKilled"
    assert classify(seen(pod(RUNNING), log_tail=ECC), POLICY).hint == ""


def test_the_wrong_processor_shows_at_once_or_is_something_else() -> None:
    """A program that ran for hours has started a wrong helper, perhaps; it was not the image."""
    line = ("exec /opt/tool: exec format error",)
    quick = pod(
        {"terminated": {**ended(1)["terminated"], "startedAt": "2026-01-05T09:59:59Z"}}, phase="Failed"
    )
    late = pod(
        {"terminated": {**ended(1)["terminated"], "startedAt": "2026-01-05T08:00:00Z"}}, phase="Failed"
    )
    nodes = [node(architecture="arm64")]
    outcome = classify(seen(quick, nodes=nodes, log_tail=line), POLICY)
    assert (outcome.kind, outcome.architecture) == (OutcomeKind.CONFIGURATION, "arm64")
    assert classify(seen(late, nodes=nodes, log_tail=line), POLICY).kind is APPLICATION


# The author's own check


@pytest.mark.parametrize(
    ("says_done", "available", "kind"),
    [(True, True, SUCCEEDED), (False, True, UNKNOWN), (None, True, UNKNOWN), (True, False, UNKNOWN)],
)
def test_an_open_end_is_settled_by_the_check(
    says_done: bool | None, available: bool, kind: OutcomeKind
) -> None:
    """With a warning, since nobody saw it."""
    check = CompletionCheck(available=available, says_done=says_done)
    outcome = classify(seen(gone=True, completion=check), POLICY)
    assert outcome.kind is kind
    assert bool(outcome.warning) is (kind is SUCCEEDED)


def test_an_exit_0_that_was_no_end_is_not_believed() -> None:
    """A program that answers SIGTERM with 0 looks complete."""
    not_done = CompletionCheck(says_done=False)
    complete = job(("Complete", ""))
    plain = pod(ended(0, "Completed"), phase="Succeeded")
    taken = pod(ended(0, "Completed"), phase="Succeeded", conditions=[disrupted("EvictionByEvictionAPI")])
    assert classify(seen(plain, of=complete, completion=not_done), POLICY).cause == "NotDone"
    assert classify(seen(taken, of=complete, completion=not_done), POLICY).cause == "EndedEarly"
    doubtful = classify(seen(taken, of=complete), POLICY)
    assert (doubtful.kind, doubtful.ambiguous) == (SUCCEEDED, True)
    assert "the work may not be complete" in doubtful.warning
    cleared = classify(seen(taken, of=complete, completion=CompletionCheck(says_done=True)), POLICY)
    assert (cleared.kind, cleared.warning) == (SUCCEEDED, "")


def test_the_check_does_not_excuse_the_programs_own_failure() -> None:
    """An exit code is the program's word."""
    done = CompletionCheck(says_done=True)
    assert classify(seen(failed(1), completion=done), POLICY).kind is APPLICATION
