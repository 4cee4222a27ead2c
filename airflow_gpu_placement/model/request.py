"""What one task needs, as its author wrote it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from airflow_gpu_placement.model.explained import explain
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.words import FORM_FACTORS, NETWORK_KINDS, plain_word, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNSWITCHED = frozenset({"PCIe", "NVL"})
"""Form factors whose boards have no NVSwitch: a card alone, or a few joined by a bridge."""

MOST_GPUS = 1024
"""GPUs of one node."""

_MOST_HOURS = 1_000_000
"""More than a hundred years; much longer times are none that a calendar has."""

_MOST_PRIORITY = 10**9

_EMPTY = (
    "an empty text, or 'None', names nothing (did a template render to nothing?); write a name, or leave the "
    "field out, or write [], to ask for nothing"
)
_MOMENT = "write a moment with its time zone, for example '2026-12-24T18:00:00+01:00', or '...Z' for UTC"


def _listed(value: object) -> object:
    """Read one text as a list, since a template makes a text of everything: ``a, b`` or ``['a', 'b']``.

    An empty text is refused: it would ask for nothing, which is everything. A name that is given twice counts
    once.
    """
    if isinstance(value, str):
        value = _parts(value)
    if not isinstance(value, list | tuple):
        return value
    words = [word.strip() if isinstance(word, str) else word for word in value]
    if any(word in ("", "None") for word in words):  # None is what a template makes of nothing
        raise ValueError(_EMPTY)
    return tuple(word for index, word in enumerate(words) if word not in words[:index])


def _parts(text: str) -> list[str]:
    inside = text.strip()
    if inside[:1] + inside[-1:] in {"[]", "()"}:
        inside = inside[1:-1].strip()
        if not inside:
            return []
    # Python ends a tuple of one with a comma.
    return [part.strip().strip("'\"") for part in inside.removesuffix(",").split(",")]


def _form_factors(value: object) -> object:
    return _spelled(value, ("HGX", *FORM_FACTORS), "form factor")


def _network_kinds(value: object) -> object:
    return _spelled(value, NETWORK_KINDS, "kind of network")


def _moment(value: object, read: ValidatorFunctionWrapHandler) -> datetime:
    """Read a moment; one without a time zone is nowhere on earth."""
    try:
        moment: datetime = read(value)
    except ValidationError:
        raise ValueError(f"{value!r} is no moment; {_MOMENT}") from None
    if moment.tzinfo is None:
        raise ValueError(f"{value!s} has no time zone; {_MOMENT}")
    return moment


def _spelled(value: object, known: tuple[str, ...], what: str) -> object:
    if not isinstance(value, list | tuple):
        return value
    return tuple(spelled(word, known, what) if isinstance(word, str) else word for word in value)


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names; a single text is a list of one, or several with commas between."""

Hours = Annotated[float, Field(gt=0, le=_MOST_HOURS)]
"""A time that is neither nothing nor for ever."""

Folded = BeforeValidator(lambda value: plain_word(value) if isinstance(value, str) else value)
"""A fixed word in any spelling: ``NVLink`` is ``nvlink``, ``on-demand`` is ``on_demand``."""


