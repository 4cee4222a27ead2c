"""A create call that is answered 409 although nothing has the name: the quota was changed meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from aiohttp import web

from airflow_gpu_placement.clusters.errors import Overtaken
from airflow_gpu_placement.launch import job as launching
from airflow_gpu_placement.launch.job import create
from tests.integration.scripted_api import status_of
from tests.integration.test_retry_after import spec
from tests.integration.test_signals_client import talking_to

pytestmark = pytest.mark.asyncio

OVERTAKEN = {
    "kind": "Status",
    "code": 409,
    "reason": "Conflict",
    "message": 'Operation cannot be fulfilled on resourcequotas "gpus": the object has been modified; '
    "please apply your changes to the latest version and try again",
}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pauses between two calls short."""
    monkeypatch.setattr(launching, "_PAUSE_SECONDS", 0.02)


class Api:
    """A server whose quota is changed by others so many times while an object is created.

    :param kind: of the objects that the quota counts, such as ``jobs``.
    """

    def __init__(self, kind: str, times: int) -> None:
        self.kind = kind
        self.times = times
        self.posts: Counter[str] = Counter()
        self.made: set[str] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        name = request.path.rsplit("/", 1)[-1]
        if request.method == "GET" and name == "kube-system":
            return web.json_response({"metadata": {"uid": "u"}})
        if request.method == "GET":
            return web.json_response(status_of(404, "NotFound"), status=404)
        self.posts[name] += 1
        if name == self.kind and self.posts[name] <= self.times:
            return web.json_response(OVERTAKEN, status=409)
        self.made.add(name)
        return web.json_response({"metadata": {"name": "j", "uid": "u"}}, status=201)


@pytest.mark.parametrize("kind", ["jobs", "services"])
async def test_a_quota_that_others_use_too_is_no_name_that_is_taken(kind: str) -> None:
    """The call is made again; a gang without its Service would never find itself."""
    api = Api(kind, times=2)
    async with talking_to(api.handle) as client, asyncio.timeout(10):
        created = await create(client, spec(nodes=2), expected_uid=None)
    assert api.made == {"jobs", "services"}
    assert api.posts[kind] == 3
    assert not created.adopted


@pytest.mark.parametrize("kind", ["jobs", "services"])
async def test_a_quota_that_never_rests_is_told_as_what_it_is(kind: str) -> None:
    """Not as an object that does not exist, which would rule the pool out."""
    api = Api(kind, times=99)
    async with talking_to(api.handle) as client, asyncio.timeout(10):
        with pytest.raises(Overtaken, match='resourcequotas "gpus"'):
            await create(client, spec(nodes=2), expected_uid=None)
    assert api.posts[kind] == 4
