"""Run the credential plugin that a kubeconfig names, such as ``aws eks get-token``, within a bounded time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Any

from airflow_gpu_placement.exceptions import Unreachable

PLUGIN_SECONDS = 30.0
"""Plugins ask their cloud, which takes a second or two."""

_END_SECONDS = 1.0
_SHOWN = 500


async def with_credentials(user: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user of a kubeconfig with what its plugin said in place of the plugin.

    The client library would wait for a plugin for ever, leave it running when nobody waits any more, and keep
    the keys that it was given in files.

    :param user: a user without a plugin stays as it is.
    :raises Unreachable: the plugin has not answered in time.
    :raises ValueError: it failed, or said nothing usable.
    """
    rest = {key: value for key, value in user.items() if key != "exec"}
    plugin = user.get("exec")
    return rest if plugin is None else rest | await _credentials(plugin)


async def _credentials(plugin: Any) -> dict[str, str]:
    if not isinstance(plugin, Mapping) or not plugin.get("command") or not plugin.get("apiVersion"):
        raise ValueError("the user's exec entry must have a command and an apiVersion")
    command = str(plugin["command"])
    output = await _output(command, [str(one) for one in plugin.get("args") or ()], _environment(plugin))
    try:
        answer = json.loads(output)
        status = answer["status"]
        token, certificate, key = map(status.get, ("token", "clientCertificateData", "clientKeyData"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"plugin {command}: its output is no ExecCredential with a status") from error
    spoken, asked = answer.get("apiVersion"), plugin["apiVersion"]
    if spoken != asked:
        raise ValueError(f"plugin {command} speaks {spoken}, the kubeconfig asks for {asked}")
    found = {"token": token} if token else {}
    if certificate and key:
        found |= {"client-certificate-data": _inline(certificate), "client-key-data": _inline(key)}
    if not found:
        raise ValueError(f"plugin {command} gave neither a token nor a certificate with its key")
    return found


def _environment(plugin: Mapping[str, Any]) -> dict[str, str]:
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    more = {str(one["name"]): str(one["value"]) for one in plugin.get("env") or ()}
    return {**os.environ, **more, "KUBERNETES_EXEC_INFO": json.dumps(asked)}


async def _output(command: str, arguments: list[str], environment: dict[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        command,
        *arguments,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # some plugins are scripts that start the real one
    )
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            output, said = await process.communicate()
    except TimeoutError as error:
        raise Unreachable(f"plugin {command} has not answered within {PLUGIN_SECONDS:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
    if process.returncode:
        why = said.decode("utf-8", "replace").strip()[:_SHOWN]
        raise ValueError(f"plugin {command} ended with {process.returncode}: {why or 'it did not say why'}")
    return output


def _inline(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()
