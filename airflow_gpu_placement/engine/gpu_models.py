"""The table of known GPU models, and the one way to read a model name.

A name is cut into words; the leading words must be exactly one alias of the table, and every word after them
must be a known qualifier (memory, form factor). Nothing is ever found inside a longer name: ``A10`` is not in
``A100``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.pool import GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping


class Model(NamedTuple):
    """What is true of every card of a model.

    :param classes: marketed memory classes in GB; with one class no label is needed to know it.
    :param form_factor: where there is only one.
    :param aliases: further names without separators; the name itself is one anyway.
    :param form_classes: memory class of a form factor that has only one.
    :param named_gb: numbers in names that do not mean the memory of the GPU, and what they stand for.
    :param architecture: of the processors that the model comes with on one module; ``None``: any.
    """

    classes: tuple[int, ...]
    form_factor: str | None = None
    aliases: tuple[str, ...] = ()
    form_classes: Mapping[str, int] = MappingProxyType({})
    named_gb: Mapping[int, int] = MappingProxyType({})
    architecture: str | None = None


_SEPARATORS = re.compile(r"[^a-z0-9.]+")

_GEFORCE = {
    "GTX-1080-Ti": (11,),
    "RTX-2080": (8,),
    "RTX-2080-Ti": (11,),
    "RTX-3080": (10, 12),
    "RTX-3080-Ti": (12,),
    "RTX-3090": (24,),
    "RTX-3090-Ti": (24,),
    "RTX-4070-Ti": (12, 16),
    "RTX-4080": (16,),
    "RTX-4090": (24,),
    "RTX-5070-Ti": (16,),
    "RTX-5080": (16,),
    "RTX-5090": (32,),
}
"""Memory classes in GB of NVIDIA's cards for personal computers."""

KNOWN_MODELS: dict[str, Model] = {
    "A10": Model((24,), "PCIe"),
    "A10G": Model((24,), "PCIe"),
    "A16": Model((16,), "PCIe"),
    "A2": Model((16,), "PCIe"),
    "A30": Model((24,), "PCIe"),
    "A40": Model((48,), "PCIe"),
    "A100": Model((40, 64, 80)),
    "A800": Model((40, 80)),
    "B100": Model((192,), "SXM"),
    "B200": Model((180,), "SXM"),
    "B300": Model((288,), "SXM"),
    "GB200": Model((192,), architecture="arm64"),
    "GB300": Model((288,), architecture="arm64"),
    "GB10": Model((128,), architecture="arm64"),
    # 120 and 480 in its names are the memory of the CPU.
    "GH200": Model((96, 144), named_gb={120: 96, 480: 96}, architecture="arm64"),
    "H100": Model((64, 80, 94, 96), form_classes={"PCIe": 80, "NVL": 94}),
    "H20": Model((96, 141), "SXM"),
    "H200": Model((141,)),
    "H800": Model((80, 94), form_classes={"PCIe": 80, "NVL": 94}),
    "L4": Model((24,), "PCIe"),
    "L20": Model((48,), "PCIe"),
    "L40": Model((48,), "PCIe"),
    "L40S": Model((48,), "PCIe"),
    "P4": Model((8,), "PCIe"),
    "P40": Model((24,), "PCIe"),
    "P100": Model((12, 16)),
    "T4": Model((16,), "PCIe"),
    "V100": Model((16, 32)),
    "K80": Model((12,), "PCIe"),
    "RTX-A4000": Model((16,), "PCIe", ("a4000",)),
    "RTX-A5000": Model((24,), "PCIe", ("a5000",)),
    "RTX-A6000": Model((48,), "PCIe", ("a6000",)),
    "RTX-4000-Ada": Model((20,), "PCIe", ("rtx4000adageneration",)),
    "RTX-5000-Ada": Model((32,), "PCIe", ("rtx5000adageneration",)),
    "RTX-6000-Ada": Model((48,), "PCIe", ("rtx6000adageneration",)),
    "RTX-PRO-6000": Model(
        (96,),
        "PCIe",
        (
            "rtxpro6000blackwell",
            "rtxpro6000blackwellserveredition",
            "rtxpro6000blackwellworkstationedition",
            "rtxpro6000blackwellmaxqworkstationedition",
        ),
    ),
    "Quadro-RTX-6000": Model((24,), "PCIe"),
    "Quadro-RTX-8000": Model((48,), "PCIe"),
    **{
        f"GeForce-{name}": Model(classes, "PCIe", (_SEPARATORS.sub("", name.lower()),))
        for name, classes in _GEFORCE.items()
    },
    "TITAN-RTX": Model((24,), "PCIe"),
    "TITAN-V": Model((12, 32), "PCIe"),
    "MI100": Model((32,), "PCIe"),
    "MI210": Model((64,), "PCIe"),
    "MI250": Model((128,), "OAM"),
    "MI250X": Model((128,), "OAM"),
    "MI300A": Model((128,), "APU"),
    "MI300X": Model((192,), "OAM"),
    "MI325X": Model((256,), "OAM"),
    "MI350X": Model((288,), "OAM"),
    "MI355X": Model((288,), "OAM"),
}

