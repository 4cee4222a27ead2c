"""Which cards a name in a request may mean: those of the table, and what pools call theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.engine.gpu_models import KNOWN_MODELS, complete, wanted_model
from airflow_gpu_placement.model.pool import DeclaredGpu, GpuIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.model.pool import GpuPool

_JOINED_BY = {"PCIe": ("nvlink",), "NVL": ("nvlink",), "OAM": (), "APU": ()}
"""Form factor -> what may join its cards: at best a bridge, and nothing of the kind; of others all may."""


class Card(NamedTuple):
    """A GPU that a request may get; each ``None`` is not known, and may be anything.

    :param architecture: of the processors beside it.
    :param interconnect: what a pool of the catalogue says of its own.
    """

    gpu: GpuIdentity
    architecture: str | None = None
    interconnect: str | None = None

    def may_be_mounted_as(self, form_factors: Sequence[str]) -> bool:
        """Whether it may have one of these form factors; ``HGX`` is a board of SXM ones."""
        own = self.gpu.form_factor
        return own is None or own in form_factors or (own == "SXM" and "HGX" in form_factors)

    def may_be_joined_by(self, interconnect: str) -> bool:
        """Whether the cards of a node may be joined at least as well."""
        if self.interconnect is not None:
            return self.interconnect in {interconnect, "nvswitch"}
        return interconnect in _JOINED_BY.get(self.gpu.form_factor or "", ("nvlink", "nvswitch"))

    def may_be_beside(self, architecture: str) -> bool:
        """Whether the processors of its node may be of this architecture."""
        return self.architecture in {None, architecture}


def cards_of(name: str, pools: Iterable[GpuPool]) -> list[Card]:
    """List the cards that a name may mean; none: there is no such card.

    What a pool of the catalogue says of its own counts as well, since it is believed when a job is placed. Of
    a model that is not in the table anything may be.
    """
    wanted = wanted_model(name)
    known = KNOWN_MODELS.get(wanted.model)
    architecture = None if known is None else known.architecture
    cards = [Card(gpu, architecture) for gpu in _cards(wanted, DeclaredGpu())]
    for pool in pools:
        cards += [
            Card(gpu, pool.architecture or architecture, pool.gpu.interconnect)
            for gpu in _cards(wanted, pool.gpu)
        ]
    return cards


def _cards(wanted: GpuIdentity, said: DeclaredGpu) -> Iterable[GpuIdentity]:
    """Find the card, at most one, that has all that a name says and all that a pool says."""
    if said.model not in {None, wanted.model}:
        return
    if _differ(said.memory_gb, wanted.memory_gb) or _differ(said.form_factor, wanted.form_factor):
        return
    form_factor = said.form_factor or wanted.form_factor
    known = KNOWN_MODELS.get(wanted.model)
    if known is not None:
        if said.form_factor is None and _differ(known.form_factor, form_factor):
            return
        only = known.form_classes.get(form_factor or "")
        classes = known.classes if only is None or said.form_factor is not None else (only,)
        if said.memory_gb is None and wanted.memory_gb not in {None, *classes}:
            return
    card = GpuIdentity(
        model=wanted.model, memory_gb=said.memory_gb or wanted.memory_gb, form_factor=form_factor
    )
    # A pool's word for the form is believed even where its nodes report the memory of another form.
    yield card if said.form_factor is not None else complete(card)


def _differ(one: str | float | None, other: str | float | None) -> bool:
    return None not in {one, other} and one != other
