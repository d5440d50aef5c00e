"""The part of the CRD's schema below tfReplicaSpecs, and how its rules are written.

In: nothing. Out: schemas as plain JSON for make.py.

An older object that is wrong must still have its status written. The API server leaves out what an update did not
touch, but takes an object for touched once it holds fields that the schema does not know, and pod templates do. Rules
on what holds a template, and at the root, therefore see for themselves what was there before (`oldSelf`, an optional).
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
TYPES = "Chief, Master, Worker, PS, Evaluator"
LOWER_TYPES = "['chief', 'master', 'worker', 'ps', 'evaluator']"
POD_FIELDS = {
    "metadata": ("object", "template.metadata"),
    "spec": ("object", "template.spec"),
    "containers": ("array", "template.spec"),
    "initContainers": ("array", "template.spec"),
    "volumes": ("array", "template.spec"),
    "imagePullSecrets": ("array", "template.spec"),
    "tolerations": ("array", "template.spec"),
    "nodeSelector": ("object", "template.spec"),
    "affinity": ("object", "template.spec"),
    "securityContext": ("object", "template.spec"),
    "serviceAccountName": ("string", "template.spec"),
    "schedulerName": ("string", "template.spec"),
    "priorityClassName": ("string", "template.spec"),
    "hostNetwork": ("boolean", "template.spec"),
}
"""Fields of a pod that manifests have directly under a replica by mistake, with their types and right places."""
MOST_CONTAINERS = 100
MOST_TYPES = 8
"""More than there are: a sixth key is then refused in the words of what is wrong with it."""
LONGEST_TEXT = 4096


def rule(expression: str, message: str, *, at: str = "", said: str = "", sees_before: bool = False) -> Json:
    """One CEL rule.

    `at` is the field below that is wrong; `said` an expression for a message that names more than `message` can;
    `sees_before` makes `oldSelf` an optional, and runs the rule on creation as well.
    """
    found: Json = {"rule": expression, "message": message}
    if at:
        found["fieldPath"] = at
    if said:
        found["messageExpression"] = said
    if sees_before:
        found["optionalOldSelf"] = True
    return found


def needed(field: str, message: str) -> Json:
    """As `required`, but for objects that had no such field before."""
    return rule(f"has(self.{field}) || {_had('!', field)}", message, at=f".{field}", sees_before=True)


def _had(negation: str, field: str) -> str:
    return f"(oldSelf.hasValue() && {negation}has(oldSelf.value().{field}))"


def container() -> Json:
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "image": {"type": "string", "maxLength": LONGEST_TEXT},
        },
        "x-kubernetes-validations": [
            rule("has(self.image) && self.image != ''", "is missing: every container needs an image", at=".image")
        ],
    }


def template() -> Json:
    has_main = "self.exists(c, has(c.name) && c.name == 'tensorflow')"
    missing = "needs a container named tensorflow: it decides how an attempt ended"
    containers = {
        "type": "array",
        "maxItems": MOST_CONTAINERS,
        "items": container(),
        "x-kubernetes-validations": [rule(has_main, missing)],
    }
    return {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "spec": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"containers": containers},
                "x-kubernetes-validations": [needed("containers", missing)],
            },
        },
        "x-kubernetes-validations": [needed("spec", "needs a spec with a container named tensorflow")],
    }


def _any_of_type(kind: str) -> Json:
    if kind == "array":
        return {"type": "array", "items": _any_of_type("object")}
    return {"type": kind, **({"x-kubernetes-preserve-unknown-fields": True} if kind == "object" else {})}


def replica() -> Json:
    count: Json = {
        # Not `type: integer`: rules further up could not read a text that an older object has here.
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maximum": 2**31 - 1,
        "description": "How many pods of this type: an integer, 1 when it is not given.",
        "x-kubernetes-validations": [rule("type(self) == int", "must be an integer, not text")],
    }
    return {
        "type": "object",
        "nullable": True,
        "properties": {
            "replicas": count,
            "restartPolicy": {"type": "string", "enum": ["Always", "OnFailure", "Never", "ExitCode"]},
            "template": template(),
            # Known only to be refused in words: pruning would drop them in silence.
            **{field: _any_of_type(kind) for field, (kind, _) in POD_FIELDS.items()},
        },
        "x-kubernetes-validations": [
            needed("template", "is missing: write the pod, with a container named tensorflow, under template.spec"),
            *(
                rule(
                    f"!has(self.{field}) || {_had('', field)}",
                    f"{field} belongs to the pod: write it under {place}",
                    at=f".{field}",
                    sees_before=True,
                )
                for field, (_, place) in POD_FIELDS.items()
            ),
        ],
    }


def _for_all(wrong: str, was_so: str, message: str, words: str) -> Json:
    """A rule that holds when no key `k` is `wrong` unless it `was_so`; its message names one of them."""
    is_new = f"{wrong} && !(oldSelf.hasValue() && k in oldSelf.value() && {was_so})"
    said = f"self.filter(k, {wrong})[0] + '{words}'"
    return rule(f"!self.exists(k, {is_new})", message, said=said, sees_before=True)


def replicas() -> Json:
    lower = "k.lowerAscii()"
    return {
        "type": "object",
        "maxProperties": MOST_TYPES,
        "additionalProperties": replica(),
        "x-kubernetes-validations": [
            rule("size(self) > 0", f"is empty: name at least one replica type ({TYPES})"),
            _for_all(
                f"!({lower} in {LOWER_TYPES})",
                "true",
                f"has an unknown replica type: write one of {TYPES}",
                f" is no replica type: write one of {TYPES}",
            ),
            _for_all(
                "self[k] == null",
                "oldSelf.value()[k] == null",
                "has a replica type that is null: give it a template, or leave it out",
                " is null: give it a template, or leave it out",
            ),
            _for_all(
                f"!self.exists_one(o, o.lowerAscii() == {lower})",
                "true",
                "has the same replica type twice in different case: write it once",
                " stands here twice, in different case: write it once",
            ),
            _for_all(
                f"{lower} in ['chief', 'master'] && self.exists(o, o.lowerAscii() in ['chief', 'master']"
                f" && o.lowerAscii() != {lower})",
                "true",
                "has a Chief and a Master: at most one of the two may decide the job",
                " cannot stand beside the other of Chief and Master: at most one of the two may decide the job",
            ),
            _for_all(
                f"{lower} in ['chief', 'master'] && self[k] != null && has(self[k].replicas) && self[k].replicas != 1",
                "oldSelf.value()[k] != null && has(oldSelf.value()[k].replicas)"
                " && oldSelf.value()[k].replicas == self[k].replicas",
                "has a Chief or Master whose replicas is not 1: a job has exactly one",
                ".replicas must be 1: a job has exactly one Chief or Master",
            ),
        ],
    }
