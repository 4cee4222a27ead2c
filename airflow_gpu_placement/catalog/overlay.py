"""Several catalogue files laid over one another, with memory of which file said what."""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow_gpu_placement.catalog.pools import laid_over

_BY_NAME = ("pools", "profiles", "tenants", "datasets", "gpu_models")
"""Lists whose entries are told apart by their names."""


class Layer(NamedTuple):
    """One file that was parsed."""

    file: str
    document: Any


class Merged(NamedTuple):
    """All layers as one document.

    :param origins: path in it -> the file that said it and the path there.
    :param file: the undermost file, for what no file said.
    """

    document: Any
    origins: dict[str, tuple[str, str]]
    file: str

    def locate(self, path: str) -> tuple[str, str]:
        """Name the file that a path of the merged document is in, and the path there."""
        known = path
        while known and known not in self.origins:
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        if not known:
            return self.file, path
        file, there = self.origins[known]
        return file, there + path[len(known) :]


def merge(layers: list[Layer]) -> Merged:
    """Lay each layer over those before it.

    Entries with the same name become one; of a pool ``gpu``, ``node_selector``, ``network`` and ``kueue`` are
    added to key by key, any other value is replaced. Routes of an upper layer are looked at first.
    """
    merged = Merged({}, {}, layers[0].file)
    for layer in layers:
        if not isinstance(layer.document, dict):
            return Merged(layer.document, {}, layer.file)
        for key, value in layer.document.items():
            _lay(merged, key, value, layer.file)
    return merged


def _lay(merged: Merged, key: Any, value: Any, file: str) -> None:
    document, path = merged.document, str(key)
    below = document.get(key)
    if key in _BY_NAME and isinstance(below, list) and isinstance(value, list):
        _lay_entries(merged, path, below, value, file)
    elif key == "egress" and isinstance(below, list) and isinstance(value, list):
        _lay_routes(merged, below, value, file)
    elif key == "defaults" and isinstance(below, dict) and isinstance(value, dict):
        document[key] = laid_over(below, value)
        _note_inside(merged.origins, path, path, value, file)
    else:
        document[key] = list(value) if isinstance(value, list) else value
        _note(merged.origins, path, path, value, file)


def _lay_entries(merged: Merged, path: str, below: list[Any], above: list[Any], file: str) -> None:
    places = {entry.get("name"): index for index, entry in enumerate(below) if isinstance(entry, dict)}
    for index, entry in enumerate(above):
        there = f"{path}[{index}]"
        name = entry.get("name") if isinstance(entry, dict) else None
        known = places.get(name) if isinstance(name, str) else None
        if known is None:
            below.append(entry)
            _note(merged.origins, f"{path}[{len(below) - 1}]", there, entry, file)
        else:
            below[known] = laid_over(below[known], entry)
            _note_inside(merged.origins, f"{path}[{known}]", there, entry, file)


def _lay_routes(merged: Merged, below: list[Any], above: list[Any], file: str) -> None:
    pairs = [_pair(route) for route in above]
    kept = [(route, f"egress[{index}]") for index, route in enumerate(below) if _pair(route) not in pairs]
    origins = {there: merged.locate(there) for _, there in kept}
    for path in [path for path in merged.origins if path.startswith("egress")]:
        del merged.origins[path]
    _note(merged.origins, "egress", "egress", above, file)
    for place, (route, there) in enumerate(kept, start=len(above)):
        from_file, from_path = origins[there]
        _note(merged.origins, f"egress[{place}]", from_path, route, from_file)
    merged.document["egress"] = [*above, *(route for route, _ in kept)]


def _pair(route: Any) -> tuple[Any, Any] | None:
    if not isinstance(route, dict):
        return None
    return str(route.get("from")), str(route.get("to"))


def _note(origins: dict[str, tuple[str, str]], path: str, there: str, value: Any, file: str) -> None:
    origins[path] = file, there
    _note_inside(origins, path, there, value, file)


def _note_inside(origins: dict[str, tuple[str, str]], path: str, there: str, value: Any, file: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _note(origins, f"{path}.{key}", f"{there}.{key}", inner, file)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _note(origins, f"{path}[{index}]", f"{there}[{index}]", inner, file)
