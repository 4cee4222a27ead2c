"""The reference of the catalogue names everything that there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.data import DATASET_KEYS, EGRESS_KEYS
from airflow_gpu_placement.catalog.models import MODEL_KEYS
from airflow_gpu_placement.catalog.people import PROFILE_KEYS, TENANT_KEYS
from airflow_gpu_placement.catalog.pool_keys import (
    KUEUE_KEYS,
    NETWORK_KEYS,
    PRICE_KEYS,
    TOLERATION_KEYS,
    gpu_keys,
)
from airflow_gpu_placement.catalog.prices import COLUMNS, PRICE_LIST_KEYS
from airflow_gpu_placement.catalog.sections import KEYS, POOL_KEYS
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES
from airflow_gpu_placement.model.reasons import TIERS, ReasonCode, Tier
from airflow_gpu_placement.provider_info import get_provider_info
from tests.unit.catalog.test_schema import errors

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.reader import Keys

PAGE = Path(__file__).resolve().parents[3] / "docs" / "catalog.md"
TABLES: dict[str, Keys] = {
    "Sections": KEYS,
    "`pools`": POOL_KEYS,
    "`gpu`": gpu_keys({}),
    "`network`": NETWORK_KEYS,
    "`price`": PRICE_KEYS,
    "`kueue`": KUEUE_KEYS,
    "`tolerations`": TOLERATION_KEYS,
    "`profiles`": PROFILE_KEYS,
    "`tenants`": TENANT_KEYS,
    "`datasets`": DATASET_KEYS,
    "`egress`": EGRESS_KEYS,
    "`gpu_models`": MODEL_KEYS,
    "`prices`": PRICE_LIST_KEYS,
}
CONSEQUENCES = {
    Tier.MISCONFIGURED: "never, set-up",
    Tier.NEVER: "never",
    Tier.NOT_NOW: "wait",
    Tier.UNKNOWN: "unknown",
}


def rows_of(heading: str) -> list[str]:
    """Return the rows of the table below a heading."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", PAGE.read_text(), re.M | re.S)
    assert found is not None, f"no heading {heading}"
    return [line for line in found[1].splitlines() if line.startswith("| `")]


def rows_for(keys: Keys) -> list[str]:
    """Write the rows that a table of keys should have."""
    return [
        f"| `{key}` | {'**must be there**' if about.needed else about.default} | {about.meaning} |"
        for key, about in keys.items()
    ]


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_is_in_its_table(heading: str) -> None:
    """With the default and the meaning that the code has; a wrong table is replaced by these rows."""
    want = rows_for(TABLES[heading])
    assert rows_of(heading) == want, "\n".join(want)


def test_every_reason_code_is_explained() -> None:
    """In the order of the code, each with its one consequence."""
    rows = [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in rows_of("Reasons")]
    assert rows == [(f"`{code}`", CONSEQUENCES[TIERS[code]]) for code in ReasonCode]


def test_every_profile_is_explained() -> None:
    """With what an hour is worth in it."""
    rows = [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in rows_of("Built-in profiles")]
    assert rows == [
        (f"`{profile.name}`", f"{profile.value_of_time_usd_per_hour:g}") for profile in BUILT_IN_PROFILES
    ]


def test_every_column_of_a_price_list_is_named() -> None:
    """A column that is not named cannot be used."""
    text = PAGE.read_text()
    assert all(f"`{column}`" in text for column in (*COLUMNS, "price"))


def test_both_settings_are_named() -> None:
    """Where the catalogue is looked for."""
    options = get_provider_info()["config"]["gpu_placement"]["options"]
    assert all(f"`{option}`" in PAGE.read_text() for option in options if option.startswith("catalog"))


def test_the_example_of_the_page_is_a_catalogue(tmp_path: Path) -> None:
    """Whoever copies it has something that works, without a warning, in editors too."""
    (example,) = re.findall(r"```yaml\n(version: 1\n.*?)```", PAGE.read_text(), re.S)
    path = tmp_path / "gpu.yaml"
    path.write_text(example)
    document = yaml.safe_load(example)
    assert set(document) == set(KEYS) - {"prices"}
    assert load(path).warnings == ()
    assert errors(document) == []
