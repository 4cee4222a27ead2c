"""What in a request contradicts the known GPU models; the rest a request checks by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu_models import KNOWN_MODELS, complete, suggest, wanted_model
from airflow_gpu_placement.engine.own_models import by_spelling, read_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_gpu_placement.model.gpu_model import GpuModel
    from airflow_gpu_placement.model.request import GpuRequest


def contradictions_of(request: GpuRequest, own: Sequence[GpuModel] = ()) -> list[str]:
    """List what can never be satisfied by any pool, each as ``gpu.field: problem; what to write instead``.

    A model that nobody knows is no contradiction: nodes may report it.

    :param own: models that the catalogue adds to the table.
    """
    spelled = by_spelling(own)
    return [*_memory(request, spelled), *_runtimes(request, spelled)]


def _memory(request: GpuRequest, own: Mapping[str, GpuModel]) -> Iterable[str]:
    if request.min_memory_gb is None or not request.models:
        return
    largest = {name: _largest_gb(name, own) for name in request.models}
    sizes = [size for size in largest.values() if size is not None]
    if len(sizes) == len(largest) and max(sizes) < request.min_memory_gb:
        have = ", ".join(f"{name} at most {size:g} GB" for name, size in largest.items())
        yield (
            f"gpu.min_memory_gb: {request.min_memory_gb:g} GB is more than any of the models has ({have}); "
            f"lower it to {max(sizes):g} or name a larger model"
        )


def _largest_gb(name: str, own: Mapping[str, GpuModel]) -> float | None:
    """Return the largest memory class of a model as it is named; ``None``: nobody knows it."""
    identity = complete(read_own(name, own) or wanted_model(name))
    if identity.memory_gb is not None:
        return identity.memory_gb
    known = KNOWN_MODELS.get(identity.model)
    return None if known is None else float(max(known.classes))


def _runtimes(request: GpuRequest, own: Mapping[str, GpuModel]) -> Iterable[str]:
    wanted = {_model(name, own) for name in request.models}
    for name in request.time.runtime_hours_by_model:
        where = f"gpu.time.runtime_hours_by_model.{name}"
        model = _model(name, own)
        if wanted and model not in wanted:
            yield f"{where}: models does not name it; add it there, or remove this runtime"
        elif not wanted and read_own(name, own) is None:
            own_names = tuple(sorted({known.name for known in own.values()}))
            yield f"{where}: is not a known GPU model; {suggest(name, own_names)}"


def _model(name: str, own: Mapping[str, GpuModel]) -> str:
    return (read_own(name, own) or wanted_model(name)).model