_VENDOR_WORDS = frozenset({"nvidia", "tesla", "amd", "instinct"})
_MEMORY_WORD = re.compile(r"(\d{1,4})gb?")
_FORM_WORDS = {
    "pcie": "PCIe",
    "nvl": "NVL",
    "oam": "OAM",
    "nvlink": "SXM",
    **{f"sxm{generation}": "SXM" for generation in ("", "2", "3", "4", "5", "6")},
}
_MUTE_WORDS = frozenset(
    {"hbm2", "hbm2e", "hbm3", "hbm3e", "ac", "vf", "3e", "4x", "active", "nvl2", "nvl4", "nvl36", "nvl72"}
)
"""Words that tell nothing of a card by which jobs choose; a rack's size among them."""

_VARIANT_WORDS = {"mega": "MEGA"}
_GLUED_BRAND = re.compile(r"(?:nvidia|geforce|quadro|rtx|gtx)+(?=\d)")

_SUFFIXED_UNLESS_SXM = frozenset({"H200", "H800"})
"""Models that the driver calls by nothing but their number when they are on an SXM board."""

_ALIASES: dict[str, str] = {}
for _name, _model in KNOWN_MODELS.items():
    for _alias in (_SEPARATORS.sub("", _name.lower()), *_model.aliases):
        _ALIASES[_alias] = _name


@lru_cache(maxsize=4096)
def read_model(text: str) -> GpuIdentity | None:
    """Read a model name with its qualifiers, such as ``A100-80GB`` or ``NVIDIA-A100-SXM4-80GB``.

    :return: what the name says and nothing more; ``None``: not a known model.
    """
    words = [word for word in _SEPARATORS.split(text.strip().lower()) if word]
    while len(words) > 1 and words[0] in _VENDOR_WORDS:
        words = words[1:]
    for end in range(len(words), 0, -1):
        name = _ALIASES.get("".join(words[:end]))
        if name is not None:
            return _qualified(name, words[end:])
    return None


def _qualified(name: str, words: list[str]) -> GpuIdentity | None:
    model = KNOWN_MODELS[name]
    memory_gb: int | None = None
    form_factor: str | None = None
    variant: str | None = None
    for word in words:
        memory = _MEMORY_WORD.fullmatch(word)
        if memory is not None:
            memory_gb = model.named_gb.get(int(memory[1]), int(memory[1]))
        elif word in _FORM_WORDS:
            form_factor = _FORM_WORDS[word]
        elif word in _VARIANT_WORDS:
            variant = _VARIANT_WORDS[word]
        elif word not in _MUTE_WORDS:
            return None
    # The driver writes "PCIe" and "NVL" into the names of those cards and nothing into those of SXM cards.
    if form_factor is None and name in {"H100", "H800"} and "hbm3" in words:
        form_factor = "SXM"
    return GpuIdentity(model=name, memory_gb=memory_gb, form_factor=form_factor, variant=variant)


