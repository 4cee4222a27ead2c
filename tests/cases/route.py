"""Which adapter answers a key of an expectation, and which keys of an input are known at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cases.adapters import capacity, catalogues, losses, prices, queues
from tests.cases.adapters.reading import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMENTARY = {
    "note": "words for the reader of the case",
    "sum_over_flavors_used": "says which mistake quota_fits would show",
}
"""Keys of ``expect`` that state nothing that quota, money or an outcome could be compared with -> why."""

INPUT_KEYS = frozenset(
    {
        "admission", "airflow_cancelled", "arrivals", "cap", "catalogue", "clusterQueue", "clusterQueues",
        "cohort", "completion_check", "dataset_gb", "dataset_region", "declared", "egress_per_gb", "existing",
        "flavor_labels", "free_on_nodes", "grace_s", "hint_rules", "image_platforms", "job", "job_priority",
        "job_tolerations", "log_tail", "min_gpu_memory_gb", "must_start_within_s", "node", "node_grace_s",
        "node_ready", "nodes", "now", "observations", "offers", "our_running_workload", "pod", "pods",
        "pools", "request", "request_gpus", "requests", "rows", "signal_timeout_s", "simultaneous", "spent",
        "start_deadline_s", "t", "terminationGracePeriodSeconds", "unreachable_s", "waited_s", "workload",
        "workloads",
    }
)  # fmt: skip
"""Keys that adapters read. Those that need no reading are here too, since the answer cannot depend on them:

``terminationGracePeriodSeconds`` is contained in the API's deletion time; ``must_start_within_s`` holds for
every chosen pool, since only pools that fit now are chosen; ``free_on_nodes`` and ``simultaneous`` tempt;
``signal_timeout_s`` belongs to reading signals, which has tests of its own.
"""

_ABOUT_A_JOB = ("class", "final", "cause", "root")
_JOB_KEYS = ("pod", "job", "workload", "observations")
_QUEUE_KEYS = ("clusterQueue", "clusterQueues")


def answer(key: str, facts: Mapping[str, Any], expect: Mapping[str, Any]) -> Any:
    """Ask the adapter that answers a key.

    :raises UnreadableError: there is none.
    """
    for prefix, of_pool in prices.PREFIXES.items():
        if key.startswith(prefix):
            found: Any = of_pool(facts, key)
            return found
    families = [one for one in (losses, queues, prices, catalogues, capacity) if key in one.ANSWERS]
    if not families:
        raise UnreadableError(f"nothing answers the key expect.{key}")
    if len(families) > 1:
        families = [_family(facts, expect)]
    if key not in families[0].ANSWERS:
        raise UnreadableError(f"nothing answers the key expect.{key} for an input with {', '.join(facts)}")
    return families[0].ANSWERS[key](facts, expect[key])


def _family(facts: Mapping[str, Any], expect: Mapping[str, Any]) -> Any:
    """Tell what a case is about, where a key could be about several things."""
    for key, family in (("catalogue", catalogues), ("rows", prices)):
        if key in facts:
            return family
    if any(key in expect for key in _ABOUT_A_JOB) or any(key in facts for key in _JOB_KEYS):
        return losses
    return queues if any(key in facts for key in _QUEUE_KEYS) else capacity


def check_keys(facts: Mapping[str, Any]) -> None:
    """Refuse an input with a key that nobody reads.

    :raises UnreadableError: names the key.
    """
    unknown = sorted(key for key in facts if key not in INPUT_KEYS)
    if unknown:
        raise UnreadableError(
            f"nothing reads the key{'s' if len(unknown) > 1 else ''} input.{', input.'.join(unknown)}"
        )
    for look in facts.get("observations", ()):
        check_keys(look)
