"""The demo: a training job loses its node and goes on elsewhere (``python -m lab.demo``)."""
