"""From Kueue objects of either version to the quota signals of a pool."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.kueue import quota_of_queue, stopped
from airflow_gpu_placement.engine.kueue.pending import ObservedAdmission, predicted_wait
from airflow_gpu_placement.model.kueue import ClusterQueue, Cohort, KueueObjects, ResourceFlavor
from airflow_gpu_placement.model.pool import KueueQueue
from tests.unit.engine.builders import NOW
from tests.unit.engine.kueue_objects import (
    A40,
    A100,
    ACTIVE,
    GPU,
    a100_pool,
    admitted,
    cluster_queue,
    flavor,
    group,
    local_queue,
    objects,
    quota,
    workload,
)


def test_quota_is_of_one_flavour_and_never_a_sum() -> None:
    """The pool has the quota of the flavour that its nodes carry the labels of."""
    found = quota(objects(cluster_queue("ml", group(a40="8", a100="4"), reserved={"a100": 1})))
    assert (found.flavor, found.nominal, found.reserved, found.available, found.potential) == (
        "a100",
        4,
        1,
        3,
        4,
    )
    assert found.stopped_because is None


def test_several_flavours_of_one_pool_count_as_the_best_of_them() -> None:
    """A job gets all of its quota in one flavour, so the largest one decides."""
    two = (flavor("f1", A100), flavor("f2", A100))
    found = quota(objects(cluster_queue("ml", group(f1="8", f2="8"), reserved={"f1": 8}), flavors=two))
    assert (found.flavor, found.available, found.potential) == ("f2", 8, 8)


@pytest.mark.parametrize("key", ["cohort", "cohortName"])
def test_both_versions_name_their_cohort(key: str) -> None:
    """``cohort`` became ``cohortName``; what others do not use can be borrowed either way."""
    named: dict[str, Any] = {key: "all"}
    found = quota(
        objects(
            cluster_queue("ml", group(a100="4"), **named),
            cluster_queue("other", group(a100="8"), **named),
        )
    )
    assert (found.available, found.borrowing, found.potential) == (12, 8, 12)


@pytest.mark.parametrize("key", ["parent", "parentName"])
def test_cohort_objects_have_parents_and_quota(key: str) -> None:
    """Quota of an ancestor can be borrowed up to the limits on the way."""
    cohorts = msgspec.convert(
        [
            {"metadata": {"name": "team"}, "spec": {key: "company"}},
            {"metadata": {"name": "company"}, "spec": {"resourceGroups": [group(a100="16")]}},
        ],
        tuple[Cohort, ...],
    )
    queue = cluster_queue(
        "ml",
        group(a100={"nominalQuota": "4", "borrowingLimit": "10"}),
        cohortName="team",
        reserved={"a100": 2},
    )
    found = quota(objects(queue, cohorts=cohorts))
    assert (found.available, found.potential) == (12, 14)


@pytest.mark.parametrize(
    ("queue", "door", "drains", "words"),
    [
        ({"stopPolicy": "Hold"}, {}, False, "ClusterQueue ml has stopPolicy Hold"),
        ({"stopPolicy": "HoldAndDrain"}, {}, True, "ClusterQueue ml has stopPolicy HoldAndDrain"),
        ({}, {"stopPolicy": "Hold"}, False, "LocalQueue default/team has stopPolicy Hold"),
        ({"stopPolicy": "Hold"}, {"stopPolicy": "HoldAndDrain"}, True, "LocalQueue default/team"),
        (
            {"conditions": [{"type": "Active", "status": "False", "reason": "FlavorNotFound"}]},
            {},
            False,
            "not active (FlavorNotFound)",
        ),
    ],
)
def test_a_stopped_queue_admits_nothing_and_says_why(
    queue: dict[str, Any], door: dict[str, Any], drains: bool, words: str
) -> None:
    """Only draining touches what already runs."""
    stopped_queue = cluster_queue("ml", group(a100="8"), **queue)
    local = local_queue(**door)
    found = quota(objects(stopped_queue, local_queues=(local,)))
    assert (found.available, found.wait_seconds) == (0, None)
    assert words in (found.stopped_because or "")
    halt = stopped(stopped_queue, local)
    assert halt is not None
    assert halt.drains is drains


def test_a_queue_that_kueue_has_not_seen_admits_nothing() -> None:
    """Without any status nobody admits."""
    queue = msgspec.convert({"metadata": {"name": "ml"}, "spec": {}}, ClusterQueue)
    halt = stopped(queue)
    assert halt is not None
    assert "no status" in halt.because


def test_cohorts_in_a_circle_are_told() -> None:
    """Kueue admits nothing there and says so nowhere near the job."""
    cohorts = msgspec.convert(
        [
            {"metadata": {"name": "x"}, "spec": {"parentName": "y"}},
            {"metadata": {"name": "y"}, "spec": {"parentName": "x"}},
        ],
        tuple[Cohort, ...],
    )
    found = quota(objects(cluster_queue("ml", group(a100="8"), cohortName="x"), cohorts=cohorts))
    assert found.stopped_because == "queue stopped: the parents of cohort x form a circle"


@pytest.mark.parametrize(
    ("kueue", "words"),
    [
        (objects(local_queues=()), "LocalQueue default/team does not exist"),
        (objects(), "leads to ClusterQueue ml, which does not exist"),
        (objects(cluster_queue()), "ClusterQueue ml has no quota for nvidia.com/gpu"),
        (objects(cluster_queue("ml", group(a40="8"))), "no flavour of ClusterQueue ml stands for pool p"),
    ],
)
def test_what_is_not_there_is_told(kueue: KueueObjects, words: str) -> None:
    """Nothing available, and what to look at."""
    found = quota(kueue)
    assert found.available == 0
    assert words in (found.stopped_because or "")


def test_the_catalogue_may_name_the_flavour() -> None:
    """Then labels are not compared; a name that the queue does not have is told."""
    kueue = objects(cluster_queue("ml", group(a100="4", a40="8")))
    named = a100_pool(kueue=KueueQueue(flavor="a40"))
    assert quota(kueue, named).available == 8
    missing = a100_pool(kueue=KueueQueue(flavor="b200"))
    assert "in flavour b200" in (quota(kueue, missing).stopped_because or "")


@pytest.mark.parametrize(
    ("selector", "model", "flavors", "want"),
    [
        pytest.param(A100, None, (flavor("f", A100),), "f", id="the same label"),
        pytest.param({"pool": "x"}, None, (flavor("f"),), "f", id="a flavour for any node"),
        pytest.param({"pool": "x"}, None, (flavor("f", {"pool": "y"}),), "", id="another value"),
        pytest.param({"pool": "x"}, "A100", (flavor("f", A40),), "", id="labels tell another GPU"),
        pytest.param({"pool": "x"}, "A100", (flavor("f", A100),), "f", id="labels tell the same GPU"),
        pytest.param(
            {"pool": "x"},
            None,
            (flavor("f", nodeTaints=[{"key": "ours", "effect": "NoSchedule"}]),),
            "",
            id="a taint that the pool does not tolerate",
        ),
        pytest.param(
            {"pool": "x"},
            None,
            (
                flavor(
                    "f",
                    nodeTaints=[{"key": "ours", "effect": "NoSchedule"}],
                    tolerations=[{"key": "ours", "operator": "Exists"}],
                ),
            ),
            "f",
            id="a taint that the flavour itself tolerates",
        ),
        pytest.param({"pool": "x"}, None, (), "", id="a flavour without an object"),
    ],
)
def test_a_flavour_stands_for_a_pool_by_its_labels(
    selector: dict[str, str], model: str | None, flavors: tuple[ResourceFlavor, ...], want: str
) -> None:
    """By Kueue's own rule, and never against what the labels tell of the GPU."""
    kueue = objects(cluster_queue("ml", group(f="8")), flavors=flavors)
    assert quota(kueue, a100_pool(node_selector=selector, model=model)).flavor == want


