"""Edge to the API server: what its refusals mean, one class per meaning, so that nobody compares status codes.

In: an HTTP status and a metav1.Status, or no answer at all. Out: errors that are `Temporary` or `Permanent`.
Source: kubernetes.io/docs/reference/using-api/api-concepts and the StatusReason list of k8s.io/apimachinery.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.errors import Permanent, Temporary, TfjobError

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "NotFound",
    "NotLeading",
    "Refused",
    "ServerFault",
    "Status",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "error_of",
    "status_of_body",
]

TOO_LARGE_WORDS = "etcdserver: request is too large"
"""kube-apiserver passes etcd's refusal on as an internal error (seen on 1.36)."""
MESSAGE_LIMIT = 2000
"""Characters of a server's message that are kept: a proxy's error page is no message."""


class Status(msgspec.Struct, frozen=True):
    """What a refused request was answered: the HTTP code (0: no answer) and the metav1.Status with it, if any."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class ApiError(TfjobError):
    """Base of everything that a request can end with instead of an answer."""

    status: Status

    @property
    def may_have_taken_effect(self) -> bool:
        """True when the request may have been carried out although it looks failed: only a GET can tell."""
        return False

    @property
    def causes(self) -> list[dict[str, Any]]:
        """`details.causes` of the Status: field paths and the like."""
        found = (self.status.details or {}).get("causes")
        return [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []


class _Lasting(ApiError, Permanent):
    def __init__(self, status: Status) -> None:
        Permanent.__init__(self, status.message, reason=status.reason or type(self).__name__)
        self.status = status


class _Passing(ApiError, Temporary):
    def __init__(self, status: Status, *, retry_after_seconds: float = 0.0) -> None:
        Temporary.__init__(self, status.message, retry_after_seconds=retry_after_seconds)
        self.status = status


class Refused(_Lasting):
    """Any other 4xx: the request itself is wrong (400, 405, 406, 415), or a redirect, which is never followed."""


class NotFound(_Lasting):
    """404: no such object, or no such resource."""


class AlreadyExists(_Lasting):
    """409 AlreadyExists: the name is held."""


class Invalid(_Lasting):
    """422: the schema, a validation or a JSON patch's `test` refused the object."""


class TooLarge(_Lasting):
    """413, or a 500 in etcd's own words: the object would be larger than is stored, and nothing was."""


class Forbidden(_Lasting):
    """403: RBAC, admission or quota; the server's words say which."""


class Gone(_Lasting):
    """410: the resourceVersion or continue token is too old; only a new list helps."""


class Conflict(_Passing):
    """409 of any other reason: the object changed meanwhile, or a precondition did not hold."""


class Unauthorized(_Passing):
    """401, also with freshly read credentials. They may be renewed, so it can pass."""


class TooManyRequests(_Passing):
    """429: nothing was done. `retry_after_seconds` is the server's wish."""


class ServerFault(_Passing):
    """5xx, or an answer that is none: the request may have been carried out all the same."""

    @property
    def may_have_taken_effect(self) -> bool:
        return True


class Unavailable(ServerFault):
    """503: the server or what stands before it is not ready."""


class Unreachable(_Passing):
    """No answer: refused, cut, or not in time."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(Status(code=0, reason="Unreachable", message=message))
        self.was_sent = was_sent

    @property
    def may_have_taken_effect(self) -> bool:
        return self.was_sent


class NotLeading(_Passing):
    """Not sent: this process may write no more (its lease is over)."""

    def __init__(self, message: str) -> None:
        super().__init__(Status(code=0, reason="NotLeading", message=message))


class _StatusBody(msgspec.Struct):
    kind: str = ""
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None
    code: int | None = None


_DECODER = msgspec.json.Decoder(_StatusBody)

_BY_CODE: dict[int, type[_Lasting] | type[_Passing]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
    503: Unavailable,
}


def status_of_body(code: int, body: bytes) -> Status:
    """The Status in an answer's body. A page of a proxy becomes one short line, its markup left out."""
    try:
        found = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if found is not None and (found.kind == "Status" or found.message):
        return Status(
            code=found.code or code,
            reason=found.reason or "",
            message=(found.message or f"HTTP {found.code or code}")[:MESSAGE_LIMIT],
            details=found.details,
        )
    text = body.decode("utf-8", "replace").strip()
    if not text or text.startswith(("<", "{")):
        return Status(code=code, message=f"HTTP {code}")
    return Status(code=code, message=f"HTTP {code}: {text.splitlines()[0][:200]}")


def error_of(status: Status, retry_after_seconds: float = 0.0) -> ApiError:
    """The error that a Status means; `retry_after_seconds` is the Retry-After header's, where there was one."""
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(status)
    if status.code == 500 and TOO_LARGE_WORDS in status.message:
        return TooLarge(status)
    found = _BY_CODE.get(status.code)
    if found is None:
        found = Refused if 300 <= status.code < 500 else ServerFault
    if issubclass(found, _Passing):
        wish = (status.details or {}).get("retryAfterSeconds")
        if not retry_after_seconds and isinstance(wish, int | float):
            retry_after_seconds = float(wish)
        return found(status, retry_after_seconds=retry_after_seconds)
    return found(status)
