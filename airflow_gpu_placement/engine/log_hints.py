"""What the last lines of a log hint at, by rules that are data.

A line is weaker evidence than what a cluster reports, so a rule speaks only where an exit code is all there
is; elsewhere it is shown. Rules can be left out: then every match is shown and none decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.outcome import NodeView, Outcome

_BY_EXIT_CAUSES = frozenset({"Error", "Killed", "Terminated", "Crashed"})
_SHOWN_CHARACTERS = 200


class HintRule(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a log line may tell.

    :param pattern: regular expression for a line; case does not matter.
    :param means: what it tells, for people.
    :param source: where that is known from.
    :param kind: kind of end that it makes of an exit code; ``None``: the line is only shown.
    :param blames_node: the node is avoided from now on.
    :param within_seconds: decides only when the program ran no longer than this; ``None``: always.
    """

    name: str
    pattern: str
    means: str
    source: str
    kind: OutcomeKind | None = None
    cause: str = ""
    blames_node: bool = False
    within_seconds: float | None = None


def _xids(*numbers: int) -> str:
    choice = "|".join(map(str, numbers))
    return rf"\bxid \(pci:[0-9a-f:.]+\): ?({choice})\b|\bxid(?: error)?[ =:#]+({choice})\b"


_XID_CATALOGUE = "NVIDIA, Xid errors"
_CUDA_ERRORS = "NVIDIA, CUDA runtime API, cudaError_t"

_ECC = (
    r"uncorrectable ecc error|double[- ]bit ecc|ecc_?uncorrectable|hiperroreccnotcorrectable|"
    r"uncorrectable hardware errors detected"
)

HINT_RULES: tuple[HintRule, ...] = (
    HintRule(
        name="wrong-architecture",
        pattern=r"exec format error",
        means="the image is built for another processor than its node's",
        source="execve(2), ENOEXEC",
        kind=OutcomeKind.CONFIGURATION,
        cause="WrongArchitecture",
        within_seconds=60,
    ),
    HintRule(
        name="ecc",
        pattern=rf"{_ECC}|{_xids(48, 63, 64, 92, 94, 95, 140)}",
        means="the memory of a GPU is broken",
        source=f"{_XID_CATALOGUE} 48, 63, 64, 92, 94, 95, 140; {_CUDA_ERRORS} 214",
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="DeviceFault",
        blames_node=True,
    ),
    HintRule(
        name="off-the-bus",
        pattern=rf"fallen off the bus|gpu is lost|{_xids(79)}",
        means="a GPU does not answer any more",
        source=f"{_XID_CATALOGUE} 79",
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="DeviceFault",
        blames_node=True,
    ),
    HintRule(
        name="nvlink",
        pattern=rf"uncorrectable nvlink error|nvlink (fatal|link) error|{_xids(74, *range(144, 151))}",
        means="a link between GPUs is broken",
        source=f"{_XID_CATALOGUE} 74, 144 to 150; {_CUDA_ERRORS} 220",
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="DeviceFault",
        blames_node=True,
    ),
    HintRule(
        name="gsp",
        pattern=rf"gsp rpc timeout|timeout waiting for rpc from gsp|{_xids(119, 120)}",
        means="the firmware of a GPU hangs",
        source=f"{_XID_CATALOGUE} 119, 120",
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="DeviceFault",
        blames_node=True,
    ),
    HintRule(
        name="driver",
        pattern=(
            r"failed to initialize nvml|driver/library version mismatch|system not yet initialized|"
            r"cuda_error_system_not_ready|cuda driver initialization failed|rminitadapter failed|"
            r"no cuda-capable device is detected|no (cuda|hip) gpus are available|"
            r"found no nvidia driver on your system"
        ),
        means="the driver of its node is not in order",
        source=f"{_CUDA_ERRORS} 3, 100, 802, 803",
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="DeviceFault",
        blames_node=True,
    ),
    HintRule(
        name="gpu-out-of-memory",
        pattern=r"cuda out of memory|hip out of memory|outofmemoryerror|resource_exhausted: out of memory",
        means="the program needs more GPU memory than it has",
        source="PyTorch, torch.cuda.OutOfMemoryError; XLA, RESOURCE_EXHAUSTED",
        kind=OutcomeKind.APPLICATION,
        cause="GpuOutOfMemory",
    ),
    HintRule(
        name="collective",
        pattern=(
            r"\bnccl (error|warn|timeout)|nccl.{0,40}(timed out|timeout|abort|unhandled)|"
            r"watchdog caught collective operation timeout|connection (closed|reset) by (remote )?peer"
        ),
        means="another rank went silent first; look for its end",
        source="PyTorch, ProcessGroupNCCL watchdog; NCCL, ncclRemoteError",
    ),
    HintRule(
        name="gpu-busy",
        pattern=r"cuda-capable device\(?s?\)? (is|are|is/are) busy or unavailable",
        means="somebody else uses the GPU, or it is broken",
        source=f"{_CUDA_ERRORS} 46",
    ),
    HintRule(
        name="program-on-gpu",
        pattern=rf"illegal memory access|device-side assert|{_xids(13, 31, 43, 45)}",
        means="usually a fault of the program on the GPU",
        source=f"{_XID_CATALOGUE} 13, 31, 43, 45; {_CUDA_ERRORS} 700, 710",
    ),
    HintRule(
        name="shared-memory",
        pattern=r"insufficient shared memory|unable to open shared memory|\bbus error\b",
        means="/dev/shm may be too small",
        source="PyTorch, DataLoader workers; signal(7), SIGBUS",
    ),
    HintRule(
        name="disk",
        pattern=r"no space left on device",
        means="a disk or volume is full",
        source="errno(3), ENOSPC",
    ),
)


