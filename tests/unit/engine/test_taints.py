"""Tolerations cover taints by the scheduler's rule."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.taints import not_tolerated, words
from airflow_gpu_placement.model.kube import Taint, Toleration

GPU = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="nvidia.com/gpu", operator="Exists"), True, id="any value, any effect"),
        pytest.param(Toleration(key="nvidia.com/gpu", value="present"), True, id="the same value"),
        pytest.param(Toleration(key="nvidia.com/gpu", value="true"), False, id="another value"),
        pytest.param(
            Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoExecute"),
            False,
            id="another effect",
        ),
        pytest.param(Toleration(operator="Exists"), True, id="no key with Exists covers everything"),
        pytest.param(Toleration(), False, id="no key with Equal covers nothing"),
        pytest.param(
            Toleration(key="nvidia.com/gpu", operator="", value="present"), True, id="Equal is the default"
        ),
        pytest.param(
            Toleration(key="nvidia.com/gpu", operator="Gt", value="1"), False, id="an unknown operator"
        ),
        pytest.param(
            Toleration(key="nvidia.com/gpu", operator="Exists", toleration_seconds=5),
            True,
            id="for a time only",
        ),
    ],
)
def test_one_toleration_against_one_taint(toleration: Toleration, want: bool) -> None:
    """Key, operator, value and effect all count."""
    assert (not_tolerated([GPU], [toleration]) == ()) is want


def test_a_preference_keeps_nobody_out() -> None:
    """``PreferNoSchedule`` is only a wish."""
    assert not_tolerated([Taint(key="a", effect="PreferNoSchedule")], []) == ()


def test_a_taint_is_spelled_as_kubectl_spells_it() -> None:
    """The text can be pasted into a command."""
    assert words(GPU) == "nvidia.com/gpu=present:NoSchedule"
    assert words(Taint(key="a", effect="NoExecute")) == "a:NoExecute"
