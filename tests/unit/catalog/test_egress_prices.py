"""Published prices of moving data."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.catalog.egress_prices import cloud_of, published_route


@pytest.mark.parametrize(
    ("source", "target", "want"),
    [
        pytest.param("us-east-1", "us-east-2", 0.01, id="AWS: the two neighbours"),
        pytest.param("us-east-1", "eu-west-1", 0.02, id="AWS: to another region"),
        pytest.param("sa-east-1", "us-east-1", 0.138, id="AWS: out of a dear region"),
        pytest.param("us-gov-east-1", "us-east-1", 0.03, id="AWS: out of the government's"),
        pytest.param("us-east-1", "us-central1", 0.09, id="AWS: to another cloud"),
        pytest.param("us-central1", "us-east4", 0.01, id="GCP: on the same continent"),
        pytest.param("us-central1", "europe-west4", 0.08, id="GCP: to another continent"),
        pytest.param("europe-west4", "westeurope", 0.12, id="GCP: to another cloud"),
        pytest.param("australia-southeast1", "us-central1", 0.12, id="GCP: from where no price is known"),
        pytest.param("westeurope", "northeurope", 0.02, id="Azure: on the same continent"),
        pytest.param("eastus", "westeurope", 0.05, id="Azure: to another continent"),
        pytest.param("southeastasia", "japaneast", 0.08, id="Azure: in Asia"),
        pytest.param("eastus", "us-east-1", 0.0875, id="Azure: to another cloud"),
        pytest.param("cellar", "us-east-1", 0.12, id="a place that is no cloud's: the dearest, never 0"),
    ],
)
def test_a_route_has_the_published_price(source: str, target: str, want: float) -> None:
    """The price is that of the region where the data leaves."""
    route = published_route(source, target, {})
    assert (route.source, route.target, route.usd_per_gib) == (source, target, want)


def test_every_price_names_its_source() -> None:
    """A person can look it up, and sees when there was none."""
    assert (
        published_route("us-east-1", "x", {}).origin
        == "list price of aws, from skyplane 4602d9c (Apache-2.0)"
    )
    assert published_route("cellar", "x", {}).origin == (
        "default: the cloud of cellar is not in the price table"
    )


@pytest.mark.parametrize(
    ("region", "clouds", "want"),
    [
        pytest.param("eu-west-1", {}, "aws", id="AWS by the shape of the name"),
        pytest.param("us-west4", {}, "gcp", id="GCP by the shape of the name"),
        pytest.param("germanywestcentral", {}, "azure", id="Azure by the shape of the name"),
        pytest.param("eu-west-1", {"eu-west-1": "Nebius"}, "nebius", id="a pool's own word comes first"),
        pytest.param("cellar", {}, None, id="nobody knows"),
    ],
)
def test_the_cloud_of_a_region_is_told(region: str, clouds: dict[str, str], want: str | None) -> None:
    """By what the pools say, else by what regions of the large clouds look like."""
    assert cloud_of(region, clouds) == want
