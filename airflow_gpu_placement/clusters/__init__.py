"""The way to a cluster's API: one client, built from a kubeconfig alone, that fails in typed ways.

A module may live here when it speaks HTTP to a cluster without knowing what the answers are for. Nothing
above this layer imports the Kubernetes client library.
"""

from __future__ import annotations