def hint_in(lines: Sequence[str], rules: Sequence[HintRule] = HINT_RULES) -> tuple[HintRule, str] | None:
    """Return the first rule, in the order of the rules, that a line matches, with the last such line."""
    for rule in rules:
        pattern = re.compile(rule.pattern, re.I)
        for line in reversed(lines):
            if pattern.search(line):
                return rule, line.strip()[:_SHOWN_CHARACTERS]
    return None


def with_hint(
    outcome: Outcome,
    lines: Sequence[str],
    *,
    node: NodeView | None,
    ran_seconds: float | None,
    decide: bool,
) -> Outcome:
    """Add what the log hints at to an outcome.

    :param lines: last lines of the log of the pod that is the cause.
    :param node: where it ran.
    :param ran_seconds: how long it ran; ``None``: not known.
    :param decide: whether a rule may change the kind; the hint is shown either way.
    """
    found = hint_in(lines)
    if found is None or outcome.kind is OutcomeKind.SUCCEEDED or not outcome.final:
        return outcome
    rule, line = found
    hint = f"{rule.means} ({line})"
    shown = msgspec.structs.replace(outcome, hint=hint, ambiguous=outcome.ambiguous or rule.kind is None)
    if outcome.kind is not OutcomeKind.APPLICATION or outcome.cause not in _BY_EXIT_CAUSES:
        return msgspec.structs.replace(outcome, hint=hint)
    if rule.blames_node and node is not None:
        shown = msgspec.structs.replace(shown, nodes=(node.name,))
    late = rule.within_seconds is not None and ran_seconds is not None and ran_seconds > rule.within_seconds
    if not decide or rule.kind is None or late:
        return shown
    wrong_architecture = rule.kind is OutcomeKind.CONFIGURATION and node is not None
    return msgspec.structs.replace(
        shown,
        kind=rule.kind,
        cause=rule.cause,
        message=f"{outcome.message}; its log says: {hint}",
        ambiguous=rule.kind is OutcomeKind.INFRASTRUCTURE,
        architecture=node.architecture if wrong_architecture and node is not None else None,
    )
