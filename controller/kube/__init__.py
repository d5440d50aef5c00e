"""What the edges to the API server share: the client, its typed errors, names and labels, the lease.

Never: a decision.
"""

from controller.kube.client import JSON_PATCH, MERGE_PATCH, KubeClient, Response, connect
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotLeading,
    Refused,
    ServerFault,
    Status,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
)

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeClient",
    "NotFound",
    "NotLeading",
    "Refused",
    "Response",
    "ServerFault",
    "Status",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "connect",
]
