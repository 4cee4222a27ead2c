"""What the catalogue says to one task: tenant, profile, data and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.catalog import informed, resolve
from airflow_gpu_placement.exceptions import CatalogError, RequestError
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.catalog.catalogues import one, read

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.catalog import Catalog, Resolved

TENANTS = """
tenants:
  - {name: vision, teams: [vision, robots], dags: ["vision_*"], max_priority: 5}
  - {name: speech, teams: [speech], dags: ["speech_*", "*_asr"]}
  - {name: twice, teams: [robots], dags: ["vision_asr"]}
"""
DATA = """
gpu_models: [{name: B400, memory_gb: 320, aliases: [NVIDIA-B400-HBM4]}]
profiles: [{name: night, value_of_time_usd_per_hour: 0.5}]
datasets:
  - {name: imagenet, size_gib: 150, locations: [eu-west-1]}
  - {name: laion, size_gib: 9000, locations: [eu-west-1, us-central1]}
egress:
  - {from: eu-west-1, to: "us-*", usd_per_gib: 0.3, gbps: 10, origin: our contract}
"""
POOLS = """
  - {name: b, kubernetes_conn_id: c, region: us-east-1, cloud: aws}
  - {name: d, kubernetes_conn_id: c, region: us-central1}
  - {name: e, kubernetes_conn_id: c}
