"""Lists: selectors, pages, revisions, and the answers in other forms (tables, metadata only)."""

from __future__ import annotations

import pytest

from tests.conformance.api import Api
from tests.conformance.objects import config_map, notice, pod, widget
from tests.conformance.paths import core, widgets

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def names(body: dict) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_a_list_is_sorted_and_carries_a_revision(api: Api, namespace: str) -> None:
    for name in ("b", "c", "a"):
        last = await api.made(core(namespace, "configmaps"), config_map(name))
    answer = await api.get(core(namespace, "configmaps"))
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMapList", "v1")
    assert [name for name in names(answer.body) if name != "kube-root-ca.crt"] == ["a", "b", "c"]
    assert int(answer.body["metadata"]["resourceVersion"]) >= int(last["metadata"]["resourceVersion"])


async def test_items_of_built_in_lists_have_no_kind_and_custom_ones_do(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    await api.made(widgets(namespace), widget("a"))
    pods, ours = await api.get(core(namespace, "pods")), await api.get(widgets(namespace))
    assert [("kind" in item, "apiVersion" in item) for item in pods.body["items"]] == [(False, False)]
    assert ours.body["kind"] == "WidgetList"
    assert [item["kind"] for item in ours.body["items"]] == ["Widget"]


async def test_a_list_over_all_namespaces(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("everywhere"))
    answer = await api.get("/api/v1/pods", fieldSelector="metadata.name=everywhere")
    assert [item["metadata"]["namespace"] for item in answer.body["items"]] == [namespace]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("app=x", ["a", "b"]),
        ("app==x,tier=1", ["a"]),
        ("app!=x", ["c", "d"]),
        ("app in (x, y)", ["a", "b", "c"]),
        ("app notin (x)", ["c", "d"]),
        ("app", ["a", "b", "c"]),
        ("!app", ["d"]),
        ("app,!tier", ["b", "c"]),
        ("nothing=here", []),
    ],
)
async def test_label_selectors(api: Api, namespace: str, selector: str, wanted: list[str]) -> None:
    labels = {"a": {"app": "x", "tier": "1"}, "b": {"app": "x"}, "c": {"app": "y"}, "d": {}}
    for name, given in labels.items():
        await api.made(widgets(namespace), widget(name, labels=given))
    answer = await api.get(widgets(namespace), labelSelector=selector)
    assert names(answer.body) == wanted


async def test_a_label_selector_that_is_none_is_400(api: Api, namespace: str) -> None:
    answer = await api.get(widgets(namespace), labelSelector="a in b")
    assert answer.refusal() == (400, "BadRequest")


