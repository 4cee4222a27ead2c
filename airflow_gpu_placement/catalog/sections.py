"""A whole catalogue document: its sections, in which order they are read, and what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog import data, models, people, prices
from airflow_gpu_placement.catalog.checks import check_references, warnings_of
from airflow_gpu_placement.catalog.pool_keys import pool_keys
from airflow_gpu_placement.catalog.pools import PoolsRead, read_pools
from airflow_gpu_placement.catalog.reader import Key, Keys, Reader, Schema, fields, section_schema, shown
from airflow_gpu_placement.engine.own_models import by_spelling
from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import GpuPool

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.problems import Problems


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What the sections of a catalogue say; everything that a decision may rest on.

    :param pools: in the order of the file.
    :param profiles: the built-in ones and those of the file.
    :param egress: in the order in which they are looked at.
    :param gpu_models: models that the table of this release does not have.
    """

    pools: tuple[GpuPool, ...]
    profiles: tuple[Profile, ...] = BUILT_IN_PROFILES
    tenants: tuple[Tenant, ...] = ()
    datasets: tuple[Dataset, ...] = ()
    egress: tuple[EgressRoute, ...] = ()
    gpu_models: tuple[GpuModel, ...] = ()


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was read.

    :param files: further files that it names.
    """

    content: Content
    warnings: tuple[str, ...]
    files: tuple[str, ...]


def read_document(document: Any, problems: Problems) -> Read | None:
    """Read all sections of a document.

    :return: ``None``: a problem was noted before the sections could be compared.
    """
    top = fields(document, "", problems, KEYS)
    if not isinstance(document, dict):
        return None
    for key in ("version", "pools"):
        if key not in document:
            problems.add(key, f"is missing; {KEYS[key].needed}")
    own = models.built_models(top.get("gpu_models", ()))
    read = read_pools(document, problems, by_spelling(own)) if "pools" in document else PoolsRead()
    files = prices.files_of(top.get("prices", ()), problems.folder_of("prices"))
    lists = [found for path, given in files if (found := prices.read_list(path, given, problems)) is not None]
    if problems.found:
        return None
    content = Content(
        pools=prices.priced(read.pools, read.machine_usd, lists, problems),
        profiles=people.built_profiles(top.get("profiles", ())),
        tenants=people.built_tenants(top.get("tenants", ())),
        datasets=data.built_datasets(top.get("datasets", ())),
        egress=data.built_routes(top.get("egress", ())),
        gpu_models=own,
    )
    check_references(content.pools, content.tenants, problems)
    warnings = warnings_of(content.pools, content.datasets, problems)
    return Read(content=content, warnings=warnings, files=tuple(str(path) for path, _ in files))


def _version(value: Any, path: str, problems: Problems) -> int | None:
    if value != 1 or isinstance(value, bool):
        problems.add(path, f"must be 1, not {shown(value)}: this release reads version 1")
        return None
    return 1


def _later(schema: Schema) -> Reader:
    """Leave a section as it is: it is read once the GPU models are known."""
    return Reader(lambda value, _path, _problems: value, schema)


POOL_KEYS: Keys = pool_keys({})
DEFAULT_KEYS: Keys = {key: about for key, about in POOL_KEYS.items() if key != "name"}


def _needing(schema: Schema, *keys: str) -> Schema:
    """Say that only some keys must be there: the defaults may give the others."""
    return {**schema, "required": list(keys)}


KEYS: Keys = {
    "version": Key(Reader(_version, {"const": 1}), "Version of the format, 1.", needed="write 'version: 1'"),
    "defaults": Key(
        _later({**_needing(section_schema(DEFAULT_KEYS)), "type": ["object", "null"]}),
        "What holds for every pool that does not say otherwise.",
    ),
    "pools": Key(
        _later({"type": "array", "minItems": 1, "items": _needing(section_schema(POOL_KEYS), "name")}),
        "The GPU pools.",
        needed="list at least one pool",
    ),
    "profiles": Key(people.profiles, "Preferences that operators name.", "cheapest, balanced, fastest"),
    "tenants": Key(people.tenants, "Who pays, and for what.", "nothing is limited"),
    "datasets": Key(data.datasets, "Data that jobs read.", "none"),
    "egress": Key(
        data.egress, "Prices of moving data; the first route that matches counts.", "published list prices"
    ),
    "gpu_models": Key(models.gpu_models, "GPU models that this release does not know.", "none"),
    "prices": Key(
        prices.price_lists, "Price lists for pools without a price; the first that knows one.", "none"
    ),
}
