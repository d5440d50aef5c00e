"""Pods: what a new one gets, what is refused, what may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.api import Api
from tests.conformance.objects import pod
from tests.conformance.paths import core


async def test_defaults_of_a_new_pod(api: Api, namespace: str) -> None:
    body = pod("a")
    body["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 2222, "name": "main"}],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    body["spec"]["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    made = await api.made(core(namespace, "pods"), body)
    container = made["spec"]["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert (container["terminationMessagePath"], container["terminationMessagePolicy"]) == (
        "/dev/termination-log",
        "File",
    )
    assert container["resources"] == {}
    assert container["ports"] == [{"containerPort": 2222, "name": "main", "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "status.podIP"}
    assert made["spec"]["volumes"] == [{"name": "code", "configMap": {"name": "code", "defaultMode": 420}}]
    spec = {key: value for key, value in made["spec"].items() if key not in ("containers", "volumes")}
    tolerations = spec.pop("tolerations")
    assert sorted(t["key"] for t in tolerations) == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made["metadata"]["generation"] == 1


def _broken(change: str) -> dict[str, Any]:
    body = pod("a")
    spec = body["spec"]
    container = spec["containers"][0]
    match change:
        case "no containers":
            spec["containers"] = []
        case "no image":
            del container["image"]
        case "no container name":
            del container["name"]
        case "bad container name":
            container["name"] = "Main_1"
        case "twin containers":
            spec["containers"].append(dict(container))
        case "bad hostname":
            spec["hostname"] = "under_score"
        case "bad restart policy":
            spec["restartPolicy"] = "Sometimes"
        case "bad port":
            container["ports"] = [{"containerPort": 70000}]
        case "mount without volume":
            container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/x"}]
    return body


@pytest.mark.parametrize(
    ("change", "field", "reason", "message"),
    [
        ("no containers", "spec.containers", "FieldValueRequired", "Required value"),
        ("no image", "spec.containers[0].image", "FieldValueRequired", "Required value"),
        ("no container name", "spec.containers[0].name", "FieldValueRequired", "Required value"),
        ("bad container name", "spec.containers[0].name", "FieldValueInvalid", 'Invalid value: "Main_1": a lowercase'),
        ("twin containers", "spec.containers[1].name", "FieldValueDuplicate", 'Duplicate value: "main"'),
        ("bad hostname", "spec.hostname", "FieldValueInvalid", 'Invalid value: "under_score": a lowercase RFC 1123'),
        (
            "bad restart policy",
            "spec.restartPolicy",
            "FieldValueNotSupported",
            'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            "bad port",
            "spec.containers[0].ports[0].containerPort",
            "FieldValueInvalid",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "mount without volume",
            "spec.containers[0].volumeMounts[0].name",
            "FieldValueNotFound",
            'Not found: "nowhere"',
        ),
    ],
)
async def test_pods_that_are_refused(
    api: Api, namespace: str, change: str, field: str, reason: str, message: str
) -> None:
    answer = await api.post(core(namespace, "pods"), _broken(change))
    assert answer.refusal() == (422, "Invalid")
    assert answer.body["details"]["kind"] == "Pod"
    assert answer.body["message"].startswith('Pod "a" is invalid: ')
    [(got_field, got_reason, got_message)] = answer.causes()
    assert (got_field, got_reason) == (field, reason)
    assert got_message.startswith(message)


async def test_a_field_of_the_wrong_type_is_400(api: Api, namespace: str) -> None:
    body = pod("a")
    body["spec"]["terminationGracePeriodSeconds"] = "soon"
    answer = await api.post(core(namespace, "pods"), body)
    assert answer.refusal() == (400, "BadRequest")
    assert answer.body["message"].startswith('Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal')


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"name": "main", "image": "example.com/image:1", "command": ["true"]}]}},
        {"spec": {"restartPolicy": "Never"}},
        {"spec": {"nodeName": "elsewhere"}},
    ],
)
async def test_most_of_a_pods_spec_cannot_change(api: Api, namespace: str, patch: dict[str, Any]) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    answer = await api.patch(core(namespace, "pods", "a"), patch)
    assert answer.refusal() == (422, "Invalid")
    [(field, reason, message)] = answer.causes()
    assert (field, reason) == ("spec", "FieldValueForbidden")
    assert message.startswith("Forbidden: pod updates may not change fields other than `spec.containers[*].image`")


async def test_labels_and_image_of_a_pod_can_change(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    labelled = await api.patch(core(namespace, "pods", "a"), {"metadata": {"labels": {"x": "y"}}})
    assert (labelled.status, labelled.body["metadata"]["generation"]) == (200, 1)
    patch = {"spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]}}
    imaged = await api.patch(core(namespace, "pods", "a"), patch)
    assert (imaged.status, imaged.body["metadata"]["generation"]) == (200, 2)


async def test_binding_gives_a_pod_its_node(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"},
    }
    answer = await api.post(core(namespace, "pods", "a", "binding"), binding)
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    bound = (await api.get(core(namespace, "pods", "a"))).body
    assert bound["spec"]["nodeName"] == "n"
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = await api.post(core(namespace, "pods", "a", "binding"), binding)
    assert again.refusal() == (409, "Conflict")


async def test_logs_of_the_absent_are_not_found(api: Api, namespace: str) -> None:
    assert (await api.get(core(namespace, "pods", "nobody", "log"))).refusal() == (404, "NotFound")
    await api.made(core(namespace, "pods"), pod("a"))
    answer = await api.get(core(namespace, "pods", "a", "log"), container="other")
    assert answer.refusal() == (400, "BadRequest")
    assert answer.body["message"] == "container other is not valid for pod a"
