"""A catalogue to start from, ready to paste."""

from __future__ import annotations

EXAMPLE = """\
version: 1
defaults:
  namespace: training
pools:
  - name: onprem-h100                # any name; it appears in decisions and labels
    kubernetes_conn_id: onprem       # an Airflow connection of type kubernetes: the credentials live there
    capacity_type: reserved          # reserved, on_demand or spot
    node_selector:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
    price:
      gpu_hour_usd: 2.10             # leave price out when it is unknown; 0 is a real price
      source: internal rate 2026
"""
"""The GPU's model, memory and number per node are read from the nodes and need not be written."""
