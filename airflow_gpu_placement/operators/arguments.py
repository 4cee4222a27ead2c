"""Check what an author wrote beside the request, before anything is read or created."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_gpu_placement.engine.quantity import is_quantity
from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.launch.environment import PREFIX

if TYPE_CHECKING:
    from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator

RESUME_MODES = ("auto", "always", "never")
_AS_TEXT = (str, int, float)
"""Types that a text may have become: a DAG that renders its templates as native objects makes ``"12"`` 12."""

REPLACE: Final = "replace"
WAIT: Final = "wait"
"""Of ``on_unreachable``: nothing is launched before a node has reported the end of what ran before."""


def check_arguments(operator: GpuTrainingJobOperator) -> None:
    """Look at every rendered argument but the request, and again at the others.

    :raises RequestError: one line a problem: what, where, and what to write instead.
    """
    problems = [
        *_image(operator.image),
        *_texts("command", operator.command),
        *_texts("arguments", operator.arguments),
        *_env(operator.env),
        *resource_problems(operator.pod_resources),
        *_objects("volumes", operator.volumes),
        *_objects("volume_mounts", operator.volume_mounts),
        *_fixed(operator),
    ]
    if problems:
        raise RequestError("\n".join(problems))


def check_fixed(operator: GpuTrainingJobOperator) -> None:
    """Look at the arguments that no template changes, while the DAG is read.

    :raises RequestError: as :func:`check_arguments`.
    """
    if problems := list(_fixed(operator)):
        raise RequestError("\n".join(problems))


def _fixed(operator: GpuTrainingJobOperator) -> Iterator[str]:
    yield from _times(operator)
    if operator.resume not in RESUME_MODES:
        yield f"resume: {operator.resume!r} is none of {', '.join(RESUME_MODES)}"
    if operator.on_unreachable not in {REPLACE, WAIT}:
        yield f"on_unreachable: {operator.on_unreachable!r} is neither {REPLACE} nor {WAIT}"


def texts(values: Sequence[Any]) -> tuple[str, ...]:
    """Return checked words of a command line as the program gets them."""
    return tuple(str(one) for one in values)


def env_texts(env: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a checked environment as the program gets it."""
    return {key: str(value) for key, value in (env or {}).items()}


def _image(image: Any) -> Iterator[str]:
    if not isinstance(image, str) or not image.strip():
        yield f"image: must name a container image, not {image!r}"


def _texts(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        yield f"{name}: must be a list of texts, not {value!r}; for a shell: ['/bin/sh', '-c', '...']"
        return
    for index, one in enumerate(value):
        if not isinstance(one, _AS_TEXT):
            yield f"{name}[{index}]: must be a text, not {one!r}; write {str(one)!r}"


def _env(env: Any) -> Iterator[str]:
    if env is None:
        return
    if not isinstance(env, Mapping):
        yield f"env: must be a dict of texts, not {env!r}"
        return
    for key, value in env.items():
        if not isinstance(value, _AS_TEXT):
            yield f"env.{key}: must be a text, not {value!r}; write {str(value)!r}"
        if str(key).startswith(PREFIX):
            yield f"env.{key}: names that begin with {PREFIX} are set for the program; use another name"


def resource_problems(resources: Any) -> Iterator[str]:
    """Say what is wrong with ``pod_resources``, one line a problem."""
    if resources is None:
        return
    if not isinstance(resources, Mapping):
        yield f"pod_resources: must be a dict such as {{'cpu': '32', 'memory': '200Gi'}}, not {resources!r}"
        return
    for key, quantity in resources.items():
        if isinstance(quantity, bool) or not is_quantity(quantity):
            yield f"pod_resources.{key}: must be a quantity such as '32', '500m' or '200Gi', not {quantity!r}"
        if str(key).endswith("/gpu"):
            yield f"pod_resources.{key}: GPUs are asked for by gpu={{'gpus_per_node': ...}}"


def _objects(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        yield f"{name}: must be a list of dicts in Kubernetes form, not {value!r}"
        return
    for index, one in enumerate(value):
        if not isinstance(one, Mapping) or not one.get("name"):
            yield f"{name}[{index}]: must be a dict with a 'name', not {one!r}"


def _times(operator: GpuTrainingJobOperator) -> Iterator[str]:
    timeout: Any = operator.placement_timeout
    ttl: Any = operator.ttl_seconds_after_finished
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        yield f"placement_timeout: must be a timedelta above 0, such as timedelta(hours=6), not {timeout!r}"
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 0:
        yield f"ttl_seconds_after_finished: must be whole seconds, 0 or more, not {ttl!r}"
