"""What in a request contradicts the known GPU models; the rest a request checks by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu_models import KNOWN_MODELS, complete, suggest, wanted_model
from airflow_gpu_placement.engine.own_models import by_spelling, read_own
from airflow_gpu_placement.engine.possible import cards_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_gpu_placement.model.gpu_model import GpuModel
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.request import GpuRequest


def contradictions_of(
    request: GpuRequest, own: Sequence[GpuModel] = (), pools: Sequence[GpuPool] = ()
) -> list[str]:
    """List what can never be satisfied by any pool, each as ``gpu.field: problem; what to write instead``.

    A model that nobody knows is no contradiction: nodes may report it.

    :param own: models that the catalogue adds to the table.
    :param pools: of the catalogue, whose word for their own GPUs counts too.
    """
    spelled = by_spelling(own)
    return [
        *_cards(request, pools),
        *_memory(request, spelled, pools),
        *_runtimes(request, spelled),
        *_too_long(request, spelled),
    ]


def _cards(request: GpuRequest, pools: Sequence[GpuPool]) -> Iterable[str]:
    """Compare the models with what is asked of them, as far as all cards of all of them are known."""
    by_name = {name: cards_of(name, pools) for name in request.models}
    cards = [card for found in by_name.values() for card in found]
    names = " or ".join(by_name)
    if not by_name:
        return
    if not cards:
        instead = ", ".join(dict.fromkeys(wanted_model(name).model for name in by_name))
        yield (
            f"gpu.models: there is no {names}; write the model alone ({instead}), or what there is of it: "
            f"{_sold(by_name)}"
        )
        return
    forms, interconnect, architecture = request.form_factors, request.interconnect, request.architecture
    if forms and not any(card.may_be_mounted_as(forms) for card in cards):
        have = _all(card.gpu.form_factor for card in cards)
        yield (
            f"gpu.form_factors: {names} is never {' or '.join(forms)}; write {have}, or leave form_factors "
            "out, or name another model"
        )
    elif interconnect and not any(card.may_be_joined_by(interconnect) for card in cards):
        have = _all(card.interconnect or card.gpu.form_factor for card in cards)
        yield (
            f"gpu.interconnect: {names} is never joined by {interconnect} ({have}); leave interconnect out, "
            "or name a model on SXM boards"
        )
    if architecture and not any(card.may_be_beside(architecture) for card in cards):
        have = _all(card.architecture for card in cards)
        yield (
            f"gpu.architecture: {names} is never beside {architecture} processors; write {have}, or leave "
            "architecture out, or name another model"
        )


def _all(words: Iterable[str | None]) -> str:
    return " or ".join(sorted({word for word in words if word is not None}))


def _sold(names: Iterable[str]) -> str:
    """Name the cards of the table that have these names' models."""
    sold = []
    for model in dict.fromkeys(wanted_model(name).model for name in names):
        known = KNOWN_MODELS[model]
        sold += [f"{model}-{gb}GB" for gb in known.classes]
        if known.form_factor is not None:
            sold[-1] += f" ({known.form_factor})"
    return ", ".join(sold)


def _too_long(request: GpuRequest, own: Mapping[str, GpuModel]) -> Iterable[str]:
    """Compare the runtimes that the request gives with the time that it must be done in."""
    time = request.time
    if not time.deadline_is_hard or time.complete_within_hours is None:
        return
    given = {_model(name, own) for name in time.runtime_hours_by_model}
    runtimes = list(time.runtime_hours_by_model.values())
    if time.runtime_hours is not None:
        runtimes.append(time.runtime_hours)
    elif not request.models or not given.issuperset(_model(name, own) for name in request.models):
        return  # there are GPUs on which nobody knows the runtime
    if min(runtimes) > time.complete_within_hours:
        yield (
            f"gpu.time.complete_within_hours: the job takes at least {min(runtimes):g} h and has "
            f"{time.complete_within_hours:g} h; write more than {min(runtimes):g}, or set deadline_is_hard "
            "to false, to be told instead of refused"
        )


def _memory(request: GpuRequest, own: Mapping[str, GpuModel], pools: Sequence[GpuPool]) -> Iterable[str]:
    if request.min_memory_gb is None or not request.models:
        return
    largest = {name: _largest_gb(name, own, pools) for name in request.models}
    sizes = [size for size in largest.values() if size is not None]
    if len(sizes) == len(largest) and max(sizes) < request.min_memory_gb:
        have = ", ".join(f"{name} at most {size:g} GB" for name, size in largest.items())
        yield (
            f"gpu.min_memory_gb: {request.min_memory_gb:g} GB is more than any of the models has ({have}); "
            f"lower it to {max(sizes):g} or name a larger model"
        )


def _largest_gb(name: str, own: Mapping[str, GpuModel], pools: Sequence[GpuPool]) -> float | None:
    """Return the largest memory class of a model as it is named; ``None``: nobody knows it."""
    identity = complete(read_own(name, own) or wanted_model(name))
    known = KNOWN_MODELS.get(identity.model)
    of_model = None if known is None else float(max(known.classes))
    largest = identity.memory_gb or of_model
    if largest is None:
        return None
    return max(largest, *(card.gpu.memory_gb or of_model or 0.0 for card in cards_of(name, pools)), 0.0)


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
