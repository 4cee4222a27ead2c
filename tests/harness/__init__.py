"""What several kinds of tests share.

- :func:`tests.harness.dag_test.run_dag_test`: ``dag.test()`` of a DAG file in a process of its own.
- :func:`tests.harness.leaks.find_leaks`: what a test has left behind on clusters and in Airflow.
"""

from __future__ import annotations
