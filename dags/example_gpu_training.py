"""Train on GPUs wherever they are free, and survive the loss of the node.

What: one training job. It asks for four GPUs of 80 GB, saves a checkpoint an epoch, and returns its accuracy.
Why: the pool is chosen when the task runs, from what every cluster really has at that moment; when the job's
node dies, the next try of the same task goes on in another place from the newest checkpoint.
When: the pattern for a training job that takes longer than it is cheap to repeat.
Needs: a catalogue of GPU pools, an Airflow connection for each of their clusters, an image with the training
program (``dags/training/train_digits.py``), and a folder for checkpoints that every pool can reach.
"""

from __future__ import annotations

from airflow.sdk import dag

from airflow_gpu_placement import GpuTrainingJobOperator


@dag(
    dag_id="example_gpu_training",
    schedule=None,
    catchup=False,
    tags=["gpu", "example"],
    params={
        "image": "registry.example/train-digits:1",
        "python": "python3",
        "program": "/opt/training/train_digits.py",
        "checkpoints": "/mnt/checkpoints",
        "epochs": 12,
        "seconds_per_epoch": 0.0,
    },
    doc_md=__doc__,
)
def example_gpu_training() -> None:
    """Train a classifier of handwritten digits."""
    GpuTrainingJobOperator(
        task_id="train",
        image="{{ params.image }}",
        command=["{{ params.python }}", "{{ params.program }}"],
        arguments=[
            "--epochs",
            "{{ params.epochs }}",
            "--seconds-per-epoch",
            "{{ params.seconds_per_epoch }}",
        ],
        gpu={
            "gpus_per_node": 4,
            "models": ["H100", "A100"],
            "min_memory_gb": 80,
            "checkpoint": {"uri": "file://{{ params.checkpoints }}"},
        },
        volumes=[
            {
                "name": "checkpoints",
                "hostPath": {"path": "{{ params.checkpoints }}", "type": "DirectoryOrCreate"},
            }
        ],
        volume_mounts=[{"name": "checkpoints", "mountPath": "{{ params.checkpoints }}"}],
    )


example_gpu_training()
