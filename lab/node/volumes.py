"""A pod's volumes as folders of this machine, and where each container mounts them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.node.env import expand, field
from lab.node.objects import ConfigProblem, need

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.node.objects import Objects, Reference

OWN_KINDS = ("emptyDir", "configMap", "secret", "downwardAPI", "projected")
SUPPORTED = (*OWN_KINDS, "hostPath")


@dataclass(frozen=True)
class Mount:
    """One file or folder of this machine at one path of a container."""

    source: str
    target: str
    read_only: bool = False


def kind_of(volume: Mapping[str, Any]) -> str:
    """Return the kind of a volume, e.g. emptyDir."""
    return next((key for key in volume if key != "name"), "emptyDir")


def unsupported(volumes: list[dict[str, Any]]) -> str | None:
    """Say what the lab's nodes cannot mount, or nothing."""
    for volume in volumes:
        kind = kind_of(volume)
        sources = volume[kind].get("sources") or () if kind == "projected" else ()
        missing = [key for source in sources for key in source if key not in SUPPORTED]
        if kind not in SUPPORTED or missing:
            name = missing[0] if missing else kind
            use = ", ".join(SUPPORTED)
            return f"volume {volume['name']!r}: the lab's nodes have no {name}; use one of {use}"
    return None


def references(volumes: list[dict[str, Any]]) -> Iterator[Reference]:
    """Yield the ConfigMaps and Secrets that volumes are made of."""
    for volume in volumes:
        kind = kind_of(volume)
        sources = volume[kind].get("sources") or () if kind == "projected" else ({kind: volume[kind]},)
        for source in sources:
            if "configMap" in source:
                yield "configmap", source["configMap"]["name"]
            if "secret" in source:
                yield "secret", _secret_name(source["secret"])


def _secret_name(source: Mapping[str, Any]) -> str:
    name: str = source.get("secretName") or source["name"]
    return name


def make_volumes(pod: Mapping[str, Any], objects: Objects, folder: Path) -> dict[str, Path]:
    """Make all volumes of a pod; the result names the place of each."""
    places = {}
    for volume in pod["spec"].get("volumes") or ():
        kind = kind_of(volume)
        if kind == "hostPath":
            places[volume["name"]] = _host_path(volume["name"], volume["hostPath"])
            continue
        place = folder / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        for source in volume[kind].get("sources") or () if kind == "projected" else ({kind: volume[kind]},):
            _fill(place, source, pod, objects)
        places[volume["name"]] = place
    return places


def _host_path(name: str, source: Mapping[str, Any]) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    fits = {"Directory": path.is_dir, "DirectoryOrCreate": path.is_dir, "File": path.is_file}
    fits |= {"FileOrCreate": path.is_file, "": lambda: True}
    if kind not in fits or not fits[kind]():
        raise ConfigProblem(
            f'MountVolume.SetUp failed for volume "{name}": '
            f"hostPath type check failed: {path} is not a {kind}"
        )
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)  # as container runtimes do for a bind source that is missing
    return path


def _fill(place: Path, source: Mapping[str, Any], pod: Mapping[str, Any], objects: Objects) -> None:
    """Write the files of one source of a volume."""
    for kind, word in (("configmap", "configMap"), ("secret", "secret")):
        if word in source:
            selector = source[word]
            name = selector["name"] if word == "configMap" else _secret_name(selector)
            optional = bool(selector.get("optional"))
            content = need(objects, kind, name, optional=optional) or {}
            _write_files(place, selector, content, f"{kind} {name!r}", optional=optional)
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        _write(place / item["path"], field(pod, item["fieldRef"]["fieldPath"]).encode(), item.get("mode"))


def _write_files(
    place: Path, selector: Mapping[str, Any], content: Mapping[str, bytes], name: str, *, optional: bool
) -> None:
    items = selector.get("items") or [{"key": key, "path": key} for key in content]
    for item in items:
        if item["key"] in content:
            mode = item.get("mode", selector.get("defaultMode"))
            _write(place / item["path"], content[item["key"]], mode)
        elif not optional:
            raise ConfigProblem(f"{name} has no key {item['key']!r}")


def _write(path: Path, content: bytes, mode: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(0o644 if mode is None else mode)


def container_mounts(
    container: Mapping[str, Any], places: Mapping[str, Path], env: Mapping[str, str]
) -> list[Mount]:
    """Where a container sees the pod's volumes."""
    mounts = []
    for item in container.get("volumeMounts") or ():
        source = places[item["name"]]
        below = item.get("subPath") or expand(item.get("subPathExpr", ""), env)
        if below:
            source = source / below
            if not source.exists():
                source.mkdir(parents=True)
        mounts.append(Mount(str(source), item["mountPath"], bool(item.get("readOnly"))))
    return mounts


def remove_pod_dir(folder: Path) -> None:
    """Delete all that a pod has left on this machine."""
    shutil.rmtree(folder, ignore_errors=True)
