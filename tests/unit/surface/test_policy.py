"""What the next try does after a failure."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import RetryAction

from airflow_gpu_placement.exceptions import (
    CatalogError,
    NoPoolFits,
    RemoteJobCancelled,
    RemoteJobLost,
    RemoteJobMisconfigured,
    RequestError,
    TrainingFailed,
)
from airflow_gpu_placement.policies.retry import GpuRetryPolicy


@pytest.mark.parametrize(
    ("error", "want_action", "want_delay"),
    [
        pytest.param(
            RemoteJobLost("x", cause="NodeLost", pool="p", retry_elsewhere=True),
            RetryAction.RETRY,
            timedelta(0),
            id="a lost job is placed elsewhere at once",
        ),
        pytest.param(
            RemoteJobLost("x", pool="p", retry_elsewhere=True, delay_seconds=30),
            RetryAction.RETRY,
            timedelta(seconds=30),
            id="the delay comes from the next step",
        ),
        pytest.param(TrainingFailed("x"), RetryAction.FAIL, None, id="a bug fails now"),
        pytest.param(RemoteJobMisconfigured("x"), RetryAction.FAIL, None, id="a wrong set-up fails now"),
        pytest.param(RemoteJobCancelled("x"), RetryAction.FAIL, None, id="a deleted job is not made again"),
        pytest.param(NoPoolFits("x"), RetryAction.FAIL, None, id="what can never fit fails now"),
        pytest.param(RequestError("x"), RetryAction.FAIL, None, id="a request that cannot be read fails now"),
        pytest.param(CatalogError(["x"]), RetryAction.DEFAULT, None, id="a broken catalogue may be mended"),
        pytest.param(OSError("x"), RetryAction.DEFAULT, None, id="anything else is Airflow's own business"),
    ],
)
def test_the_decision_follows_the_type_of_the_error(
    error: Exception, want_action: RetryAction, want_delay: timedelta | None
) -> None:
    """The type alone decides, never the text."""
    decision = GpuRetryPolicy().evaluate(error, try_number=2, max_tries=5)

    assert (decision.action, decision.retry_delay) == (want_action, want_delay)


def test_the_reason_counts_tries_not_retries() -> None:
    """With 5 retries there are 6 tries, so after the second one four are left."""
    error = RemoteJobLost("x", cause="NodeLost", pool="gke", retry_elsewhere=True)

    decision = GpuRetryPolicy().evaluate(error, try_number=2, max_tries=5)

    assert decision.reason == "NodeLost in gke: place it elsewhere now (4 tries left)"
