"""Fixed words that requests and catalogues share, and how another spelling of one is read."""

from __future__ import annotations

from airflow_gpu_placement.model.nearest import nearest

FORM_FACTORS = ("PCIe", "SXM", "NVL", "OAM", "APU")
"""How a GPU is mounted. A request may also name ``HGX``, a full board of SXM ones."""

INTERCONNECTS = ("nvlink", "nvswitch", "pcie")
"""Between the GPUs of a node."""

ARCHITECTURES = ("amd64", "arm64")
"""Of the processors of a node."""

NETWORK_KINDS = (
    "infiniband",
    "roce",
    "efa",
    "gpudirect-tcpx",
    "gpudirect-tcpxo",
    "gpudirect-rdma",
    "slingshot",
    "ethernet",
)
"""Between the nodes of a job."""


def plain_word(text: str) -> str:
    """Fold the spelling of a word: lower case, ``_`` for ``-`` and blanks."""
    return text.strip().casefold().replace("-", "_").replace(" ", "_")


def spelled(text: str, known: tuple[str, ...], what: str) -> str:
    """Return the known spelling of a word; a generation behind it is dropped: ``SXM5`` is ``SXM``.

    :param what: kind of word, for the message.
    :raises ValueError: it is none of the known words; says what to write instead.
    """
    folded = plain_word(text)
    by_folded = {plain_word(word): word for word in known}
    found = by_folded.get(folded) or by_folded.get(folded.rstrip("0123456789"))
    if found is None:
        hint = nearest(text, known)
        listed = "" if hint.startswith("one of") else f" (one of: {', '.join(known)})"
        raise ValueError(f"{text!r} is not a known {what}; {hint}{listed}")
    return found
