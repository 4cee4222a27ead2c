"""A container's environment: literal values, ConfigMaps, Secrets, fields of the pod, and $(VAR) expansion."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from lab.node.objects import ConfigProblem, need, need_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.node.objects import Objects, Reference

HOST_IP = "127.0.0.1"
_VARIABLE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([a-zA-Z]*)")
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SUFFIXES |= {f"{letter}i": 2.0 ** (10 * (power + 1)) for power, letter in enumerate("KMGTPE")}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by known variables and $$ by $; unknown names stay as they are written."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        return variables.get(name, match.group(0))

    return _VARIABLE.sub(replacement, text)


def references(container: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the ConfigMaps and Secrets that a container's environment needs."""
    for source in container.get("envFrom") or ():
        if "configMapRef" in source:
            yield "configmap", source["configMapRef"]["name"]
        if "secretRef" in source:
            yield "secret", source["secretRef"]["name"]
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        if "configMapKeyRef" in origin:
            yield "configmap", origin["configMapKeyRef"]["name"]
        if "secretKeyRef" in origin:
            yield "secret", origin["secretKeyRef"]["name"]


def build_env(
    pod: Mapping[str, Any], container: Mapping[str, Any], objects: Objects, allocatable: Mapping[str, str]
) -> dict[str, str]:
    """Resolve the variables that the pod's author asked for, in the order in which a kubelet does."""
    result: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for kind, word in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if word in source:
                selector = source[word]
                content = need(objects, kind, selector["name"], optional=bool(selector.get("optional")))
                prefix = source.get("prefix", "")
                result |= {
                    prefix + key: value.decode(errors="replace") for key, value in (content or {}).items()
                }
    for variable in container.get("env") or ():
        if "valueFrom" in variable:
            value = _value_from(variable["valueFrom"], pod, container, objects, allocatable)
        else:
            value = expand(variable.get("value", ""), result)
        if value is not None:
            result[variable["name"]] = value
    return result


def _value_from(
    origin: Mapping[str, Any],
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    objects: Objects,
    allocatable: Mapping[str, str],
) -> str | None:
    for kind, word in (("configmap", "configMapKeyRef"), ("secret", "secretKeyRef")):
        if word in origin:
            content = need_key(objects, kind, origin[word], pod["metadata"]["namespace"])
            return None if content is None else content.decode(errors="replace")
    if "fieldRef" in origin:
        return field(pod, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        return resource(pod, container, origin["resourceFieldRef"], allocatable)
    raise ConfigProblem(f"the lab's nodes have no variables from {', '.join(origin)}")


def field(pod: Mapping[str, Any], path: str) -> str:
    """Return one field of the pod, as the downward API shows it."""
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        values: Mapping[str, str] = metadata.get(subscript.group(1)) or {}
        return values.get(subscript.group(2), "")
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": HOST_IP,
        "status.hostIPs": HOST_IP,
        "status.podIP": HOST_IP,
        "status.podIPs": HOST_IP,
    }
    if path not in known:
        raise ConfigProblem(f"unsupported fieldPath: {path}")
    return str(known[path])


def quantity(text: str) -> float:
    """Return the number that a Kubernetes quantity such as 500m or 4Gi stands for."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match.group(2) not in _SUFFIXES:
        raise ValueError(f"not a quantity: {text!r}; write for example 2, 500m or 4Gi")
    return float(match.group(1)) * _SUFFIXES[match.group(2)]


def resource(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    selector: Mapping[str, Any],
    allocatable: Mapping[str, str],
) -> str:
    """Return a container's own request or limit; a limit that is not set is what the node has."""
    wanted = selector.get("containerName") or container["name"]
    owner = next((item for item in pod["spec"]["containers"] if item["name"] == wanted), container)
    side, _, name = selector["resource"].partition(".")
    values = (owner.get("resources") or {}).get(side) or {}
    text = values.get(name, allocatable.get(name, "0") if side == "limits" else "0")
    divisor = quantity(str(selector.get("divisor", "1"))) or 1.0
    return str(math.ceil(quantity(str(text)) / divisor))
