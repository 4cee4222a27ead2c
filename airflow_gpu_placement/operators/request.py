"""Read what the author wrote, after rendering, into a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MODELS = {"checkpoint": GpuRequest.model_fields["checkpoint"].annotation}


def parse_request(gpu: GpuRequest | Mapping[str, Any]) -> GpuRequest:
    """Turn the argument ``gpu`` into a request; numbers may be texts, as rendering makes them.

    :raises RequestError: one line a problem: what, where, and what to write instead.
    """
    if isinstance(gpu, GpuRequest):
        return gpu
    try:
        return GpuRequest.model_validate(dict(gpu))
    except ValidationError as error:
        raise RequestError("\n".join(_problems(error))) from error
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"gpu: expected a GpuRequest or a dict like {{'gpus_per_node': 8, 'nodes': 2}}, got {gpu!r}"
        ) from error


def _problems(error: ValidationError) -> Iterable[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(("gpu", *map(str, problem["loc"])))
        if problem["type"] == "extra_forbidden":
            yield f"{where}: unknown field; {_instead(problem['loc'])}"
        else:
            got = f" (got {problem['input']!r})" if problem["loc"] else ""
            yield f"{where}: {problem['msg'].removeprefix('Value error, ')}{got}"


def _instead(where: tuple[int | str, ...]) -> str:
    """Name the nearest field, or all of them."""
    group: Any = GpuRequest
    for key in where[:-1]:
        group = _MODELS.get(str(key), group)
    return nearest(str(where[-1]), group.model_fields)
