"""One flag for each field of a request. Values stay text: the request's own rules read and refuse them."""

from __future__ import annotations

from typing import Any, NamedTuple


class RequestFlag(NamedTuple):
    """A flag and the field that it sets.

    :param path: field of the request, with the group that it is in.
    :param repeats: the field is a list; each use of the flag adds a value.
    :param switch: the field is true or false; the flag takes no value.
    """

    name: str
    path: tuple[str, ...]
    help: str
    metavar: str = "TEXT"
    repeats: bool = False
    switch: bool = False

    @property
    def attribute(self) -> str:
        """Name of the value in the parsed arguments."""
        return self.name.removeprefix("--").replace("-", "_")


REQUEST_FLAGS = (
    RequestFlag("--gpus-per-node", ("gpus_per_node",), "GPUs of each node (default: 1)", "N"),
    RequestFlag("--nodes", ("nodes",), "Nodes that start together (default: 1)", "N"),
    RequestFlag("--model", ("models",), "GPU model that will do, such as H100", repeats=True),
    RequestFlag("--min-memory-gb", ("min_memory_gb",), "Least memory class of a GPU: 40, 80, 141 ...", "GB"),
    RequestFlag(
        "--form-factor", ("form_factors",), "Form factor that will do: SXM, PCIe, NVL, HGX", repeats=True
    ),
    RequestFlag("--interconnect", ("interconnect",), "Between the GPUs of a node: nvlink or nvswitch"),
    RequestFlag("--architecture", ("architecture",), "Processor that the image is built for: amd64 or arm64"),
    RequestFlag(
        "--network-kind",
        ("network", "kinds"),
        "Network between nodes that will do, such as infiniband",
        repeats=True,
    ),
    RequestFlag("--min-network-gbps", ("network", "min_gbps"), "Least bandwidth of a node in Gbit/s", "GBPS"),
    RequestFlag("--same-zone", ("network", "same_zone"), "All nodes in one zone", switch=True),
    RequestFlag("--same-fabric", ("network", "same_fabric"), "All nodes on one fabric", switch=True),
    RequestFlag(
        "--capacity-type",
        ("where", "capacity_types"),
        "Capacity that may be used: reserved, on_demand or spot",
        repeats=True,
    ),
    RequestFlag("--region", ("where", "regions"), "Region that may be used", repeats=True),
    RequestFlag("--denied-region", ("where", "denied_regions"), "Region that is never used", repeats=True),
    RequestFlag("--data", ("data",), "Dataset of the catalogue that the job reads", "NAME", repeats=True),
    RequestFlag("--checkpoint-uri", ("checkpoint", "uri"), "Where checkpoints are", "URI"),
    RequestFlag("--checkpoint-size-gib", ("checkpoint", "size_gib"), "Size of one checkpoint", "GIB"),
    RequestFlag(
        "--checkpoint-interval-minutes",
        ("checkpoint", "interval_minutes"),
        "Time between two checkpoints",
        "MIN",
    ),
    RequestFlag("--runtime-hours", ("time", "runtime_hours"), "Expected training time", "HOURS"),
    RequestFlag(
        "--runtime-hours-on",
        ("time", "runtime_hours_by_model"),
        "Expected training time on one GPU model, such as A100=12",
        "MODEL=HOURS",
        repeats=True,
    ),
    RequestFlag(
        "--deadline",
        ("time", "deadline"),
        "Moment by which it must have ended, such as 2026-12-24T18:00:00+01:00",
        "TIME",
    ),
    RequestFlag(
        "--complete-within-hours",
        ("time", "complete_within_hours"),
        "Hours from now within which it must have ended",
        "HOURS",
    ),
    RequestFlag(
        "--deadline-is-hard",
        ("time", "deadline_is_hard"),
        "Refuse pools that cannot make the deadline",
        switch=True,
    ),
    RequestFlag("--priority", ("priority",), "Larger goes first", "N"),
    RequestFlag(
        "--price-cap", ("price_cap_usd_per_gpu_hour",), "Most that a GPU may cost for an hour, in USD", "USD"
    ),
)


def fields_from_flags(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that flags were given for, in the form of the argument ``gpu``.

    :param values: parsed arguments by name.
    :raises ValueError: a flag's value has not the form that it needs.
    """
    fields: dict[str, Any] = {}
    for flag in REQUEST_FLAGS:
        value = values.get(flag.attribute)
        if value is None:
            continue
        if flag.path[-1] == "runtime_hours_by_model":
            value = dict(_pair(flag.name, text) for text in value)
        group = fields
        for name in flag.path[:-1]:
            group = group.setdefault(name, {})
        group[flag.path[-1]] = value
    return fields


def _pair(flag: str, text: str) -> tuple[str, str]:
    model, equals, hours = text.partition("=")
    if not equals:
        raise ValueError(f"{flag}: write MODEL=HOURS, for example {flag} A100=12, not {text!r}")
    return model, hours
