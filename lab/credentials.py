"""Credentials that can be taken back while an API server runs: its token file is read at its start only."""

from __future__ import annotations

import dataclasses
import http.client
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from lab.errors import LabApiError, LabTimeoutError
from lab.pki import write_private
from lab.spec import ADMIN

if TYPE_CHECKING:
    from pathlib import Path

    from lab.api import Cluster
    from lab.client import ApiClient

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_POLL_SECONDS = 0.2
# The API server remembers for 10 s that a token was good.
REVOKE_TIMEOUT_SECONDS = 30.0
_VALID_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Credential:
    """A ServiceAccount with a kubeconfig file whose token is bound to a Secret: without it the token is void.

    Rights are given to :attr:`user`, and stay when the token is replaced.
    """

    cluster: Cluster
    namespace: str
    account: str

    @property
    def user(self) -> str:
        """Name for role bindings of kind User."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    @property
    def kubeconfig_path(self) -> Path:
        """Kubeconfig file with the latest token; the owner alone can read it."""
        return self.cluster.paths.kubeconfig(self.cluster.name, f"{self.namespace}.{self.account}")

    @property
    def token(self) -> str:
        """The latest token."""
        content = yaml.safe_load(self.kubeconfig_path.read_text(encoding="utf-8"))
        token: str = content["users"][0]["user"]["token"]
        return token

    @property
    def client(self) -> ApiClient:
        """A client with the token that is the latest now."""
        return dataclasses.replace(self.cluster.api, token=self.token)

    def renew(self) -> None:
        """Write a new token into the kubeconfig file; the one before stays good until :meth:`revoke`."""
        self._create_account()
        name = f"{self.account}-{uuid.uuid4().hex[:8]}"
        secret = self.cluster.api.post(
            self._path("secrets"), {"metadata": {"name": name, "labels": self._labels}, "type": "Opaque"}
        )
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": secret["metadata"]["uid"]}
        asked = {"spec": {"expirationSeconds": _VALID_SECONDS, "boundObjectRef": bound}}
        answer = self.cluster.api.post(self._path(f"serviceaccounts/{self.account}/token"), asked)
        content = self.cluster.kubeconfig(ADMIN)
        content["users"] = [{"name": self.account, "user": {"token": answer["status"]["token"]}}]
        content["contexts"][0]["context"]["user"] = self.account
        text = yaml.safe_dump(content, sort_keys=False)
        scratch = self.kubeconfig_path.with_suffix(".new")
        write_private(scratch, text.encode())
        scratch.rename(self.kubeconfig_path)

    def revoke(self) -> None:
        """Make every token issued so far void and wait until the API server answers 401 to the latest.

        Watches that are open go on: a server asks for the token once a request.
        """
        for secret in self._secrets():
            self.cluster.api.delete(self._path(f"secrets/{secret['metadata']['name']}"))
        deadline = time.monotonic() + REVOKE_TIMEOUT_SECONDS
        while self._is_good():
            if time.monotonic() > deadline:
                raise LabTimeoutError(
                    f"the token of {self.user} is still good {REVOKE_TIMEOUT_SECONDS:g} s after its Secret "
                    f"was deleted; see the log of {self.cluster.name}/kube-apiserver"
                )
            time.sleep(_POLL_SECONDS)

    def _create_account(self) -> None:
        try:
            self.cluster.api.post(self._path("serviceaccounts"), {"metadata": {"name": self.account}})
        except LabApiError as error:
            if error.status != http.client.CONFLICT:
                raise

    def _secrets(self) -> list[dict[str, Any]]:
        selector = ",".join(f"{key}={value}" for key, value in self._labels.items())
        listed = self.cluster.api.get(self._path("secrets"), labelSelector=selector)
        found: list[dict[str, Any]] = listed["items"]
        return found

    def _is_good(self) -> bool:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            self.client.post(_REVIEW, body)
        except LabApiError as error:
            if error.status != http.client.UNAUTHORIZED:
                raise
            return False
        return True

    @property
    def _labels(self) -> dict[str, str]:
        return {"lab/token-of": self.account}

    def _path(self, rest: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{rest}"
