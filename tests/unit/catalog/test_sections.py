"""Profiles, tenants, datasets, routes and GPU models of a catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.money import Dataset, Egress, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType, DeclaredGpu
from tests.unit.catalog.catalogues import one, problems, read

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
version: 1
gpu_models:
  - {name: b400, memory_gb: 320, form_factor: sxm6, aliases: [NVIDIA-B400-HBM4]}
profiles:
  - {name: balanced, value_of_time_usd_per_hour: 25}
  - {name: night, value_of_time_usd_per_hour: 0, capacity_types: [spot], price_cap_usd_per_gpu_hour: 1.5}
tenants:
  - name: vision
    teams: [vision]
    dags: ["vision_*"]
    pools: ["onprem-*"]
    max_gpus: 64
    monthly_budget_usd: 20000
    max_priority: 5
datasets:
  - {name: imagenet, size_gib: 150, locations: [eu-west-1], egress: deny}
  - {name: laion, size_gib: 90000, locations: [eu-west-1], residency: [eu-west-1, eu-central-1]}
egress:
  - {from: eu-west-1, to: "eu-*", usd_per_gib: 0.01, gbps: 20, origin: our contract}
  - {from: "*", to: "*", usd_per_gib: 0.05}
pools:
  - {name: onprem-a, kubernetes_conn_id: c, region: eu-west-1, gpu: {model: nvidia-b400-hbm4}}
"""


def test_every_section_is_read(tmp_path: Path) -> None:
    """Each entry becomes a value that a decision can rest on; a built-in profile may be replaced."""
    catalog = read(tmp_path, FULL)

    assert catalog.gpu_models == (
        GpuModel(name="B400", memory_gb=320, form_factor="SXM", aliases=("NVIDIA-B400-HBM4",)),
    )
    assert catalog.profiles == (
        Profile(name="cheapest", value_of_time_usd_per_hour=0),
        Profile(name="balanced", value_of_time_usd_per_hour=25),
        Profile(name="fastest", value_of_time_usd_per_hour=1000),
        Profile(
            name="night",
            value_of_time_usd_per_hour=0,
            capacity_types=(CapacityType.SPOT,),
            price_cap_usd_per_gpu_hour=1.5,
        ),
    )
    assert catalog.tenants == (
        Tenant(
            name="vision",
            teams=("vision",),
            dags=("vision_*",),
            pools=("onprem-*",),
            max_gpus=64,
            monthly_budget_usd=20000,
            max_priority=5,
        ),
    )
    assert catalog.datasets == (
        Dataset(name="imagenet", size_gib=150, locations=("eu-west-1",), egress=Egress.DENY),
        Dataset(
            name="laion",
            size_gib=90000,
            locations=("eu-west-1",),
            residency=("eu-west-1", "eu-central-1"),
        ),
    )
    assert catalog.egress == (
        EgressRoute(source="eu-west-1", target="eu-*", usd_per_gib=0.01, gbps=20, origin="our contract"),
        EgressRoute(source="*", target="*", usd_per_gib=0.05, origin="catalogue"),
    )


