"""A GPU model that the platform team describes because this release does not know it."""

from __future__ import annotations

import msgspec


class GpuModel(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of every card of a model.

    :param name: as requests and decisions name it, in its plain spelling: upper case, dashes.
    :param memory_gb: marketed memory class in GB.
    :param form_factor: where there is only one; ``None``: read from the nodes.
    :param aliases: product names that real nodes report for it.
    """

    name: str
    memory_gb: float
    form_factor: str | None = None
    aliases: tuple[str, ...] = ()
