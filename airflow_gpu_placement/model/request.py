"""What one task needs, as its author wrote it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class CheckpointNeed(BaseModel):
    """Where the training program keeps its checkpoints.

    :param uri: folder or object-store prefix that every pool can reach, for example ``s3://bucket/llm`` or
        ``file:///mnt/checkpoints``. ``None``: the program has no checkpoints and a re-placed job starts over.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str | None = None

    @field_validator("uri")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is None or "://" in value or value.startswith("/"):
            return value.rstrip("/") if value else None
        raise ValueError(
            f"{value!r} is neither a URL nor an absolute path; write for example 's3://bucket/prefix'"
        )


class GpuRequest(BaseModel):
    """GPUs that one training job needs; frozen, validated, the same as a dict with the same keys.

    :param gpus_per_node: GPUs of each of the job's pods, at least 1.
    :param nodes: pods of the job (ranks that start together, a gang); default 1.
    :param models: GPU models any of which will do, for example ``("H100", "H200")``; empty: any model.
    :param min_memory_gb: smallest marketed memory class in GB (40, 80, 141); ``None``: any.
    :param checkpoint: where checkpoints go; see :class:`CheckpointNeed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpus_per_node: Annotated[int, Field(ge=1, le=1024)] = 1
    nodes: Annotated[int, Field(ge=1, le=4096)] = 1
    models: tuple[str, ...] = ()
    min_memory_gb: Annotated[float, Field(gt=0)] | None = None
    checkpoint: CheckpointNeed = CheckpointNeed()

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
