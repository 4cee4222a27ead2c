"""Read what the author wrote, after rendering, into a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.explained import EXPLAINED
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHOWN = 80
"""Characters of a wrong value that a message has."""

_TEXT = (
    "gpu: expected a GpuRequest or a dict, got the text {}; a template gives a text unless the DAG "
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
        raise RequestError(_TEXT.format(_shortened(gpu)))
    try:
        return GpuRequest.model_validate(dict(gpu))
    except ValidationError as error:
        raise RequestError("\n".join(_problems(error))) from None  # its text repeats ours
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"gpu: expected a GpuRequest or a dict like {{'gpus_per_node': 8, 'nodes': 2}}, "
            f"got {_shortened(gpu)}"
        ) from error


def _problems(error: ValidationError) -> Iterable[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(("gpu", *map(str, problem["loc"])))
        if problem["type"] in {"value_error", EXPLAINED}:
            yield f"{where}: {problem['msg'].removeprefix('Value error, ')}"
        else:
            got = f" (got {_shortened(problem['input'])})" if problem["loc"] else ""
            yield f"{where}: {problem['msg']}{got}"


def _shortened(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes neither very long numbers nor very deep lists
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