async def test_field_selectors_of_pods(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    bound = pod("b")
    bound["spec"]["nodeName"] = "node-1"
    await api.made(core(namespace, "pods"), bound)
    await api.patch(core(namespace, "pods", "b", "status"), {"status": {"phase": "Running"}})
    for selector, wanted in (
        ("status.phase=Running", ["b"]),
        ("status.phase!=Running", ["a"]),
        ("spec.nodeName=node-1", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("metadata.name=a", ["a"]),
        (f"metadata.namespace={namespace},metadata.name!=a", ["b"]),
    ):
        answer = await api.get(core(namespace, "pods"), fieldSelector=selector)
        assert (selector, names(answer.body)) == (selector, wanted)
    unknown = await api.get(core(namespace, "pods"), fieldSelector="spec.containers=x")
    assert unknown.refusal() == (400, "BadRequest")


async def test_field_selectors_of_notices(api: Api, namespace: str) -> None:
    made = await api.made(core(namespace, "events"), notice(namespace))
    other = notice(namespace, reason="Other", type="Warning")
    other["involvedObject"] |= {"name": "other", "uid": "other-uid"}
    await api.made(core(namespace, "events"), other)
    for selector in (
        "involvedObject.name=some-pod",
        "involvedObject.uid=some-uid",
        "reason=Tested",
        "type=Normal",
        f"involvedObject.kind=Pod,involvedObject.namespace={namespace},type!=Warning",
    ):
        answer = await api.get(core(namespace, "events"), fieldSelector=selector)
        assert (selector, names(answer.body)) == (selector, [made["metadata"]["name"]])


async def test_field_selectors_of_custom_objects_are_names_only(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    await api.made(widgets(namespace), widget("b"))
    answer = await api.get(widgets(namespace), fieldSelector="metadata.name=b")
    assert names(answer.body) == ["b"]
    assert (await api.get(widgets(namespace), fieldSelector="spec.size=1")).refusal() == (400, "BadRequest")


# --- pages -------------------------------------------------------------------------------------------------------


async def test_pages_show_one_consistent_state(api: Api, namespace: str) -> None:
    for name in "abcde":
        await api.made(widgets(namespace), widget(name))
    first = await api.get(widgets(namespace), limit=2)
    assert names(first.body) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    await api.delete(widgets(namespace, "c"))
    await api.made(widgets(namespace), widget("dd"))
    token = first.body["metadata"]["continue"]
    second = await api.get(widgets(namespace), limit=2, **{"continue": token})
    assert names(second.body) == ["c", "d"]
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]
    last = await api.get(widgets(namespace), limit=2, **{"continue": second.body["metadata"]["continue"]})
    assert names(last.body) == ["e"]
    assert not last.body["metadata"].get("continue")


async def test_a_continue_token_that_is_none_is_400(api: Api, namespace: str) -> None:
    answer = await api.get(widgets(namespace), limit=2, **{"continue": "nonsense"})
    assert answer.refusal() == (400, "BadRequest")


async def test_an_exact_list_shows_the_past(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    await api.made(widgets(namespace), widget("b"))
    past = await api.get(
        widgets(namespace), resourceVersion=made["metadata"]["resourceVersion"], resourceVersionMatch="Exact"
    )
    assert names(past.body) == ["a"]
    assert past.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_list_not_older_than(api: Api, namespace: str) -> None:
    made = await api.made(widgets(namespace), widget("a"))
    revision = made["metadata"]["resourceVersion"]
    answer = await api.get(widgets(namespace), resourceVersion=revision, resourceVersionMatch="NotOlderThan")
    assert names(answer.body) == ["a"]
    assert int(answer.body["metadata"]["resourceVersion"]) >= int(revision)
    cached = await api.get(widgets(namespace), resourceVersion="0")
    assert cached.status == 200


async def test_a_match_needs_a_revision(api: Api, namespace: str) -> None:
    answer = await api.get(widgets(namespace), resourceVersionMatch="Exact")
    assert answer.refusal() == (422, "Invalid")
    assert answer.causes() == [
        (
            "resourceVersionMatch",
            "FieldValueForbidden",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
    ]


async def test_a_list_of_the_future_is_a_timeout(api: Api, namespace: str) -> None:
    answer = await api.get(widgets(namespace), resourceVersion="99999999999")
    assert answer.refusal() == (504, "Timeout")
    assert answer.body["message"].startswith("Timeout: Too large resource version: 99999999999, current: ")
    assert answer.body["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]


async def test_a_list_of_the_distant_past_is_gone(api: Api, namespace: str) -> None:
    if api.target.local is not None:
        await api.made(widgets(namespace), widget("a"))
        api.target.local.store.compact()
    answer = await api.get(widgets(namespace), resourceVersion="1", resourceVersionMatch="Exact")
    if api.target.local is None and answer.status == 200:
        # etcd keeps five minutes: a young server still knows its first revision
        assert answer.body["metadata"]["resourceVersion"] == "1"
        return
    assert answer.refusal() == (410, "Expired")


# --- other forms -------------------------------------------------------------------------------------------------


async def test_tables_for_kubectl(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a", spec={"size": 3}))
    status = {"conditions": [{"type": "Created"}, {"type": "Running"}]}
    await api.patch(widgets(namespace, "a", "status"), {"status": status})
    answer = await api.send("GET", widgets(namespace), accept=TABLE)
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(c["name"], c["type"]) for c in answer.body["columnDefinitions"]]
    assert columns == [("Name", "string"), ("State", "string"), ("Size", "integer"), ("Age", "date")]
    row = answer.body["rows"][0]
    assert row["cells"][:3] == ["a", "Running", 3]
    assert row["cells"][3].endswith("s")
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")


async def test_tables_of_pods(api: Api, namespace: str) -> None:
    await api.made(core(namespace, "pods"), pod("a"))
    answer = await api.send("GET", core(namespace, "pods"), accept=TABLE)
    columns = [(c["name"], c["priority"]) for c in answer.body["columnDefinitions"]]
    assert columns == [
        ("Name", 0), ("Ready", 0), ("Status", 0), ("Restarts", 0), ("Age", 0),
        ("IP", 1), ("Node", 1), ("Nominated Node", 1), ("Readiness Gates", 1),
    ]  # fmt: skip
    cells = answer.body["rows"][0]["cells"]
    assert cells[:4] == ["a", "0/1", "Pending", "0"]
    assert cells[5:] == ["<none>", "<none>", "<none>", "<none>"]


async def test_metadata_alone(api: Api, namespace: str) -> None:
    made = await api.made(core(namespace, "pods"), pod("a", labels={"x": "y"}))
    listed = await api.send("GET", core(namespace, "pods"), accept=PARTIAL_LIST)
    assert (listed.body["kind"], listed.body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [set(item) - {"kind", "apiVersion"} for item in listed.body["items"]] == [{"metadata"}]
    assert listed.body["items"][0]["metadata"] == made["metadata"]
    one = await api.send("GET", core(namespace, "pods", "a"), accept=PARTIAL)
    assert one.body == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


async def test_an_unknown_form_is_not_acceptable(api: Api, namespace: str) -> None:
    answer = await api.send("GET", core(namespace, "pods"), accept="image/png")
    assert answer.status == 406
