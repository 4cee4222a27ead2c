"""ConfigMaps and Secrets that pods refer to."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lab.node.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.node.api import Api

Reference = tuple[str, str]  # ("configmap" or "secret", name)
Objects = Mapping[Reference, Mapping[str, bytes] | None]  # None: the object does not exist

PLURALS = {"configmap": "configmaps", "secret": "secrets"}


class ConfigProblem(Exception):
    """A container cannot be made from what the cluster has now; it may later."""


async def fetch_objects(api: Api, namespace: str, references: Iterable[Reference]) -> Objects:
    """Read the objects that a pod refers to."""
    found: dict[Reference, Mapping[str, bytes] | None] = {}
    for kind, name in set(references):
        try:
            item = await api.get(f"/api/v1/namespaces/{namespace}/{PLURALS[kind]}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            found[kind, name] = None
        else:
            found[kind, name] = _content(kind, item)
    return found


def _content(kind: str, item: dict[str, Any]) -> dict[str, bytes]:
    encoded = item.get("data" if kind == "secret" else "binaryData") or {}
    content = {key: base64.b64decode(value) for key, value in encoded.items()}
    if kind == "configmap":
        content |= {key: value.encode() for key, value in (item.get("data") or {}).items()}
    return content


def need(objects: Objects, kind: str, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
    """Return the content of an object; None when it is optional and missing."""
    content = objects[kind, name]
    if content is None and not optional:
        raise ConfigProblem(f'{kind} "{name}" not found')
    return content


def need_key(objects: Objects, kind: str, selector: Mapping[str, Any], namespace: str) -> bytes | None:
    """Return the value under one key of an object; None when it is optional and missing."""
    name, key, optional = selector["name"], selector["key"], bool(selector.get("optional"))
    content = need(objects, kind, name, optional=optional)
    if content is None or key in content:
        return None if content is None else content[key]
    if optional:
        return None
    word = {"configmap": "ConfigMap", "secret": "Secret"}[kind]
    raise ConfigProblem(f"couldn't find key {key} in {word} {namespace}/{name}")
