"""Which images a node can have, and what a registry answers to all others, worded as containerd does."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HUB = "docker.io"
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*")
_HOST = re.compile(r"(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(?::[0-9]+)?")
_TAG = re.compile(r"\w[\w.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_RESOLVE = 'failed to pull and unpack image "{full}": failed to resolve reference "{full}": '
_ABSENT = "rpc error: code = NotFound desc = " + _RESOLVE + "{full}: not found"
_ANSWERS = {
    "private": (
        "rpc error: code = Unknown desc = "
        + _RESOLVE
        + "failed to authorize: failed to fetch anonymous token: "
        "unexpected status from GET request to https://{host}/token?scope=repository%3A{scope}%3Apull"
        "&service={host}: 401 Unauthorized"
    ),
    "forbidden": (
        "rpc error: code = Unknown desc = " + _RESOLVE + "unexpected status from HEAD request to "
        "https://{host}/v2/{path}/manifests/{tag}: 403 Forbidden"
    ),
    "busy": (
        'rpc error: code = Unknown desc = failed to pull and unpack image "{full}": failed to copy: '
        "httpReadSeeker: failed open: unexpected status code https://{host}/v2/{path}/manifests/{digest}: "
        "429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull "
        "rate limit. https://www.docker.com/increase-rate-limit"
    ),
    "down": (
        "rpc error: code = Unknown desc = " + _RESOLVE + "failed to do request: Head "
        '"https://{host}/v2/{path}/manifests/{tag}": dial tcp: lookup {host} on 127.0.0.53:53: no such host'
    ),
    "foreign": (
        'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        "no match for platform in manifest: not found"
    ),
    "docker": (
        "rpc error: code = Unknown desc = "
        + _RESOLVE
        + "pull access denied, repository does not exist or may "
        "require authorization: server message: insufficient_scope: authorization failed"
    ),
}
"""First label of a registry's host -> what a pull from it fails with; any other host knows no such image."""


class Problem(NamedTuple):
    """Why a container's image is not there.

    :param pull: whether it was asked of a registry, which a kubelet does again after a growing delay.
    """

    reason: str
    message: str
    pull: bool = False


class _Reference(NamedTuple):
    """A whole image reference.

    :param tag: tag or digest, without the sign before it.
    """

    host: str
    path: str
    tag: str

    def __str__(self) -> str:
        sign = "@" if _DIGEST.fullmatch(self.tag) else ":"
        return f"{self.host}/{self.path}{sign}{self.tag}"


class Images:
    """The images of one node.

    :param patterns: names that it can have, with or without a tag; ``*`` stands for any text without a slash.
    :param more: file with further patterns, one a line, read at each pull: an image that is pushed later.
    """

    def __init__(self, patterns: Iterable[str], more: Path) -> None:
        self._patterns = tuple(patterns)
        self._more = more

    def problem(self, image: str, policy: str) -> Problem | None:
        """Try to get an image; return why it cannot be had, or nothing."""
        reference = _parse(image)
        if reference is None:
            text = f'couldn\'t parse image name "{image}": invalid reference format'
            return Problem("InvalidImageName", f'Failed to apply default image tag "{image}": {text}')
        if self._has(image):
            return None
        if policy == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            return Problem("ErrImageNeverPull", text)
        return Problem("ErrImagePull", _answer(reference), pull=True)

    def _has(self, image: str) -> bool:
        try:
            added = self._more.read_text().split()
        except FileNotFoundError:
            added = []
        bare = _without_tag(image)
        return any(_fits(pattern, name) for pattern in (*self._patterns, *added) for name in (image, bare))


def _fits(pattern: str, name: str) -> bool:
    pieces = (re.escape(piece) for piece in pattern.split("*"))
    return re.fullmatch("[^/]*".join(pieces), name) is not None


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]


def _parse(image: str) -> _Reference | None:
    """Complete an image name as a container runtime does; ``None``: it is no image name."""
    name = _without_tag(image)
    tag = image[len(name) :].lstrip(":@") if len(image) > len(name) else "latest"
    tag = tag.partition("@")[2] or tag  # of a tag and a digest the digest counts
    host, slash, path = name.partition("/")
    if not slash or not (set(".:") & set(host) or host == "localhost"):
        host, path = HUB, name if slash else f"library/{name}"
    parts_fit = all(_NAME.fullmatch(part) for part in path.split("/"))
    if not (_HOST.fullmatch(host) and parts_fit and (_TAG.fullmatch(tag) or _DIGEST.fullmatch(tag))):
        return None
    return _Reference(host, path, tag)


def _answer(reference: _Reference) -> str:
    """Return what the pull of an image that is not there fails with: the registry's host decides."""
    text = _ANSWERS.get(reference.host.split(".")[0], _ABSENT)
    digest = f"sha256:{hashlib.sha256(str(reference).encode()).hexdigest()}"
    return text.format(
        full=reference,
        host=reference.host,
        path=reference.path,
        scope=reference.path.replace("/", "%2F"),
        tag=reference.tag,
        digest=digest,
    )
