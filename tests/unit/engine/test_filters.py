"""Each reason code that the request and the pool decide: what brings it about, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, Egress
from airflow_gpu_placement.model.pool import CapacityType
from tests.unit.engine.builders import A100_40, codes, judged, seen, verdict_of

PCIE = "NVIDIA-H100-PCIe"
ONE = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}


@pytest.mark.parametrize(
    ("request_", "nodes", "fields", "want"),
    [
        pytest.param({"form_factors": ["SXM"]}, [seen()], {}, [], id="SXM"),
        pytest.param(
            {"form_factors": ["SXM"]}, [seen(product=PCIE)], {}, ["FormFactorNotOffered"], id="PCIe"
        ),
        pytest.param({"form_factors": ["NVL", "PCIe"]}, [seen(product=PCIE)], {}, [], id="any of several"),
        pytest.param({"form_factors": ["HGX"]}, [seen()], {}, [], id="a board of eight"),
        pytest.param(
            {"form_factors": ["HGX"]}, [seen(gpus=4)], {}, ["FormFactorNotOffered"], id="half a board"
        ),
        pytest.param(
            {"form_factors": ["HGX"]},
            [seen(product=PCIE)],
            {},
            ["FormFactorNotOffered"],
            id="eight PCIe cards",
        ),
        pytest.param(
            {"form_factors": ["SXM"]},
            [seen(product="NEW-9")],
            {},
            ["FormFactorNotOffered"],
            id="unknown form",
        ),
        pytest.param({"interconnect": "nvlink"}, [seen(gpus=4)], {}, [], id="SXM has NVLink"),
        pytest.param({"interconnect": "nvswitch"}, [seen()], {}, [], id="a full board has switches"),
        pytest.param(
            {"interconnect": "nvswitch"}, [seen(gpus=4)], {}, ["InterconnectNotOffered"], id="no full board"
        ),
        pytest.param(
            {"interconnect": "nvlink"},
            [seen(product=PCIE)],
            {},
            ["InterconnectNotOffered"],
            id="unknown between cards",
        ),
        pytest.param(
            {"interconnect": "nvlink"},
            [seen(product=PCIE)],
            {"interconnect": "nvlink"},
            [],
            id="bridges declared",
        ),
        pytest.param({"architecture": "amd64"}, [seen(architecture="amd64")], {}, [], id="right processor"),
        pytest.param(
            {"architecture": "amd64"}, [seen(architecture="arm64")], {}, ["ArchitectureMismatch"], id="arm64"
        ),
        pytest.param(
            {"architecture": "amd64"}, [seen()], {}, ["ArchitectureMismatch"], id="unknown processor"
        ),
        pytest.param(
            {"architecture": "amd64"}, [seen()], {"architecture": "amd64"}, [], id="processor declared"
        ),
        pytest.param(
            {"models": ["H100"], "architecture": "amd64"},
            [seen("a", architecture="arm64"), seen("b", product=A100_40, architecture="amd64")],
            {},
            ["ArchitectureMismatch"],
            id="two nodes with half of it each",
        ),
        pytest.param(
            {"min_memory_gb": 80, "architecture": "amd64", "gpus_per_node": 4},
            [seen("a", gpus=4, architecture="amd64"), seen("b", architecture="arm64")],
            {},
            [],
            id="only nodes with all of it count",
        ),
        pytest.param(
            {"min_memory_gb": 80, "architecture": "amd64", "gpus_per_node": 8},
            [seen("a", gpus=4, architecture="amd64"), seen("b", architecture="arm64")],
            {},
            ["ExceedsPoolSize", "InsufficientFreeGpus"],
            id="nodes of another architecture do not count",
        ),
        pytest.param(
            {"where": {"capacity_types": ["spot"]}}, [seen()], {}, ["CapacityTypeNotAllowed"], id="no spot"
        ),
        pytest.param(
            {"where": {"capacity_types": ["spot"]}},
            [seen()],
            {"capacity_type": CapacityType.SPOT},
            [],
            id="spot",
        ),
        pytest.param({"where": {"regions": ["eu"]}}, [seen()], {"region": "eu"}, [], id="region"),
        pytest.param(
            {"where": {"regions": ["eu"]}}, [seen()], {"region": "us"}, ["RegionNotAllowed"], id="abroad"
        ),
        pytest.param({"where": {"regions": ["eu"]}}, [seen()], {}, ["RegionNotAllowed"], id="nowhere known"),
        pytest.param(
            {"where": {"denied_regions": ["us"]}},
            [seen()],
            {"region": "us"},
            ["RegionNotAllowed"],
            id="denied",
        ),
        pytest.param(
            {"where": {"denied_regions": ["us"]}}, [seen()], {}, ["RegionNotAllowed"], id="perhaps denied"
        ),
        pytest.param({"where": {"denied_regions": ["us"]}}, [seen()], {"region": "eu"}, [], id="not denied"),
        pytest.param(
            {"price_cap_usd_per_gpu_hour": 2},
            [seen()],
            {"gpu_hour_usd": 2.5},
            ["PriceCapExceeded"],
            id="too dear",
        ),
        pytest.param({"price_cap_usd_per_gpu_hour": 2}, [seen()], {"gpu_hour_usd": 2.0}, [], id="at the cap"),
        pytest.param(
            {"price_cap_usd_per_gpu_hour": 2}, [seen()], {}, ["PriceUnknown"], id="no price under a cap"
        ),
        pytest.param({}, [seen()], {}, [], id="no price and no cap"),
    ],
)
def test_what_the_request_asks_of_a_pool(
    request_: dict[str, Any], nodes: list[Any], fields: dict[str, Any], want: list[str]
) -> None:
    """One need at a time; what nothing tells is never enough."""
    assert codes(judged(request_, *nodes, **fields)) == want


HERE = Dataset(name="d", size_gib=1, locations=("eu",), egress=Egress.DENY)
EUROPE = Dataset(name="d", size_gib=1, locations=("eu",), residency=("eu-2",))


@pytest.mark.parametrize(
    ("dataset", "region", "want"),
    [
        pytest.param(HERE, "eu", [], id="where it is"),
        pytest.param(HERE, "us", ["EgressDenied"], id="it may not leave"),
        pytest.param(HERE, None, ["EgressDenied"], id="who knows where"),
        pytest.param(EUROPE, "eu-2", [], id="where it may be"),
        pytest.param(EUROPE, "us", ["EgressDenied"], id="where it may not be"),
        pytest.param(Dataset(name="d", size_gib=1, locations=("eu",)), "us", [], id="it may go anywhere"),
        pytest.param(None, "eu", ["EgressDenied"], id="nobody described it"),
    ],
)
def test_data_decides_where_a_job_may_run(
    dataset: Dataset | None, region: str | None, want: list[str]
) -> None:
    """Before any price: a free pool abroad is no choice for data that must stay."""
    setting = Setting(datasets={"d": dataset} if dataset else {})
    decision = judged({"data": ["d"]}, setting=setting, region=region, gpu_hour_usd=0.0)
    assert codes(decision) == want


def test_old_signals_are_unknown() -> None:
    """They refuse their pool, and no free GPU is told of it."""
    decision = judged(ONE, seen_as={"age_seconds": 121})
    assert codes(decision) == ["SignalsTooOld"]
    assert verdict_of(decision).free_gpus is None
    assert codes(judged(ONE, seen_as={"age_seconds": 121}, max_signal_age_seconds=300)) == []


def test_history_rules_out_pools_and_processors() -> None:
    """What an earlier try showed to be impossible is not tried again."""
    ruled_out = History(excluded_pools={"p": "ImagePullFailed"})
    assert codes(judged(ONE, history=ruled_out)) == ["ExcludedByHistory"]
    wrong = History(excluded_architectures={"arm64": "ExecFormatError in pool x"})
    assert codes(judged(ONE, seen(architecture="arm64"), history=wrong)) == ["ArchitectureMismatch"]
    assert codes(judged(ONE, seen(architecture="amd64"), history=wrong)) == []


def test_all_filters_are_asked() -> None:
    """A pool is told everything at once, the worst first."""
    request = {
        **GANG,
        "models": ["A100"],
        "where": {"regions": ["eu"], "capacity_types": ["spot"]},
        "price_cap_usd_per_gpu_hour": 1,
    }
    decision = judged(request, seen(used=8), setting=Setting(profile=BUILT_IN_PROFILES[1]), gpu_hour_usd=2.0)
    assert codes(decision) == [
        "GpuModelNotOffered",
        "ExceedsPoolSize",
        "RegionNotAllowed",
        "CapacityTypeNotAllowed",
        "PriceCapExceeded",
        "InsufficientFreeGpus",
    ]