def read_driver_name(text: str) -> GpuIdentity | None:
    """Read a name that the driver gives to a card, as GPU Feature Discovery and DRA drivers pass it on.

    It writes ``PCIe`` and ``NVL`` into the names of those cards: one without is on an SXM board.
    """
    identity = read_model(text)
    if identity is None or identity.form_factor is not None or identity.model not in _SUFFIXED_UNLESS_SXM:
        return identity
    return msgspec.structs.replace(identity, form_factor="SXM")


def canonical_model(text: str) -> str | None:
    """Return the canonical name of a model in any spelling; ``None``: not a known model."""
    identity = read_model(text)
    return None if identity is None else identity.model


def normalised(text: str) -> str:
    """Spell an unknown product so that two spellings of it are equal: upper case, one dash between words."""
    words = [word for word in _SEPARATORS.split(text.strip().lower()) if word]
    while len(words) > 1 and words[0] in _VENDOR_WORDS:
        words = words[1:]
    return "-".join(words).upper()


def wanted_model(text: str) -> GpuIdentity:
    """Read a model that a request asks for; an unknown one is kept as it is spelled on nodes."""
    return read_model(text) or GpuIdentity(model=normalised(text))


def complete(identity: GpuIdentity) -> GpuIdentity:
    """Add what is true of every card of the model: the only memory class, the only form factor."""
    model = KNOWN_MODELS.get(identity.model)
    if model is None:
        return identity
    form_factor = identity.form_factor or model.form_factor
    memory_gb = identity.memory_gb
    if memory_gb is None and len(model.classes) == 1:
        memory_gb = model.classes[0]
    if memory_gb is None and form_factor is not None:
        memory_gb = model.form_classes.get(form_factor)
    return GpuIdentity(
        model=identity.model, memory_gb=memory_gb, form_factor=form_factor, variant=identity.variant
    )


def satisfies(offered: GpuIdentity | None, wanted: GpuIdentity) -> bool:
    """Whether a GPU is what a request names: every part that the request says must be known and equal."""
    if offered is None or offered.model != wanted.model:
        return False
    return all(want is None or want == have for want, have in _parts(offered, wanted))


def may_satisfy(offered: GpuIdentity, wanted: GpuIdentity) -> bool:
    """Whether a GPU could still turn out to be what a request names: no known part of it says otherwise."""
    if offered.model != wanted.model:
        return False
    return all(want is None or have is None or want == have for want, have in _parts(offered, wanted))


def _parts(
    offered: GpuIdentity, wanted: GpuIdentity
) -> tuple[tuple[str | float | None, str | float | None], ...]:
    return (
        (wanted.memory_gb, offered.memory_gb),
        (wanted.form_factor, offered.form_factor),
        (wanted.variant, offered.variant),
    )


def suggest(text: str, offered: tuple[str, ...] = ()) -> str:
    """Say what to write instead of a model name that is not known.

    A bare number that is part of several names is refused with all of them, never guessed.

    :param offered: models that are there; listed when no name is near.
    """
    if "mig" in _SEPARATORS.split(text.lower()):
        return "slices of a GPU are not placed, only whole ones"
    names = {*KNOWN_MODELS, *offered}
    sharing = may_mean(text, offered)
    if len(sharing) > 1:
        return f"it may mean {', '.join(sharing)}: name one"
    hint = nearest(text, names)
    return nearest(text, offered) if hint.startswith("one of") and offered else hint


def may_mean(text: str, offered: tuple[str, ...] = ()) -> list[str]:
    """Return the models whose names share a number with a text that names no model itself: ``RTX6000``."""
    if read_model(text) is not None:
        return []
    numbers = _words_with_digits(text)
    return sorted(name for name in {*KNOWN_MODELS, *offered} if numbers & _words_with_digits(name))


def _words_with_digits(text: str) -> set[str]:
    words = (_GLUED_BRAND.sub("", word) for word in _SEPARATORS.split(text.strip().lower()))
    return {word for word in words if any(map(str.isdigit, word))}
