"""The process behind ``run_dag_test``: ``python -m tests.harness.dag_test_main FILE DAG_ID CONF_JSON``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow.dag_processing.dagbag import BundleDagBag

from tests.harness.dag_test import RESULT_PREFIX


def main(dag_file: str, dag_id: str, conf_json: str) -> int:
    """Run ``dag.test()`` and print the result as one line of JSON."""
    bag = BundleDagBag(dag_folder=dag_file, bundle_path=Path(dag_file).parent)
    if dag_id not in bag.dags:
        sys.stderr.write(f"{dag_file} has no DAG {dag_id!r}, only {sorted(bag.dags)}; {bag.import_errors}\n")
        return 2
    run = bag.dags[dag_id].test(run_conf=json.loads(conf_json))
    instances = {_label(instance): instance for instance in run.get_task_instances()}
    result = {
        "run_state": run.state,
        "task_states": {label: instance.state for label, instance in instances.items()},
        "tries": {label: instance.try_number for label, instance in instances.items()},
        "xcoms": {
            label: instance.xcom_pull(task_ids=instance.task_id, map_indexes=instance.map_index)
            for label, instance in instances.items()
        },
    }
    sys.stdout.write(f"\n{RESULT_PREFIX}{json.dumps(result, default=str)}\n")
    return 0 if run.state == "success" else 1


def _label(instance: object) -> str:
    map_index = getattr(instance, "map_index", -1)
    task_id = str(getattr(instance, "task_id", ""))
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