"""


def catalogue(folder: Path, sections: str = "") -> Catalog:
    """Return a catalogue of four pools with some sections."""
    return read(folder, f"{one(region='eu-west-1')}{POOLS}{sections}")


def resolved(catalog: Catalog, team: str | None = None, dag_id: str = "d", **gpu: Any) -> Resolved:
    """Resolve a request with the profile cheapest."""
    profile = gpu.pop("profile", "cheapest")
    return resolve(catalog, GpuRequest(**gpu), profile=profile, dag_id=dag_id, team=team)


@pytest.mark.parametrize(
    ("team", "dag_id", "want"),
    [
        pytest.param("vision", "speech_1", "vision", id="by team, whatever the DAG is called"),
        pytest.param(None, "vision_1", "vision", id="by dag id"),
        pytest.param(None, "new_asr", "speech", id="by the second glob"),
    ],
)
def test_the_tenant_is_told_by_the_server(tmp_path: Path, team: str | None, dag_id: str, want: str) -> None:
    """The team that Airflow says; dag ids only for runs without a team."""
    tenant = resolved(catalogue(tmp_path, TENANTS), team, dag_id).setting.tenant
    assert tenant is not None
    assert tenant.name == want


@pytest.mark.parametrize(
    ("team", "dag_id", "want"),
    [
        pytest.param(
            "nobody",
            "vision_1",
            "team 'nobody' belongs to no tenant; add it to 'teams' of one of them",
            id="a team that no tenant has does not fall back to the dag id",
        ),
        pytest.param(
            None, "x", "DAG 'x' belongs to no tenant; add it to 'dags' of one of them", id="no tenant at all"
        ),
        pytest.param(
            "robots",
            "x",
            "team 'robots' belongs to vision and twice; take it out of all of them but one",
            id="a team of two tenants",
        ),
        pytest.param(
            None,
            "vision_asr",
            "DAG 'vision_asr' belongs to vision and speech and twice; take it out of all of them but one",
            id="a DAG of three tenants",
        ),
    ],
)
def test_nobody_pays_by_accident(tmp_path: Path, team: str | None, dag_id: str, want: str) -> None:
    """Where it is not clear who pays, nothing runs, and the message says what to change."""
    with pytest.raises(CatalogError) as caught:
        resolved(catalogue(tmp_path, TENANTS), team, dag_id)
    assert caught.value.problems == (f"{tmp_path / 'gpu.yaml'}:tenants: {want}",)


def test_without_tenants_nothing_is_limited(tmp_path: Path) -> None:
    """A catalogue need not know who pays."""
    found = resolved(catalogue(tmp_path), "vision", priority=7)
    assert (found.setting.tenant, found.request.priority, found.remarks) == (None, 7, ())


@pytest.mark.parametrize(
    ("priority", "want", "remarks"),
    [
        pytest.param(9, 5, ("priority 9 counts as 5, the most of tenant vision",), id="above the cap"),
        pytest.param(5, 5, (), id="at the cap"),
        pytest.param(-1, -1, (), id="below it"),
    ],
)
def test_a_tenant_caps_the_priority(
    tmp_path: Path, priority: int, want: int, remarks: tuple[str, ...]
) -> None:
    """An author cannot pass everybody by writing a large number, and is told so."""
    found = resolved(catalogue(tmp_path, TENANTS), "vision", priority=priority)
    assert (found.request.priority, found.remarks) == (want, remarks)


def test_a_profile_of_the_catalogue_is_found(tmp_path: Path) -> None:
    """Built-in ones are there too."""
    catalog = catalogue(tmp_path, DATA)
    assert resolved(catalog, profile="night").setting.profile.value_of_time_usd_per_hour == 0.5
    assert resolved(catalog, profile="fastest").setting.profile.value_of_time_usd_per_hour == 1000


def test_everything_that_an_author_named_wrongly_is_told(tmp_path: Path) -> None:
    """All at once, each with the nearest name."""
    with pytest.raises(RequestError) as caught:
        resolved(
            catalogue(tmp_path, DATA), profile="cheepest", data="imagnet, x", models="L4", min_memory_gb=80
        )
    assert str(caught.value).splitlines() == [
        "gpu.min_memory_gb: 80 GB is more than any of the models has (L4 at most 24 GB); lower it to 24 or "
        "name a larger model",
        "profile: there is no profile 'cheepest'; did you mean 'cheapest'?",
        "gpu.data: there is no dataset 'imagnet'; did you mean 'imagenet'?",
        "gpu.data: there is no dataset 'x'; one of: imagenet, laion",
    ]


def test_models_of_the_catalogue_get_their_names(tmp_path: Path) -> None:
    """The decision compares names, so that an alias must be its name by then."""
    assert resolved(catalogue(tmp_path, DATA), models="nvidia-b400-hbm4").request.models == ("B400",)


def test_each_way_that_data_may_go_has_a_price(tmp_path: Path) -> None:
    """From each place of the data to each other region with a pool: our own price, else published."""
    setting = resolved(catalogue(tmp_path, DATA), data="laion").setting
    assert list(setting.datasets) == ["laion"]
    assert [(route.source, route.target, route.usd_per_gib, route.gbps) for route in setting.egress] == [
        ("eu-west-1", "unknown", 0.09, 5),
        ("eu-west-1", "us-central1", 0.3, 10),
        ("eu-west-1", "us-east-1", 0.3, 10),
        ("us-central1", "eu-west-1", 0.12, 5),
        ("us-central1", "unknown", 0.12, 5),
        ("us-central1", "us-east-1", 0.12, 5),
    ]
    assert {route.origin for route in setting.egress} == {
        "our contract",
        "list price of aws, from skyplane 4602d9c (Apache-2.0)",
        "list price of gcp, from skyplane 4602d9c (Apache-2.0)",
    }


def test_a_checkpoint_is_data_too(tmp_path: Path) -> None:
    """Where the newest one is, ways begin as well."""
    catalog = catalogue(tmp_path, DATA)
    before = resolved(catalog).setting
    after = informed(catalog, before, Knowledge(checkpoint_region="us-east-1"))
    assert before.egress == ()
    assert [(route.source, route.target) for route in after.egress] == [
        ("us-east-1", "eu-west-1"),
        ("us-east-1", "unknown"),
        ("us-east-1", "us-central1"),
    ]
    assert after.knowledge.checkpoint_region == "us-east-1"
