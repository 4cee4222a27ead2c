"""Whether Kueue would admit a workload, every resource that it asks for counted."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.gpu_models import wanted_model
from airflow_gpu_placement.engine.kueue import forecast
from tests.unit.engine.kueue_objects import A40, A100, cluster_queue, flavor, group, objects, workload

CPU_GROUP = {
    "coveredResources": ["cpu", "pods"],
    "flavors": [
        {
            "name": "default",
            "resources": [
                {"name": "cpu", "nominalQuota": "64500m"},
                {"name": "pods", "nominalQuota": "4"},
            ],
        }
    ],
}
MIXED = objects(
    cluster_queue("ml", group(a40="8", a100="4"), CPU_GROUP),
    flavors=(flavor("a100", A100), flavor("a40", A40), flavor("default")),
)


@pytest.mark.parametrize(
    ("model", "gpus", "others", "now", "ever"),
    [
        ("A100", 4, {}, True, True),
        ("A100", 6, {}, False, False),
        ("A40", 8, {"cpu": "64"}, True, True),
        ("A40", 8, {"cpu": "64.6"}, False, False),
        ("A40", 8, {"memory": "1Gi"}, False, False),
        ("H100", 1, {}, False, False),
    ],
)
def test_every_resource_needs_quota(
    model: str, gpus: int, others: dict[str, Any], now: bool, ever: bool
) -> None:
    """Each group of resources chooses its own flavour; a resource that no group covers is never admitted."""
    found = forecast(MIXED, "ml", gpus, wanted=(wanted_model(model),), others=others)
    assert (found.fits_now, found.fits_ever) == (now, ever)
    assert bool(found.because) is not now


@pytest.mark.parametrize(("pods", "want"), [(1, True), (4, True), (5, False)])
def test_pods_are_counted_where_there_is_quota_for_them(pods: int, want: bool) -> None:
    """Nobody asks for them by name, and a queue without such a quota takes any number."""
    a40 = (wanted_model("A40"),)
    assert forecast(MIXED, "ml", 8, wanted=a40, pods=pods).fits_now is want
    bare = objects(cluster_queue("ml", group(a40="8")))
    assert forecast(bare, "ml", 8, wanted=a40, pods=pods).fits_now


@pytest.mark.parametrize(
    ("when_can_borrow", "want"),
    [("Borrow", "f1"), ("MayStopSearch", "f1"), ("TryNextFlavor", "f2")],
)
def test_the_flavour_is_chosen_as_the_queue_says(when_can_borrow: str, want: str) -> None:
    """``Borrow`` of v1beta1 is ``MayStopSearch`` of v1beta2: the first flavour is taken, borrowed or not."""
    kueue = objects(
        cluster_queue(
            "ml",
            group(f1="2", f2="8"),
            cohortName="all",
            flavorFungibility={"whenCanBorrow": when_can_borrow},
        ),
        cluster_queue("other", group(f1="8", f2="8"), cohortName="all"),
        flavors=(flavor("f1", A100), flavor("f2", A100)),
    )
    found = forecast(kueue, "ml", 4)
    assert (found.flavor, found.borrows) == (want, want == "f1")


@pytest.mark.parametrize(
    ("strategy", "priority", "because"),
    [
        ("BestEffortFIFO", 0, ""),
        ("StrictFIFO", 0, "1 workload waits ahead in StrictFIFO order in ClusterQueue ml"),
        ("StrictFIFO", 1, ""),
    ],
)
def test_the_first_of_a_strict_queue_holds_back_other_flavours(
    strategy: str, priority: int, because: str
) -> None:
    """A workload that waits for an A100 keeps one out that would get an A40."""
    kueue = objects(
        cluster_queue("ml", group(a40="8", a100="4"), reserved={"a100": 4}, queueingStrategy=strategy),
        workloads=(workload("first", 4),),
    )
    found = forecast(kueue, "ml", 8, wanted=(wanted_model("A40"),), priority=priority)
    assert (found.fits_now, found.fits_ever, found.because) == (not because, True, because)
    assert found.flavor == (None if because else "a40")


def test_a_forecast_for_no_queue_is_told() -> None:
    """A name that is not there fits nothing."""
    assert forecast(objects(), "nope", 1).because == "ClusterQueue nope does not exist"