def test_a_pool_may_have_a_model_of_the_catalogue(tmp_path: Path) -> None:
    """Its memory and form factor are then known as those of a built-in model are."""
    (pool,) = read(tmp_path, FULL).pools
    assert pool.gpu == DeclaredGpu(model="B400", memory_gb=320, form_factor="SXM")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("value_of_time_usd_per_hour: 25", "value_of_time_usd_per_hour: 26"), id="a profile"),
        pytest.param(("max_gpus: 64", "max_gpus: 65"), id="a tenant"),
        pytest.param(("size_gib: 150", "size_gib: 151"), id="a dataset"),
        pytest.param(("usd_per_gib: 0.01", "usd_per_gib: 0.02"), id="a route"),
        pytest.param(("memory_gb: 320", "memory_gb: 321"), id="a GPU model"),
    ],
)
def test_the_hash_is_of_every_section(tmp_path: Path, change: tuple[str, str]) -> None:
    """Two decisions with the same hash rest on the same catalogue."""
    assert read(tmp_path, FULL).hash != read(tmp_path, FULL.replace(*change)).hash


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param(
            "profiles: [{name: a, value_of_time_usd: 3}]",
            [
                "profiles[0].value_of_time_usd: is not a known key; did you mean "
                "'value_of_time_usd_per_hour'? (profile 'a')",
                "profiles[0].value_of_time_usd_per_hour: is missing; it is what tells profiles apart; 0 "
                "looks at money alone (profile 'a')",
            ],
            id="a slip in a profile",
        ),
        pytest.param(
            "profiles: {a: 3}", ["profiles: must be a list of profiles, not a mapping"], id="no list"
        ),
        pytest.param(
            "profiles: [{name: a, value_of_time_usd_per_hour: 1, capacity_types: [cheap]}]",
            [
                "profiles[0].capacity_types[0]: 'cheap' is not possible here; one of: on_demand, reserved, "
                "spot (profile 'a')"
            ],
            id="an unknown kind of capacity",
        ),
        pytest.param(
            "profiles: [{name: a, value_of_time_usd_per_hour: 1}, {name: a, value_of_time_usd_per_hour: 2}]",
            ["profiles[1].name: 'a' is the name of profiles[0] already"],
            id="a profile twice",
        ),
        pytest.param(
            "tenants: [{name: t, teams: vision}]",
            ["tenants[0].teams: must be a list, not 'vision'; write [vision] (tenant 't')"],
            id="a text for a list",
        ),
        pytest.param(
            "tenants: [{name: t, teams: [x], pools: ['gcp-*']}]",
            ["tenants[0].pools[0]: 'gcp-*' matches no pool (tenant 't')"],
            id="a glob that matches no pool",
        ),
        pytest.param(
            "tenants: [{name: t}]",
            ["tenants[0]: has neither teams nor dags, so that no task is ever its own (tenant 't')"],
            id="a tenant of nobody",
        ),
        pytest.param(
            "tenants: [{name: t, teams: [x], password: hush}]",
            [
                "tenants[0].password: secrets do not belong here; put it in the Airflow connection "
                "(tenant 't')"
            ],
            id="a secret",
        ),
        pytest.param(
            "datasets: [{name: d, size_gib: -1, locations: []}]",
            [
                "datasets[0].size_gib: must be at least 0, not -1 (dataset 'd')",
                "datasets[0].locations: must have at least 1 entry, not 0 (dataset 'd')",
            ],
            id="a dataset that is nowhere",
        ),
        pytest.param(
            "datasets: [{name: d, egress: forbid}]",
            [
                "datasets[0].egress: 'forbid' is not possible here; one of: allow, deny (dataset 'd')",
                "datasets[0].size_gib: is missing; it decides what moving costs (dataset 'd')",
                "datasets[0].locations: is missing; name the regions that have it (dataset 'd')",
            ],
            id="a dataset that is not described",
        ),
        pytest.param(
            "egress: [{from: a, to: b, usd_per_gib: 1}, {from: a, to: b, usd_per_gib: 2}]",
            ["egress[1]: is the route from a to b of egress[0] again"],
            id="a route twice",
        ),
        pytest.param(
            "egress: [{from: a, usd_per_gib: free}]",
            [
                "egress[0].usd_per_gib: must be a number, not 'free'",
                "egress[0].to: is missing; name a region, or '*' for any",
            ],
            id="a route to nowhere",
        ),
        pytest.param("egress: 5", ["egress: must be a list of routes, not 5"], id="routes that are none"),
        pytest.param(
            "gpu_models: [{name: H100, memory_gb: 80}]",
            ["gpu_models[0].name: 'H100' is the known model H100, which is not replaced"],
            id="a known model again",
        ),
        pytest.param(
            "gpu_models: [{name: X1, memory_gb: 80, aliases: [nvidia-l4]}]",
            ["gpu_models[0].aliases[0]: 'nvidia-l4' is the known model L4, which is not replaced"],
            id="a known model as an alias",
        ),
        pytest.param(
            "gpu_models: [{name: X1, memory_gb: 80}, {name: X2, memory_gb: 80, aliases: [x1]}]",
            ["gpu_models[1].aliases[0]: 'x1' means the model 'X1' already"],
            id="one alias of two models",
        ),
        pytest.param(
            "tenant: []", ["tenant: is not a known key; did you mean 'tenants'?"], id="an unknown section"
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, section: str, want: list[str]) -> None:
    """All problems of all sections at once, each with what to write instead."""
    assert problems(tmp_path, f"{one()}{section}\n") == want


def test_a_queue_of_an_unknown_tenant_is_told(tmp_path: Path) -> None:
    """A queue that nobody can ever be put into is a slip."""
    text = one(execution="kueue", kueue="{local_queues: {visoin: q}}")
    assert problems(tmp_path, f"{text}tenants: [{{name: vision, teams: [x]}}]\n") == [
        "pools[0].kueue.local_queues.visoin: 'visoin' is not a tenant (vision); '*' stands for any"
    ]


def test_data_far_from_every_pool_is_a_warning(tmp_path: Path) -> None:
    """It may be meant: the data is then moved to any pool."""
    catalog = read(tmp_path, FULL.replace("locations: [eu-west-1], egress", "locations: [us-east-1], egress"))
    assert catalog.warnings == (
        f"{tmp_path / 'gpu.yaml'}:datasets[0].locations[0]: no pool is said to be in region 'us-east-1' "
        "(dataset 'imagenet')",
    )
    assert read(tmp_path, FULL).warnings == ()
