"""What one task needs, as its author wrote it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from airflow_gpu_placement.model.pool import CapacityType


class Need(BaseModel):
    """Base of the request's groups: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkNeed(Need):
    """What the job needs between its nodes.

    :param kinds: any of these kinds of network, such as ``("infiniband", "roce")``; empty: any.
    :param min_gbps: least bandwidth of a node in Gbit/s.
    :param same_zone: all nodes in one zone.
    :param same_fabric: all nodes on one fabric (NVLink domain, InfiniBand island, placement block).
    """

    kinds: tuple[str, ...] = ()
    min_gbps: Annotated[float, Field(gt=0)] | None = None
    same_zone: bool = False
    same_fabric: bool = False


class WhereNeed(Need):
    """Where the job may run.

    :param capacity_types: allowed kinds of capacity; empty: all.
    :param regions: allowed regions; empty: all.
    :param denied_regions: regions that are never used.
    """

    capacity_types: tuple[CapacityType, ...] = ()
    regions: tuple[str, ...] = ()
    denied_regions: tuple[str, ...] = ()


class TimeNeed(Need):
    """How long the job takes, and until when it must be done.

    :param runtime_hours: expected training time on the GPUs asked for.
    :param runtime_hours_by_model: the same for each GPU model, where it differs.
    :param deadline: moment by which it must have ended, with a time zone.
    :param complete_within_hours: the same, counted from the first decision. One of the two.
    :param deadline_is_hard: a pool that cannot make it is refused; needs a known runtime.
    """

    runtime_hours: Annotated[float, Field(gt=0)] | None = None
    runtime_hours_by_model: dict[str, Annotated[float, Field(gt=0)]] = {}
    deadline: AwareDatetime | None = None
    complete_within_hours: Annotated[float, Field(gt=0)] | None = None
    deadline_is_hard: bool = False


class CheckpointNeed(Need):
    """Where the training program keeps its checkpoints.

    :param size_gib: size of one checkpoint in GiB, which a re-placement may have to move; ``None``: unknown.
    :param interval_minutes: time between two checkpoints; ``None``: the work since the start is lost.
    :param uri: folder or object-store prefix that every pool can reach, for example ``s3://bucket/llm`` or
        ``file:///mnt/checkpoints``. ``None``: the program has no checkpoints and a re-placed job starts over.
    """

    uri: str | None = None
    size_gib: Annotated[float, Field(ge=0)] | None = None
    interval_minutes: Annotated[float, Field(gt=0)] | None = None

    @field_validator("uri")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is None or "://" in value or value.startswith("/"):
            return value.rstrip("/") if value else None
        raise ValueError(
            f"{value!r} is neither a URL nor an absolute path; write for example 's3://bucket/prefix'"
        )


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

    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] = 1
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    models: tuple[str, ...] = ()
    min_memory_gb: Annotated[float, Field(gt=0)] | None = None
    form_factors: tuple[str, ...] = ()
    interconnect: str | None = None
    architecture: Literal["amd64", "arm64"] | None = None
    network: NetworkNeed = NetworkNeed()
    where: WhereNeed = WhereNeed()
    data: tuple[str, ...] = ()
    checkpoint: CheckpointNeed = CheckpointNeed()
    time: TimeNeed = TimeNeed()
    priority: int = 0
    price_cap_usd_per_gpu_hour: Annotated[float, Field(ge=0)] | None = None

    @field_validator("models", mode="before")
    @classmethod
    def _one_model_is_a_list_of_one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _no_unrendered_template(self) -> GpuRequest:
        texts = (*self.models, self.checkpoint.uri or "")
        if any("{{" in text for text in texts):
            raise ValueError(
                "the request holds a Jinja template, which is not rendered inside a GpuRequest object; "
                "pass a dict instead: gpu={'gpus_per_node': 8, 'checkpoint': {'uri': 's3://bucket/{{ ds }}'}}"
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
