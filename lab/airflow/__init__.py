"""A local Airflow of real processes: for tests, the demo and benchmarks.

- :class:`lab.airflow.servers.AirflowProcesses`: scheduler, dag-processor, api-server and triggerer as
  separate processes with a home of their own; each can be killed and started again by name.
- ``AirflowProcesses.client``: a :class:`lab.airflow.client.AirflowClient`, the public REST API with waiting.
- :func:`lab.airflow.diagnostics.register`: text to print below a failure, such as the tails of server logs.
"""

from __future__ import annotations
