"""Where a cost takes its rates and times from: given, learnt, or a default."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.pool import CapacityType, Execution, KueueQueue
from airflow_gpu_placement.model.signals import QuotaSignals
from tests.unit.engine.costing import GROWS, cost, hours


@pytest.mark.parametrize(
    ("knowledge", "prior", "want"),
    [
        pytest.param(Knowledge(), None, (2e-3, "default"), id="nothing is known"),
        pytest.param(Knowledge(), 0.5, (0.5, "prior"), id="the catalogue knows"),
        pytest.param(
            Knowledge(interruptions_per_gpu_hour={"p": Estimate(value=0.1, source="history(3)")}),
            0.5,
            (0.1, "history(3)"),
            id="it was seen",
        ),
    ],
)
def test_the_interruption_rate_has_a_source(
    knowledge: Knowledge, prior: float | None, want: tuple[float, str]
) -> None:
    """What was learnt, else the catalogue's prior, else that of the kind of capacity."""
    found = cost(
        hours(1),
        setting=Setting(knowledge=knowledge),
        capacity_type=CapacityType.SPOT,
        interruptions_per_gpu_hour=prior,
    )
    rate = found.estimates["interruptions_per_gpu_hour"]
    assert (rate.value, rate.source) == want


LEARNT = Knowledge(
    runtime_hours={
        "H100": Estimate(value=3.0, source="history(4)"),
        "*": Estimate(value=5.0, source="history(9)"),
    }
)


@pytest.mark.parametrize(
    ("time", "knowledge", "want"),
    [
        pytest.param(
            {"runtime_hours_by_model": {"NVIDIA H100": 2}, "runtime_hours": 9},
            LEARNT,
            (2, "given"),
            id="model",
        ),
        pytest.param(
            {"runtime_hours_by_model": {"A100": 2}, "runtime_hours": 9}, LEARNT, (9, "given"), id="any"
        ),
        pytest.param(
            {"runtime_hours_by_model": {"A100": 2}}, LEARNT, (3, "history(4)"), id="learnt for the model"
        ),
        pytest.param(
            {},
            Knowledge(runtime_hours={"*": LEARNT.runtime_hours["*"]}),
            (5, "history(9)"),
            id="learnt for any",
        ),
        pytest.param({}, Knowledge(), (1, "default"), id="nothing is known"),
    ],
)
def test_the_runtime_has_a_source(
    time: dict[str, Any], knowledge: Knowledge, want: tuple[float, str]
) -> None:
    """The author's word, else what was learnt, else a default."""
    found = cost({"gpus_per_node": 8, "time": time}, setting=Setting(knowledge=knowledge))
    runtime = found.estimates["runtime_hours"]
    assert (runtime.value, runtime.source) == want


QUEUE = {"local_queue": "lq", "cluster_queue": "cq", "flavor": "f", "available": 8, "potential": 8}


def by_queue(**quota: Any) -> dict[str, Any]:
    """Return the fields of a pool behind a queue."""
    return {
        "execution": Execution.KUEUE,
        "kueue": KueueQueue(local_queues={"*": "lq"}),
        "seen_as": {"quota": {"lq": QuotaSignals(**{**QUEUE, **quota})}},
    }


WAITED = Knowledge(wait_seconds={"p": Estimate(value=1800.0, source="history(6)")})


@pytest.mark.parametrize(
    ("fields", "knowledge", "want"),
    [
        pytest.param({}, Knowledge(), (0, "observed"), id="free now"),
        pytest.param({}, WAITED, (0, "observed"), id="free now, whatever it was before"),
        pytest.param({**GROWS, "nodes": []}, Knowledge(), (0.2, "prior"), id="it has to grow"),
        pytest.param(
            {**GROWS, "nodes": []}, WAITED, (0.5, "history(6)"), id="growing was seen to take longer"
        ),
        pytest.param(by_queue(), Knowledge(), (0, "observed"), id="nobody is ahead"),
        pytest.param(
            by_queue(pending_ahead=2, wait_seconds=360.0), Knowledge(), (0.1, "observed"), id="behind two"
        ),
        pytest.param(by_queue(pending_ahead=2), Knowledge(), (0.5, "default"), id="unknown is never 0"),
        pytest.param(by_queue(pending_ahead=2), WAITED, (0.5, "history(6)"), id="as long as before"),
    ],
)
def test_the_wait_is_0_only_when_the_gpus_are_free(
    fields: dict[str, Any], knowledge: Knowledge, want: tuple[float, str]
) -> None:
    """Growing takes time, so does a queue; what is unknown is not nothing."""
    found = cost(hours(1), setting=Setting(knowledge=knowledge), **fields)
    wait = found.estimates["wait_hours"]
    assert (round(wait.value, 6), wait.source) == want
    assert found.finish_hours == pytest.approx(found.wait_hours + 1)
