"""Read what the author wrote, after rendering, into a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GROUPS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in GpuRequest.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
_COUNT = (
    "unknown field; write gpus_per_node (GPUs of each pod) and nodes (pods that start together): "
    "16 GPUs may be 2 x 8 or 1 x 16"
)


_TEXT = (
    "gpu: expected a GpuRequest or a dict, got the text {!r}; a template gives a text unless the DAG "
    "has render_template_as_native_obj=True: set it, or pass a dict with a template for each value, like "
    "gpu={{'gpus_per_node': '{{{{ params.gpus }}}}'}}"
)


def parse_request(gpu: GpuRequest | Mapping[str, Any] | str) -> GpuRequest:
    """Turn the argument ``gpu`` into a request; numbers may be texts, as rendering makes them.

    :param gpu: as rendered; a text is what a template for the whole argument becomes, and is refused.
    :raises RequestError: one line a problem: what, where, and what to write instead.
    """
    if isinstance(gpu, GpuRequest):
        return gpu
    if isinstance(gpu, str):
        raise RequestError(_TEXT.format(gpu))
    try:
        return GpuRequest.model_validate(dict(gpu))
    except ValidationError as error:
        raise RequestError("\n".join(_problems(error))) from None  # its text repeats ours
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"gpu: expected a GpuRequest or a dict like {{'gpus_per_node': 8, 'nodes': 2}}, got {gpu!r}"
        ) from error


def _problems(error: ValidationError) -> Iterable[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(("gpu", *map(str, problem["loc"])))
        if problem["type"] == "extra_forbidden":
            yield f"{where}: {_instead(problem['loc'])}"
        elif problem["type"] == "value_error":
            yield f"{where}: {problem['msg'].removeprefix('Value error, ')}"
        else:
            got = f" (got {problem['input']!r})" if problem["loc"] else ""
            yield f"{where}: {problem['msg']}{got}"


def _instead(where: tuple[int | str, ...]) -> str:
    """Name the nearest field of the same group, else the group that has a field of this name, else all."""
    name = str(where[-1])
    if name == "count":
        return _COUNT
    group: Any = GpuRequest
    for key in where[:-1]:
        group = _GROUPS.get(str(key), group)
    for outer, other in _GROUPS.items():
        if name in other.model_fields and other is not group:
            return f"unknown field; it belongs to the group {outer!r}: {outer}={{{name!r}: ...}}"
    if name in GpuRequest.model_fields:
        return f"unknown field; it belongs one level up, beside {where[0]!r}"
    return f"unknown field; {nearest(name, group.model_fields)}"