class Need(BaseModel):
    """Base of the request's groups: frozen; unknown fields and numbers that are not finite refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NetworkNeed(Need):
    """What the job needs between its nodes.

    :param kinds: any of ``infiniband``, ``roce``, ``efa``, ``gpudirect-tcpx``, ``gpudirect-tcpxo``,
        ``gpudirect-rdma``, ``slingshot`` and ``ethernet``; empty: any.
    :param min_gbps: least bandwidth of a node in Gbit/s.
    :param same_zone: all nodes in one zone.
    :param same_fabric: all nodes on one fabric (NVLink domain, InfiniBand island, placement block); which
        label of a node tells it is in the catalogue's ``network.fabric_label``.
    """

    kinds: Annotated[tuple[str, ...], BeforeValidator(_network_kinds), BeforeValidator(_listed)] = ()
    min_gbps: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    same_zone: bool = False
    same_fabric: bool = False


class WhereNeed(Need):
    """Where the job may run.

    :param capacity_types: allowed kinds of capacity; empty: all.
    :param regions: allowed regions; empty: all.
    :param denied_regions: regions that are never used.
    """

    capacity_types: Annotated[tuple[Annotated[CapacityType, Folded], ...], BeforeValidator(_listed)] = ()
    regions: Names = ()
    denied_regions: Names = ()

    @model_validator(mode="after")
    def _no_region_both_ways(self) -> WhereNeed:
        both = sorted(set(self.regions) & set(self.denied_regions))
        if both:
            raise ValueError(
                f"{', '.join(both)}: allowed by regions and refused by denied_regions; "
                "regions alone is enough: every region that it does not name is refused"
            )
        return self


class TimeNeed(Need):
    """How long the job takes, and until when it must be done.

    :param runtime_hours: expected training time on the GPUs asked for.
    :param runtime_hours_by_model: the same for each GPU model, where it differs.
    :param deadline: moment by which it must have ended, with a time zone.
    :param complete_within_hours: the same, counted from the first decision over all tries and waits; a task
        that is cleared has all of it again. One of the two.
    :param deadline_is_hard: a pool that cannot make it is refused; needs a known runtime.
    """

    runtime_hours: Hours | None = None
    runtime_hours_by_model: dict[str, Hours] = {}
    deadline: Annotated[datetime, WrapValidator(_moment)] | None = None
    complete_within_hours: Hours | None = None
    deadline_is_hard: bool = False

    @model_validator(mode="after")
    def _one_deadline(self) -> TimeNeed:
        if self.deadline is not None and self.complete_within_hours is not None:
            raise ValueError(
                "deadline and complete_within_hours are both given; keep deadline for a moment, or "
                "complete_within_hours for a time counted from the first decision"
            )
        if self.deadline_is_hard and self.deadline is None and self.complete_within_hours is None:
            raise ValueError(
                "deadline_is_hard is given without a deadline; add deadline or complete_within_hours, "
                "or leave deadline_is_hard out"
            )
        return self


class CheckpointNeed(Need):
    """Where the training program keeps its checkpoints.

    :param size_gib: size of one checkpoint in GiB, which a re-placement may have to move; ``None``: unknown.
    :param interval_minutes: time between two checkpoints; ``None``: the work since the start is lost.
    :param uri: folder or object-store prefix that every pool can reach, for example ``s3://bucket/llm`` or
        ``file:///mnt/checkpoints``. ``None``: the program has no checkpoints and a re-placed job starts over.
    """

    uri: str | None = None
    size_gib: Annotated[float, Field(ge=0, le=1_000_000_000)] | None = None
    interval_minutes: Annotated[float, Field(gt=0, le=_MOST_HOURS * 60)] | None = None

    @field_validator("uri")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is None:
            return None
        scheme, is_url, path = value.partition("://")
        if not value.startswith("/") and not (scheme and is_url):
            wrong = "neither a URL nor an absolute path"
        elif not (path if is_url else value).strip("/ "):
            wrong = "no folder: it names the root of everything"
        else:
            return value.rstrip("/")
        raise ValueError(f"{value!r} is {wrong}; write for example 's3://bucket/prefix'")


class GpuRequest(Need):
    """GPUs that one training job needs; frozen, validated, the same as a dict with the same keys.

    :param gpus_per_node: GPUs of each of the job's pods, at least 1.
    :param nodes: pods of the job (ranks that start together, a gang); default 1.
    :param models: GPU models any of which will do, for example ``("H100", "H200")``; empty: any model.
    :param min_memory_gb: smallest marketed memory class in GB (40, 80, 141); ``None``: any.
    :param form_factors: any of ``SXM``, ``PCIe``, ``NVL``, ``HGX`` (a full SXM board); empty: any.
    :param interconnect: between the GPUs of a node: ``nvlink`` or ``nvswitch``; ``None``: any.
    :param architecture: processor architecture that the image is built for; ``None``: any.
    :param network: what is needed between nodes.
    :param where: capacity types and regions.
    :param data: names of datasets of the catalogue that the job reads.
    :param checkpoint: where checkpoints go; see :class:`CheckpointNeed`.
    :param time: expected runtime and deadline.
    :param priority: larger goes first; capped by the tenant.
    :param price_cap_usd_per_gpu_hour: pools that cost more, or whose price is unknown, are refused.
    """

    gpus_per_node: Annotated[int, Field(ge=1, le=MOST_GPUS)] = 1
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    models: Names = ()
    min_memory_gb: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    form_factors: Annotated[tuple[str, ...], BeforeValidator(_form_factors), BeforeValidator(_listed)] = ()
    interconnect: Annotated[Literal["nvlink", "nvswitch"], Folded] | None = None
    architecture: Annotated[Literal["amd64", "arm64"], Folded] | None = None
    network: NetworkNeed = NetworkNeed()
    where: WhereNeed = WhereNeed()
    data: Names = ()
    checkpoint: CheckpointNeed = CheckpointNeed()
    time: TimeNeed = TimeNeed()
    priority: Annotated[int, Field(ge=-_MOST_PRIORITY, le=_MOST_PRIORITY)] = 0
    price_cap_usd_per_gpu_hour: Annotated[float, Field(ge=0, le=1_000_000)] | None = None

    _explain = model_validator(mode="wrap")(explain)

    @model_validator(mode="after")
    def _no_unrendered_template(self) -> GpuRequest:
        if any("{{" in text or "{%" in text for text in _texts(self.model_dump())):
            raise ValueError(
                "the request holds a Jinja template, which is not rendered inside a GpuRequest object; "
                "pass a dict instead: gpu={'gpus_per_node': 8, 'checkpoint': {'uri': 's3://bucket/{{ ds }}'}}"
            )
        return self

    @model_validator(mode="after")
    def _no_switch_without_a_board(self) -> GpuRequest:
        if (
            self.interconnect == "nvswitch"
            and self.form_factors
            and _UNSWITCHED.issuperset(self.form_factors)
        ):
            raise ValueError(
                f"no {' or '.join(self.form_factors)} card is behind an NVSwitch; ask for "
                "form_factors=('SXM',), or for interconnect='nvlink' (cards joined by a bridge), or leave "
                "interconnect out"
            )
        return self

    @property
    def total_gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.gpus_per_node * self.nodes

    def describe(self) -> str:
        """Say the size in one phrase, such as ``16 GPUs = 2 x 8 (H100 or H200, at least 80 GB)``."""
        size = (
            f"{self.total_gpus} GPU{'s' if self.total_gpus > 1 else ''} = {self.nodes} x {self.gpus_per_node}"
        )
        wants = []
        if self.models:
            wants.append(" or ".join(self.models))
        if self.min_memory_gb is not None:
            wants.append(f"at least {self.min_memory_gb:g} GB")
        return f"{size} ({', '.join(wants)})" if wants else size


def _texts(value: Any) -> Iterator[str]:
    """Walk all texts inside plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
