"""The section ``gpu_models``: models that are newer or rarer than the table of this release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.catalog.reader import Key, Keys, Reader, named
from airflow_gpu_placement.engine.gpu_models import normalised, read_model
from airflow_gpu_placement.model.gpu_model import GpuModel
from airflow_gpu_placement.model.words import FORM_FACTORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.catalog.problems import Problems

MODEL_KEYS: Keys = {
    "name": Key(read.name, "What requests and pools name.", needed="a GPU model needs a name"),
    "memory_gb": Key(
        read.number(above=0), "Marketed memory class in GB.", needed="requests ask for memory by it"
    ),
    "form_factor": Key(
        read.optional(read.word("form factor", *FORM_FACTORS)),
        f"Where there is only one: {', '.join(FORM_FACTORS)}.",
        "read from the nodes",
    ),
    "aliases": Key(
        read.many(read.text), "Product names that real nodes report, such as `NVIDIA-B400-HBM4`.", "none"
    ),
}

_entries = named("GPU model", MODEL_KEYS)


def _models(value: Any, path: str, problems: Problems) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _entries(value, path, problems)
    places = {
        entry["name"]: f"{path}[{index}]"
        for index, entry in enumerate(value if isinstance(value, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }
    taken: dict[str, str] = {}
    for values in found:
        _refuse_taken(values, places[values["name"]], taken, problems)
    return found


def _refuse_taken(values: dict[str, Any], path: str, taken: dict[str, str], problems: Problems) -> None:
    """Note a name or alias that means another model already, of this section or of the table."""
    places = [("name", values["name"])]
    places += [(f"aliases[{index}]", alias) for index, alias in enumerate(values.get("aliases", ()))]
    for key, text in places:
        known = read_model(text)
        if known is not None:
            problems.add(f"{path}.{key}", f"{text!r} is the known model {known.model}, which is not replaced")
        owner = taken.setdefault(normalised(text), values["name"])
        if owner != values["name"]:
            problems.add(f"{path}.{key}", f"{text!r} means the model {owner!r} already")


gpu_models = Reader(_models, _entries.schema)
"""Models, none of which is one of the table."""


def built_models(given: Iterable[dict[str, Any]]) -> tuple[GpuModel, ...]:
    """Build models; a name is kept in its plain spelling."""
    return tuple(GpuModel(**{**values, "name": normalised(values["name"])}) for values in given)
