"""An in-memory Kubernetes API server with true semantics for the resources that TFJobs are made of."""

from controller.local.apiserver.server import LocalApiServer
from controller.local.apiserver.store import Store

__all__ = ["LocalApiServer", "Store"]
