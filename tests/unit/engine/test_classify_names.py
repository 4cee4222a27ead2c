"""What something is called does not tell why it failed: names of images, commands and folders."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from tests.unit.engine.remote_jobs import ended, pod, seen, waiting

RUNC = "OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    "image",
    ["r.example/api/offline:1", "r.example/mtls/x:1", "r.example/x:503", "r.example/unauthorized/x:429"],
)
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_the_name_of_an_image_is_no_reason(image: str, reason: str) -> None:
    """An image that does not exist is not waited for, nor taken for a denial, because of its name."""
    said = f'failed to pull image "{image}": failed to resolve reference "{image}": {image}: not found'
    outcome = classify(seen(pod(waiting(reason, said), phase="Pending")), LossPolicy())
    assert (outcome.kind, outcome.cause) == (OutcomeKind.CONFIGURATION, "ImageNotFound")
    assert image in outcome.message


def test_an_address_is_no_reason() -> None:
    """What a registry answered counts, not the address that was asked."""
    said = (
        "unexpected status from HEAD request to https://r.example/v2/notfound/manifests/404: 503 Unavailable"
    )
    outcome = classify(seen(pod(waiting("ErrImagePull", said), phase="Pending")), LossPolicy())
    assert (outcome.kind, outcome.cause) == (OutcomeKind.RUNNING, "ErrImagePull")


@pytest.mark.parametrize(
    ("said", "kind", "cause"),
    [
        (
            RUNC
            + 'exec: "/opt/nvidia/start.sh": stat /opt/nvidia/start.sh: no such file or directory: unknown',
            OutcomeKind.APPLICATION,
            "StartError",
        ),
        (
            RUNC
            + 'error during container init: exec: "rocm-train": executable file not found in $PATH: unknown',
            OutcomeKind.APPLICATION,
            "StartError",
        ),
        (
            RUNC + "error during container init: error running prestart hook #0: exit status 1, stderr: "
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
            OutcomeKind.INFRASTRUCTURE,
            "DeviceFault",
        ),
        (
            'OCI runtime error: exec: "nvidia-container-runtime": executable file not found in $PATH',
            OutcomeKind.INFRASTRUCTURE,
            "DeviceFault",
        ),
    ],
    ids=["own command in a vendor's folder", "own command with a vendor's name", "hook", "runtime"],
)
def test_the_name_of_a_command_is_no_reason(said: str, kind: OutcomeKind, cause: str) -> None:
    """A missing command of the job is its own fault; the vendor's hook or runtime is the node's."""
    outcome = classify(seen(pod(ended(128, "StartError", message=said), phase="Failed")), LossPolicy())
    assert (outcome.kind, outcome.cause) == (kind, cause)
