"""A pod tells its own place in its gang; nothing else need have been seen yet."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.ranks import index_of, rank_of
from airflow_gpu_placement.model.kube import ObjectMeta, Pod

INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.mark.parametrize(
    ("metadata", "want_index", "want_rank"),
    [
        pytest.param(ObjectMeta(annotations={INDEX: "3"}), 3, 3, id="annotation of an Indexed Job"),
        pytest.param(ObjectMeta(labels={INDEX: "0"}), 0, 0, id="label of an Indexed Job"),
        pytest.param(ObjectMeta(), None, 0, id="the only pod of a Job without indexes"),
        pytest.param(ObjectMeta(labels={INDEX: "x"}), None, 0, id="no number"),
    ],
)
def test_the_index_is_read_from_the_pod(metadata: ObjectMeta, want_index: int | None, want_rank: int) -> None:
    """Ranks are prefixed in the log only where there are several."""
    pod = Pod(metadata=metadata)

    assert (index_of(pod), rank_of(pod)) == (want_index, want_rank)
