"""Answers that are not success: each failure of the Kubernetes API as one exception that knows its Status object.

In: what went wrong, in the words of the API conventions (reason, resource, name, field path).
Out: `ApiFailure`, whose `status()` is the `Status` object that goes on the wire.
Never: HTTP objects; the handlers turn a failure into a response.

Wording and codes follow k8s.io/apimachinery/pkg/api/errors of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: a field path, the reason's constant and the words after the path."""

    field: str
    reason: str
    message: str


class ApiFailure(Exception):
    """A request that the API refuses; `code` is the HTTP status, `status()` the Status object."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        # An expired continue token is answered with a fresh one in the Status' own metadata.
        self.list_metadata: Json = {}

    def status(self) -> Json:
        """The `Status` object (kind, apiVersion, metadata, status, message, reason, details, code)."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _details(name: str, group: str, kind: str) -> Json:
    return {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        **({"kind": kind} if kind else {}),
    }


def qualified(plural: str, group: str) -> str:
    """`plural` for the core group, else `plural.group`, as messages name a resource."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiFailure:
    """404: no object of that name."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return ApiFailure(404, "NotFound", message, _details(name, group, plural))


def already_exists(plural: str, group: str, name: str) -> ApiFailure:
    """409 AlreadyExists: a create whose name is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, _details(name, group, plural))


def conflict(plural: str, group: str, name: str, why: str) -> ApiFailure:
    """409 Conflict: an optimistic lock or a precondition that does not hold."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, _details(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(message: str, causes: Iterable[Cause]) -> ApiFailure:
    """409 Conflict of a server-side apply: fields that another manager owns."""
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiFailure(409, "Conflict", message, {"causes": listed})


def bad_request(message: str) -> ApiFailure:
    """400: the body or a parameter cannot be read."""
    return ApiFailure(400, "BadRequest", message)


def invalid(kind: str, group: str, name: str, causes: Iterable[Cause]) -> ApiFailure:
    """422: the object was read and breaks rules; one cause for each field."""
    listed = list(causes)
    texts = [f"{c.field}: {c.message}" for c in listed]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(dict.fromkeys(texts))}]"
    subject = f"{kind}.{group}" if group else kind
    details = _details(name, group, kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in listed]
    return ApiFailure(422, "Invalid", f'{subject} "{name}" is invalid: {joined}', details)


def forbidden(plural: str, group: str, name: str, why: str, causes: Iterable[Cause] = ()) -> ApiFailure:
    """403: admission refuses the object."""
    details = _details(name, group, plural)
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    if listed:
        details["causes"] = listed
    return ApiFailure(403, "Forbidden", f'{qualified(plural, group)} "{name}" is forbidden: {why}', details)


def rejected_patch() -> ApiFailure:
    """422 without a cause: a JSON patch whose operations cannot be applied (a `test` that fails among them)."""
    return ApiFailure(422, "Invalid", "the server rejected our request due to an error in our request", {})


def expired(message: str) -> ApiFailure:
    """410: the asked-for resourceVersion is no longer kept."""
    return ApiFailure(410, "Expired", message)


def no_such_resource() -> ApiFailure:
    """404 for a path of the core API that names nothing."""
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", {})


def internal(message: str) -> ApiFailure:
    """500: what the real server fails to turn into a better answer."""
    return ApiFailure(500, "", message)


def too_large_resource_version(asked: int, current: int) -> ApiFailure:
    """504: a read at a resourceVersion that this server has not reached."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiFailure(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {current}", details)


def method_not_allowed() -> ApiFailure:
    """405: the resource has no such verb."""
    return ApiFailure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(message: str) -> ApiFailure:
    """415: a body in a form that is not read here."""
    return ApiFailure(415, "UnsupportedMediaType", message)


def not_implemented(what: str) -> ApiFailure:
    """501: a part of the Kubernetes API that the local server leaves out; the message names it."""
    return ApiFailure(501, "NotImplemented", f"the local API server does not implement {what}")


def required(field: str, detail: str = "") -> Cause:
    """A field that must be there."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, shown: str, detail: str) -> Cause:
    """A value that breaks a rule; `shown` is the value as the server prints it (strings in quotes)."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {detail}")


def forbidden_field(field: str, detail: str) -> Cause:
    """A field that may not be set or changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")
