"""Plain mode: without mount namespaces, paths and peer names in a manifest are replaced by real ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def path_rewriter(places: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces each mount path in a text by the folder that stands for it.

    A path counts only as a whole: /data does not match in /database or /mnt/data, but it does in
    file:///data and in --out=/data/x.
    """
    moved = {target.rstrip("/"): source for target, source in places.items() if target.rstrip("/") != source}
    if not moved:
        return lambda text: text
    longest_first = sorted(moved, key=len, reverse=True)
    names = "|".join(re.escape(target) for target in longest_first)
    pattern = re.compile(rf"(?:(?<=://)|(?<![\w./~-]))({names})(?![\w.-])")
    return lambda text: pattern.sub(lambda match: moved[match.group(1)], text)


def peer_rewriter(subdomain: str | None, namespace: str) -> Callable[[str], str]:
    """Return a function that replaces the host names of a gang's members by the loopback address.

    Only names that end in a number are replaced (as those of Indexed Jobs do), so that ``model.train``
    in a program stays what it is, even if the subdomain is called train.
    """
    if not subdomain:
        return lambda text: text
    rest = rf"(?:\.{re.escape(namespace)}\.svc(?:\.cluster\.local)?)?"
    pattern = re.compile(
        rf"(?<![\w.-])[a-z0-9][a-z0-9-]*-[0-9]+\.{re.escape(subdomain)}{rest}(?![\w-]|\.[\w-])"
    )
    return lambda text: pattern.sub("127.0.0.1", text)
