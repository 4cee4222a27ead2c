"""What an author may write as a request, and what is said when it is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest, NetworkNeed, TimeNeed, WhereNeed
from airflow_gpu_placement.operators.request import parse_request


def test_rendered_texts_become_numbers() -> None:
    """Jinja makes texts of everything, so texts are read as numbers."""
    request = parse_request({"gpus_per_node": "8", "nodes": "2", "min_memory_gb": "80", "models": "H100"})

    assert request == GpuRequest(gpus_per_node=8, nodes=2, min_memory_gb=80, models=("H100",))
    assert request.describe() == "16 GPUs = 2 x 8 (H100, at least 80 GB)"


def test_rendered_texts_of_every_kind_are_read() -> None:
    """Flags, moments, words and lists are texts too once a template has made them."""
    request = parse_request(
        {
            "models": "['H100', 'H200']",
            "form_factors": "sxm5, HGX",
            "interconnect": "NVLink",
            "architecture": "AMD64",
            "network": {"kinds": "InfiniBand, GPUDirect-TCPX", "min_gbps": "3200", "same_zone": "true"},
            "where": {"capacity_types": "on-demand, spot", "regions": "eu-west-1,eu-west-2"},
            "data": "imagenet",
            "time": {"deadline": "2026-12-24T12:00:00Z", "deadline_is_hard": "True"},
            "priority": "5",
            "price_cap_usd_per_gpu_hour": "2.5",
        }
    )

    assert request == GpuRequest(
        models=("H100", "H200"),
        form_factors=("SXM", "HGX"),
        interconnect="nvlink",
        architecture="amd64",
        network=NetworkNeed(kinds=("infiniband", "gpudirect-tcpx"), min_gbps=3200, same_zone=True),
        where=WhereNeed(
            capacity_types=(CapacityType.ON_DEMAND, CapacityType.SPOT), regions=("eu-west-1", "eu-west-2")
        ),
        data=("imagenet",),
        time=TimeNeed(deadline=datetime(2026, 12, 24, 12, tzinfo=UTC), deadline_is_hard=True),
        priority=5,
        price_cap_usd_per_gpu_hour=2.5,
    )


def test_a_whole_request_that_became_a_text_says_how_to_keep_it_a_dict() -> None:
    """A template for the whole argument, without native rendering, makes a text of the dict."""
    with pytest.raises(RequestError, match="render_template_as_native_obj=True") as caught:
        parse_request("{'gpus_per_node': 8}")
    assert """got the text "{'gpus_per_node': 8}";""" in str(caught.value)
    assert str(caught.value).endswith("gpu={'gpus_per_node': '{{ params.gpus }}'}")


def test_an_empty_list_may_be_rendered() -> None:
    """A parameter that is an empty list asks for nothing."""
    assert parse_request({"models": "[]", "data": " () "}) == GpuRequest()


@pytest.mark.parametrize("field", ["models", "form_factors", "data"])
@pytest.mark.parametrize("empty", ["", " ", [""], [" "], "None", "['']", "a,,b", ",", "['H100', '']"])
def test_an_empty_text_is_not_taken_for_everything(field: str, empty: object) -> None:
    """A template that renders to nothing must not make any GPU or any region do."""
    with pytest.raises(
        RequestError, match=f"gpu.{field}: an empty text, or 'None', names nothing .* or write \\[\\]"
    ):
        parse_request({field: empty})


def test_a_name_counts_once() -> None:
    """Data that is named twice is neither moved nor paid for twice."""
    request = parse_request(
        {"data": ["a", "b ", "a"], "where": {"regions": "('eu',)"}, "models": "L4, T4,L4,"}
    )
    assert (request.data, request.where.regions, request.models) == (("a", "b"), ("eu",), ("L4", "T4"))


HOURS = "Input should be less than or equal to 1000000"
FINITE = "Input should be a finite number"


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        pytest.param({"time": {"complete_within_hours": "inf"}}, FINITE, id="for ever"),
        pytest.param({"time": {"complete_within_hours": 1e8}}, HOURS, id="beyond the calendar"),
        pytest.param({"time": {"runtime_hours": "1e308"}}, HOURS, id="a runtime that no cost can be told of"),
        pytest.param({"time": {"runtime_hours_by_model": {"L4": "inf"}}}, FINITE, id="on one model"),
        pytest.param({"checkpoint": {"size_gib": "inf"}}, FINITE, id="an endless checkpoint"),
        pytest.param({"checkpoint": {"interval_minutes": "inf"}}, FINITE, id="no checkpoint ever"),
        pytest.param({"network": {"min_gbps": "inf"}}, FINITE, id="bandwidth"),
        pytest.param({"min_memory_gb": "inf"}, FINITE, id="memory"),
        pytest.param({"min_memory_gb": "nan"}, FINITE, id="no number"),
        pytest.param({"price_cap_usd_per_gpu_hour": "inf"}, FINITE, id="a cap that is none"),
        pytest.param({"priority": 10**400}, "Input should be less than or equal to 1000", id="priority"),
    ],
)
def test_a_number_that_a_record_cannot_hold_is_refused(gpu: dict[str, Any], want: str) -> None:
    """JSON has no such number, and a decision must be decided the same again."""
    with pytest.raises(RequestError, match=want):
        parse_request(gpu)


@pytest.mark.parametrize("uri", ["/", "//", "s3://", "file:///", "s3:// /"])
def test_the_root_of_everything_is_no_place_for_checkpoints(uri: str) -> None:
    """Its slashes are not part of a name, so that nothing would be left of it."""
    with pytest.raises(RequestError, match="names the root of everything; write for example 's3://bucket"):
        parse_request({"checkpoint": {"uri": uri}})


def test_what_was_read_is_read_again_the_same() -> None:
    """As it is when a decision is decided again."""
    for uri in ("s3://bucket/", "/mnt/", "file:///mnt//", "gs://b/x/"):
        request = parse_request({"checkpoint": {"uri": uri}})
        assert parse_request(request.model_dump(mode="json")) == request


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        pytest.param(
            {"gpus": 8},
            "gpu.gpus: unknown field; did you mean 'gpus_per_node'?",
            id="a field that does not exist",
        ),
        pytest.param(
            {"count": 16},
            "gpu.count: unknown field; write gpus_per_node (GPUs of each pod) and nodes (pods that start "
            "together): 16 GPUs may be 2 x 8 or 1 x 16",
            id="a count of GPUs, which says nothing of nodes",
        ),
        pytest.param(
            {"checkpoint": {"url": "s3://x"}},
            "gpu.checkpoint.url: unknown field; did you mean 'uri'?",
            id="a field of a group that does not exist",
        ),
        pytest.param(
            {"network": {"min_gpbs": 8}},
            "gpu.network.min_gpbs: unknown field; did you mean 'min_gbps'?",
            id="a slip in the group network",
        ),
        pytest.param(
            {"where": {"allow_regions": ["eu"]}},
            "gpu.where.allow_regions: unknown field; did you mean 'regions'?",
            id="a slip in the group where",
        ),
        pytest.param(
            {"time": {"deadlin": "x"}},
            "gpu.time.deadlin: unknown field; did you mean 'deadline'?",
            id="a slip in the group time",
        ),
        pytest.param(
            {"deadline": "2026-12-24"},
            "gpu.deadline: unknown field; it belongs to the group 'time': time={'deadline': ...}",
            id="a field of a group beside the groups",
        ),
        pytest.param(
            {"where": {"same_zone": True}},
            "gpu.where.same_zone: unknown field; it belongs to the group 'network': "
            "network={'same_zone': ...}",
            id="a field in the wrong group",
        ),
        pytest.param(
            {"time": {"priority": 3}},
            "gpu.time.priority: unknown field; it belongs one level up, beside 'time'",
            id="a field one level too deep",
        ),
        pytest.param(
            {"checkpoint": "s3://bucket/llm"},
            "gpu.checkpoint: must be a dict with some of uri, size_gib, interval_minutes; leave it out to "
            "ask for nothing",
            id="a group that is a text",
        ),
        pytest.param(
            {"gpus_per_node": "9" * 100},
            f"gpu.gpus_per_node: Input should be less than or equal to 1024 (got '{'9' * 76}...)",
            id="a long value",
        ),
        pytest.param(
            {"gpus_per_node": 0},
            "gpu.gpus_per_node: Input should be greater than or equal to 1 (got 0)",
            id="no GPU at all",
        ),
        pytest.param(
            {"gpus_per_node": "many"},
            "gpu.gpus_per_node: Input should be a valid integer, unable to parse string as an integer "
            "(got 'many')",
            id="not a number",
        ),
        pytest.param(
            {"checkpoint": {"uri": "here"}},
            "gpu.checkpoint.uri: 'here' is neither a URL nor an absolute path; write for example "
            "'s3://bucket/prefix'",
            id="relative path",
        ),
        pytest.param(
            {"form_factors": ["SMX"]},
            "gpu.form_factors: 'SMX' is not a known form factor; did you mean 'SXM'? "
            "(one of: HGX, PCIe, SXM, NVL, OAM, APU)",
            id="an unknown form factor",
        ),
        pytest.param(
            {"interconnect": "xlink"},
            "gpu.interconnect: Input should be 'nvlink' or 'nvswitch' (got 'xlink')",
            id="an unknown interconnect",
        ),
        pytest.param(
            {"network": {"kinds": ["infinband"]}},
            "gpu.network.kinds: 'infinband' is not a known kind of network; did you mean 'infiniband'? "
            "(one of: infiniband, roce, efa, gpudirect-tcpx, gpudirect-tcpxo, gpudirect-rdma, slingshot, "
            "ethernet)",
            id="an unknown kind of network",
        ),
        pytest.param(
            {"time": {"deadline": "2026-12-24T12:00:00Z", "complete_within_hours": 3}},
            "gpu.time: deadline and complete_within_hours are both given; keep deadline for a moment, or "
            "complete_within_hours for a time counted from the first decision",
            id="two deadlines",
        ),
        pytest.param(
            {"time": {"deadline_is_hard": True}},
            "gpu.time: deadline_is_hard is given without a deadline; add deadline or complete_within_hours, "
            "or leave deadline_is_hard out",
            id="a hard deadline that is no deadline",
        ),
        pytest.param(
            {"time": {"deadline": "2026-12-24T12:00:00"}},
            "gpu.time.deadline: 2026-12-24T12:00:00 has no time zone; write a moment with its time zone, for "
            "example '2026-12-24T18:00:00+01:00', or '...Z' for UTC",
            id="a deadline at an unknown place of the earth",
        ),
        pytest.param(
            {"time": {"deadline": "2026-12-24"}},
            "gpu.time.deadline: 2026-12-24 has no time zone; write a moment with its time zone, for "
            "example '2026-12-24T18:00:00+01:00', or '...Z' for UTC",
            id="a day",
        ),
        pytest.param(
            {"time": {"deadline": "tomorrow"}},
            "gpu.time.deadline: 'tomorrow' is no moment; write a moment with its time zone, for "
            "example '2026-12-24T18:00:00+01:00', or '...Z' for UTC",
            id="a word",
        ),
        pytest.param(
            {"where": {"regions": ["eu", "us"], "denied_regions": ["us"]}},
            "gpu.where: us: allowed by regions and refused by denied_regions; regions alone is enough: every "
            "region that it does not name is refused",
            id="a region both allowed and denied",
        ),
        pytest.param(
            {"form_factors": ["NVL"], "interconnect": "nvswitch"},
            "gpu: no NVL card is behind an NVSwitch; ask for form_factors=('SXM',), or for "
            "interconnect='nvlink' (cards joined by a bridge), or leave interconnect out",
            id="a switch between cards that have none",
        ),
        pytest.param(
            8,
            "gpu: expected a GpuRequest or a dict like {'gpus_per_node': 8, 'nodes': 2}, got 8",
            id="a number",
        ),
    ],
)
def test_a_wrong_request_says_where_and_what_instead(gpu: Any, want: str) -> None:
    """The message names the field, the problem and the remedy."""
    with pytest.raises(RequestError) as caught:
        parse_request(gpu)

    assert str(caught.value) == want


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param({"form_factors": ["NVL", "SXM"], "interconnect": "nvswitch"}, id="a board among them"),
        pytest.param({"network": {"same_fabric": True}}, id="one node is always on one fabric"),
        pytest.param({"where": {"regions": ["eu"], "denied_regions": ["us"]}}, id="regions that agree"),
        pytest.param({"time": {"deadline_is_hard": True, "complete_within_hours": 3}}, id="a hard limit"),
    ],
)
def test_what_is_possible_is_accepted(gpu: dict[str, Any]) -> None:
    """Only contradictions are refused, not everything that is unusual."""
    assert parse_request(gpu).nodes == 1
