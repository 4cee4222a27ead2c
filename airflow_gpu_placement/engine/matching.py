"""Which nodes of a pool are what the request asks for, one property after the other.

Each property looks only at nodes that passed the ones before it, so that a pool is never taken for two nodes
each of which has half of what is needed. When no node passes, the next property sees all that were left:
every shortcoming of a pool is told, not only the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.engine.gpu_models import KNOWN_MODELS, may_satisfy, satisfies

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.model.pool import CapacityType, GpuIdentity, GpuPool

HGX_GPUS = 8
"""GPUs of a full SXM board."""

SWITCHED_MODELS = frozenset({"A100", "A800", "H100", "H800", "H20", "H200", "B100", "B200", "B300"})
"""Models whose full SXM boards join all GPUs through NVSwitch; older ones have a mesh of NVLinks."""

_SPEED = {"pcie": 0, "nvlink": 1, "nvswitch": 2}


class Kind(NamedTuple):
    """What nodes of a pool have in common; nodes of one kind are judged once.

    :param gpus: devices that a node has; 0: unknown.
    :param capacity_type: how it is bought.
    :param told: labels tell its GPU; else there is only the catalogue's word.
    """

    gpu: GpuIdentity | None
    architecture: str | None
    gpus: int
    capacity_type: CapacityType
    told: bool = True


class Stage(NamedTuple):
    """What one property left over.

    :param candidates: kinds that it looked at.
    :param passed: those that have the property.
    """

    candidates: tuple[Kind, ...]
    passed: tuple[Kind, ...]


def interconnect(pool: GpuPool, kind: Kind) -> str | None:
    """Return what joins the GPUs of a node: the catalogue's word, else the least that the form implies."""
    if pool.gpu.interconnect is not None:
        return pool.gpu.interconnect.lower()
    if kind.gpu is None or kind.gpu.form_factor != "SXM":
        return None
    full_board = kind.gpus >= HGX_GPUS and kind.gpu.model in SWITCHED_MODELS
    return "nvswitch" if full_board else "nvlink"


def may_be_switched(pool: GpuPool, kind: Kind) -> bool:
    """Whether nothing tells if a full board has NVSwitch: its model is not in the table."""
    if pool.gpu.interconnect is not None or kind.gpu is None or kind.gpu.form_factor != "SXM":
        return False
    return kind.gpus >= HGX_GPUS and kind.gpu.model not in KNOWN_MODELS


def has_model(question: Question, _: GpuPool, kind: Kind) -> bool:
    """Whether the request names this GPU."""
    return any(satisfies(kind.gpu, wanted) for wanted in question.wanted)


def has_memory(question: Question, _: GpuPool, kind: Kind) -> bool:
    """Whether the memory class is known and large enough."""
    least = question.request.min_memory_gb or 0.0
    return kind.gpu is not None and kind.gpu.memory_gb is not None and kind.gpu.memory_gb >= least


def has_form_factor(question: Question, _: GpuPool, kind: Kind) -> bool:
    """Whether the form factor is one of those asked for; ``HGX`` is a full board of SXM ones."""
    if kind.gpu is None or kind.gpu.form_factor is None:
        return False
    asked = question.request.form_factors
    return kind.gpu.form_factor in asked or (
        "HGX" in asked and kind.gpu.form_factor == "SXM" and kind.gpus >= HGX_GPUS
    )


def has_interconnect(question: Question, pool: GpuPool, kind: Kind) -> bool:
    """Whether the GPUs of a node are joined at least as well as asked."""
    offered = interconnect(pool, kind)
    asked = question.request.interconnect
    return offered is not None and _SPEED.get(offered, -1) >= _SPEED.get(asked or "", len(_SPEED))


def has_architecture(question: Question, _: GpuPool, kind: Kind) -> bool:
    """Whether the processors run the job's image, as its author says and as earlier attempts showed."""
    asked = question.request.architecture
    if asked is not None and kind.architecture != asked:
        return False
    return kind.architecture not in question.history.excluded_architectures


def has_capacity_type(question: Question, _: GpuPool, kind: Kind) -> bool:
    """Whether request and profile allow how it is bought."""
    return all(not allowed or kind.capacity_type in allowed for _, allowed in question.capacity_types)


def _asks_architecture(question: Question) -> bool:
    return question.request.architecture is not None or bool(question.history.excluded_architectures)


_PROPERTIES: tuple[tuple[str, Callable[[Question], bool], Callable[[Question, GpuPool, Kind], bool]], ...] = (
    ("model", lambda question: bool(question.wanted), has_model),
    ("memory", lambda question: question.request.min_memory_gb is not None, has_memory),
    ("form_factor", lambda question: bool(question.request.form_factors), has_form_factor),
    ("interconnect", lambda question: question.request.interconnect is not None, has_interconnect),
    ("architecture", _asks_architecture, has_architecture),
    ("capacity_type", lambda question: question.bounds_capacity_type, has_capacity_type),
)


def could_match(question: Question, pool: GpuPool, kind: Kind) -> bool:
    """Whether nodes of a kind have all that is asked for, or may turn out to once labels and devices tell."""
    full = kind if kind.gpus else kind._replace(gpus=HGX_GPUS)
    return all(
        met(question, pool, full) or (not kind.told and _is_open(name, question, pool, kind.gpu))
        for name, asked, met in _PROPERTIES
        if asked(question)
    )


def _is_open(name: str, question: Question, pool: GpuPool, gpu: GpuIdentity | None) -> bool:
    """Whether the catalogue leaves open if a GPU that no label tells yet has a property."""
    if name == "model":
        return gpu is None or any(may_satisfy(gpu, wanted) for wanted in question.wanted)
    if name == "memory":
        return gpu is None or gpu.memory_gb is None
    if name == "interconnect" and pool.gpu.interconnect is not None:
        return False
    return name in {"form_factor", "interconnect"} and (gpu is None or gpu.form_factor is None)


class Narrowed(NamedTuple):
    """The kinds of a pool, narrowed down by every property that the request asks for.

    :param stages: a stage for each property asked for.
    :param kinds: those that have all of them, or as many as any has.
    :param met: each property is met by one kind at least.
    """

    stages: dict[str, Stage]
    kinds: tuple[Kind, ...]
    met: bool


Narrowing = tuple[tuple[Kind, ...], str | None]
"""All that narrowing looks at in a pool: its kinds of node, and the interconnect that is declared."""


def narrow(question: Question, pool: GpuPool, kinds: tuple[Kind, ...]) -> Narrowed:
    """Narrow the kinds of a pool down by every property that the request asks for."""
    key = (kinds, pool.gpu.interconnect)
    known = question.narrowed.get(key)
    if known is not None:
        return known
    stages: dict[str, Stage] = {}
    left = kinds
    for name, asked, met in _PROPERTIES:
        if asked(question):
            passed = tuple(kind for kind in left if met(question, pool, kind))
            stages[name] = Stage(left, passed)
            left = passed or left
    found = Narrowed(stages, left, all(stage.passed for stage in stages.values()))
    question.narrowed[key] = found
    return found
