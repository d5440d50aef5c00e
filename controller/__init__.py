"""tfjob-controller: an async, event-sourced Kubernetes controller for Kubeflow's TFJob (ARCHITECTURE.md)."""

__version__ = "0.1.0"
