"""One thing that is set up wrongly, and its mending."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(StrEnum):
    """How much a finding matters: an error keeps jobs from a pool, a warning makes its use worse."""

    ERROR = "error"
    WARNING = "warning"


class FindingId(StrEnum):
    """What is wrong, as a stable word: add, never rename."""

    CATALOG_MISSING = "CatalogMissing"
    CATALOG_INVALID = "CatalogInvalid"
    CATALOG_DOUBTFUL = "CatalogDoubtful"
    CONNECTION_MISSING = "ConnectionMissing"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    CLUSTER_UNUSABLE = "ClusterUnusable"
    WRONG_CLUSTER = "WrongCluster"
    RIGHTS_MISSING = "RightsMissing"
    NAMESPACE_MISSING = "NamespaceMissing"
    KUBERNETES_TOO_OLD = "KubernetesTooOld"
    CLOCK_SKEW = "ClockSkew"
    NO_NODE_MATCHES = "NoNodeMatches"
    GPU_UNKNOWN = "GpuUnknown"
    SIGNAL_CONTRADICTS_CATALOG = "SignalContradictsCatalog"
    CAPACITY_TYPES_MIXED = "CapacityTypesMixed"
    REGIONS_MIXED = "RegionsMixed"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    PRICE_MISSING = "PriceMissing"
    POOLS_OVERLAP = "PoolsOverlap"
    RETRIES_ZERO = "RetriesZero"


class FixKind(StrEnum):
    """What a fix is: ``advice`` is for what no line can mend."""

    COMMAND = "command"
    CATALOG = "catalog"
    PYTHON = "python"
    ADVICE = "advice"


FIX_WORDS = {
    FixKind.COMMAND: "run",
    FixKind.CATALOG: "write these keys into the entry of that name in the catalogue, or add it",
    FixKind.PYTHON: "write into the task",
    FixKind.ADVICE: "do",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, where, and what mends it.

    :param where: pool, connection, file or task, in words.
    :param fix: a command as a shell takes it, or lines for a file, as ``kind`` says.
    :param fill_in: what only a person can know: each place in ``fix``, and what to write there. A place in
        lines is a word like ``<USD>``, which the catalogue refuses; in a command it is a variable.
    :param pool: the pool that lines for the catalogue belong to.
    """

    id: FindingId
    severity: Severity
    where: str
    what: str
    fix: str
    kind: FixKind
    fill_in: tuple[tuple[str, str], ...] = ()
    pool: str | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        fix: dict[str, Any] = {"kind": str(self.kind), "text": self.fix}
        if self.fill_in:
            fix["fill_in"] = dict(self.fill_in)
        if self.pool:
            fix["pool"] = self.pool
        return {
            "id": str(self.id),
            "severity": str(self.severity),
            "where": self.where,
            "what": self.what,
            "fix": fix,
        }

    def as_text(self) -> str:
        """Return the mending ready to copy, under comments that say what to fill in."""
        return "\n".join([*(f"# {place}: {meaning}" for place, meaning in self.fill_in), self.fix])


def entry_lines(section: str, *entries: Mapping[str, Any]) -> str:
    """Write entries, each with its name and the keys to change, as they stand in the catalogue."""
    return yaml.safe_dump({section: [dict(entry) for entry in entries]}, sort_keys=False).rstrip("\n")
