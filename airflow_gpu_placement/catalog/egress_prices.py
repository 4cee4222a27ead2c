"""Published prices of moving data out of a region, for routes that the catalogue does not name.

The numbers summarise the price tables of the project skyplane at commit 4602d9c (Apache License 2.0), which
took them from the price lists of the clouds; they are list prices without discounts, of a gigabyte in the
first and dearest tier. Whoever has other prices writes them into the section ``egress``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.model.money import EgressRoute

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORIGIN = "list price of {cloud}, from skyplane 4602d9c (Apache-2.0)"
_UNKNOWN_USD = 0.12
"""For a cloud that is not in the table: the dearest common price of the others, never 0."""


class _Out(NamedTuple):
    """Prices in USD per GB out of one region.

    :param same: to another region of the same continent.
    :param other: to another continent.
    :param away: to another cloud or the internet.
    """

    same: float
    other: float
    away: float


_AWS_USUAL = _Out(0.02, 0.02, 0.09)
_AWS = {
    region: _Out(inside, inside, away)
    for region, inside, away in (
        ("af-south-1", 0.147, 0.154),
        ("ap-east-1", 0.09, 0.12),
        ("ap-northeast-1", 0.09, 0.114),
        ("ap-northeast-2", 0.08, 0.126),
        ("ap-northeast-3", 0.09, 0.114),
        ("ap-south-1", 0.086, 0.1093),
        ("ap-southeast-1", 0.09, 0.12),
        ("ap-southeast-2", 0.098, 0.114),
        ("ap-southeast-3", 0.1, 0.132),
        ("me-central-1", 0.085, 0.11),
        ("me-south-1", 0.1105, 0.117),
        ("sa-east-1", 0.138, 0.15),
        ("us-gov-east-1", 0.03, 0.155),
    )
}
_AWS_PAIRS = {("us-east-1", "us-east-2"): 0.01, ("us-east-2", "us-east-1"): 0.01}
_GCP = {
    "america": _Out(0.01, 0.08, 0.12),
    "europe": _Out(0.02, 0.08, 0.12),
    "asia": _Out(0.05, 0.08, 0.12),
}
_GCP_ELSEWHERE = _Out(0.12, 0.12, 0.12)
_AZURE = {
    "america": _Out(0.02, 0.05, 0.0875),
    "europe": _Out(0.02, 0.05, 0.0875),
    "asia": _Out(0.08, 0.12, 0.12),
}
_AZURE_ELSEWHERE = _Out(0.12, 0.12, 0.12)

_SHAPES = {
    "aws": re.compile(r"(us|eu|ap|ca|sa|me|af|il|mx)(-gov)?-[a-z]+-\d"),
    "gcp": re.compile(r"(us|europe|asia|northamerica|southamerica|australia|me|africa)-[a-z]+\d+"),
    "azure": re.compile(
        r"[a-z]*(us|europe|asia|india|korea|japan|canada|australia|uk|france|germany|sweden|norway|swiss|"
        r"italy|spain|poland|brazil|uae|africa)[a-z]*\d?"
    ),
}
"""What the names of each cloud's regions look like, where no pool says which cloud a region is of."""

_CONTINENTS = {
    "america": re.compile(r"^(us-|northamerica-)|(us|canada|mexico)"),
    "europe": re.compile(
        r"europe|^uk|^france|^germany|^sweden|^norway|^switzerland|^italy|^spain|^poland|^austria|^belgium"
    ),
    "asia": re.compile(r"asia|japan|korea|india"),
}


def cloud_of(region: str, clouds: Mapping[str, str]) -> str | None:
    """Tell which cloud a region is of.

    :param clouds: region -> cloud, as the pools say.
    :return: ``None``: nobody knows.
    """
    declared = clouds.get(region)
    if declared is not None:
        return declared.casefold()
    return next((cloud for cloud, shape in _SHAPES.items() if shape.fullmatch(region)), None)


def published_route(source: str, target: str, clouds: Mapping[str, str]) -> EgressRoute:
    """Return the published price of moving data from one region to another.

    :param clouds: region -> cloud, as the pools say.
    """
    cloud = cloud_of(source, clouds)
    prices = None if cloud is None else _prices(cloud, source)
    if prices is None:
        origin = f"default: the cloud of {source} is not in the price table"
        return EgressRoute(source=source, target=target, usd_per_gib=_UNKNOWN_USD, origin=origin)
    if cloud_of(target, clouds) != cloud:
        usd = prices.away
    elif (source, target) in _AWS_PAIRS:
        usd = _AWS_PAIRS[source, target]
    else:
        usd = prices.same if continent_of(source) == continent_of(target) else prices.other
    return EgressRoute(source=source, target=target, usd_per_gib=usd, origin=_ORIGIN.format(cloud=cloud))


def _prices(cloud: str, region: str) -> _Out | None:
    if cloud == "aws":
        return _AWS.get(region, _AWS_USUAL)
    if cloud == "gcp":
        return _GCP.get(continent_of(region), _GCP_ELSEWHERE)
    if cloud == "azure":
        return _AZURE.get(continent_of(region), _AZURE_ELSEWHERE)
    return None


def continent_of(region: str) -> str:
    """Tell on which continent a region of GCP or Azure is; ``elsewhere``: where no price table goes."""
    if re.search(r"australia|southamerica|brazil|africa|^me-|uae|qatar|israel", region):
        return "elsewhere"
    return next((name for name, shape in _CONTINENTS.items() if shape.search(region)), "elsewhere")