@pytest.mark.parametrize(
    ("strategy", "priority", "available", "ahead"),
    [
        pytest.param("BestEffortFIFO", 0, 4, 1, id="one that cannot use what is free is passed"),
        pytest.param("BestEffortFIFO", 5, 4, 0, id="a higher priority goes first"),
        pytest.param("StrictFIFO", 0, 0, 3, id="the first holds back all that come after it"),
        pytest.param("StrictFIFO", 5, 4, 0, id="a higher priority goes first there too"),
    ],
)
def test_who_waits_before_a_new_one(strategy: str, priority: int, available: int, ahead: int) -> None:
    """By priority and by the queue's strategy; 4 of 8 are free, and others wait for 2, 6 and 100."""
    waiting = (
        workload("small", 2),
        workload("large", 6),
        workload("too-large", 100),
        workload("lower", 1, priority=-1),
        workload("elsewhere", 1, queue="other"),
        workload("off", 1, spec={"active": False}),
    )
    queue = cluster_queue("ml", group(a100="8"), reserved={"a100": 4}, queueingStrategy=strategy)
    found = quota(objects(queue, workloads=waiting), priority=priority)
    assert (found.available, found.pending_ahead) == (available, ahead)


def test_without_workloads_the_queue_s_own_counter_counts() -> None:
    """Who may not list workloads still knows how many wait."""
    queue = cluster_queue("ml", group(a100="8"), reserved={"a100": 8}, pending=7)
    assert quota(objects(queue)).pending_ahead == 7


