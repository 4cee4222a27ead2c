"""What to write instead, put into the errors of a request that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from airflow_gpu_placement.model.nearest import nearest

if TYPE_CHECKING:
    from pydantic import ModelWrapValidatorHandler
    from pydantic_core import ErrorDetails

EXPLAINED = "explained"
"""Type of an error whose message says what to write instead."""

_COUNT = (
    "unknown field; write gpus_per_node (GPUs of each pod) and nodes (pods that start together): "
    "16 GPUs may be 2 x 8 or 1 x 16"
)
_Model = TypeVar("_Model", bound=BaseModel)


def explain(cls: type[_Model], value: Any, read: ModelWrapValidatorHandler[_Model]) -> _Model:
    """Read a request; the errors of one that is wrong name what was meant, whoever reads it."""
    try:
        return read(value)
    except ValidationError as error:
        problems = [_explained(one, cls) for one in error.errors(include_url=False)]
        raise ValidationError.from_exception_data(error.title, problems) from None  # it says the same


def _explained(error: ErrorDetails, model: type[BaseModel]) -> InitErrorDetails:
    where = error["loc"]
    kind: str | PydanticCustomError = error["type"]
    if kind == "extra_forbidden":
        kind = PydanticCustomError(EXPLAINED, _instead(where, model))
    elif kind == "model_type" and where and (group := _groups(model).get(str(where[-1]))) is not None:
        names = ", ".join(group.model_fields)
        wanted = f"must be a dict with some of {names}; leave it out to ask for nothing"
        kind = PydanticCustomError(EXPLAINED, wanted)
    return InitErrorDetails(type=kind, loc=where, input=error["input"], ctx=error.get("ctx", {}))


def _groups(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {
        name: field.annotation
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


def _instead(where: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """Name the nearest field of the same group, else the group that has a field of this name, else all."""
    name = str(where[-1])
    if name == "count":
        return _COUNT
    groups = _groups(model)
    group = model
    for key in where[:-1]:
        group = groups.get(str(key), group)
    for outer, other in groups.items():
        if name in other.model_fields and other is not group:
            return f"unknown field; it belongs to the group {outer!r}: {outer}={{{name!r}: ...}}"
    if name in model.model_fields and group is not model:
        return f"unknown field; it belongs one level up, beside {where[0]!r}"
    return f"unknown field; {nearest(name, group.model_fields)}"