def test_the_wait_is_predicted_from_what_was_observed() -> None:
    """Two ahead and no room: three admissions have to happen, one every ten minutes."""
    seen = tuple(admitted(f"w{index}", 1, at=f"2026-01-05T10:{10 * index:02d}:00Z") for index in range(1, 4))
    queue = cluster_queue("ml", group(a100="3"), reserved={"a100": 3})
    kueue = objects(queue, workloads=(*seen, workload("x", 1), workload("y", 1)))
    assert quota(kueue).wait_seconds == 3 * 600


def test_an_unknown_wait_is_none() -> None:
    """Nothing observed is not a wait of nothing, and an observed wait is at least the clock's tick."""
    assert quota(objects(cluster_queue("ml", group(a100="8")))).wait_seconds is None
    assert predicted_wait([ObservedAdmission(NOW, 0.0)], 0) is None
    assert predicted_wait([ObservedAdmission(NOW, 0.0)] * 2, 0) == 1.0


@pytest.mark.parametrize(
    ("policy", "priority", "want"),
    [("Never", 9, 0), ("Any", 0, 8), ("LowerPriority", 0, 0), ("LowerPriority", 9, 6)],
)
def test_what_could_be_reclaimed_is_not_available(policy: str, priority: int, want: int) -> None:
    """Own quota that others borrow counts apart, and only as far as the policy lets it be taken back."""
    kueue = objects(
        cluster_queue("ml", group(a100="8"), cohortName="all", preemption={"reclaimWithinCohort": policy}),
        cluster_queue("other", group(a100="8"), cohortName="all", reserved={"a100": 16}),
        workloads=(
            admitted("less", 6, at="2026-01-05T10:00:00Z", queue="other", priority=1),
            admitted("more", 10, at="2026-01-05T10:00:00Z", queue="other", priority=9),
        ),
    )
    found = quota(kueue, priority=priority)
    assert (found.available, found.reclaimable) == (0, want)


def held_by(**status: Any) -> int:
    """Ask what is held in flavour ``a100`` of a queue whose status does not tell reservations."""
    queue = msgspec.to_builtins(cluster_queue("ml", group(a100="8")))
    queue["status"] = {"conditions": [ACTIVE], **status}
    seen = (admitted("w", 3, at="2026-01-05T10:00:00Z"), workload("waits", 4))
    return quota(objects(msgspec.convert(queue, ClusterQueue), workloads=seen)).reserved


def test_a_status_without_reservations_is_no_empty_queue() -> None:
    """What workloads hold is the least, and so is what is fully admitted; reservations say it all."""
    usage = [{"name": "a100", "resources": [{"name": GPU, "total": "5"}]}]
    assert held_by() == 3
    assert held_by(flavorsUsage=usage) == 5
    assert held_by(flavorsUsage=usage, flavorsReservation=[]) == 0


def test_no_flavour_at_all_gives_nothing() -> None:
    """And says so."""
    queue = cluster_queue("ml", group(a100="8"))
    found = quota_of_queue(objects(queue), queue, local_queue(), (), resource=GPU)
    assert (found.available, found.stopped_because) == (0, "no flavour of ClusterQueue ml matches")
