"""The clients that people use, against both servers: kubectl and kubernetes_asyncio."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio import client, config, watch

from tests.conformance.api import Api
from tests.conformance.objects import GROUP, config_map, pod, widget
from tests.conformance.paths import core, widgets
from tests.controlplane.kubectl import kubectl_path


async def kubectl(api: Api, namespace: str, *arguments: str, stdin: Any = None, code: int = 0) -> str:
    """Runs kubectl; its output, errors included. Fails if the exit code is another."""
    process = await asyncio.create_subprocess_exec(
        kubectl_path(),
        "--kubeconfig", str(api.target.kubeconfig), "--namespace", namespace, *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    text = b"" if stdin is None else yaml.safe_dump(stdin).encode()
    out, _ = await asyncio.wait_for(process.communicate(text), 60)
    assert process.returncode == code, out.decode()
    return out.decode()


async def test_kubectl_apply_get_describe_delete(api: Api, namespace: str) -> None:
    body = widget("a", spec={"size": 3})
    assert f"widget.{GROUP}/a created" in await kubectl(api, namespace, "apply", "-f", "-", stdin=body)
    assert f"widget.{GROUP}/a unchanged" in await kubectl(api, namespace, "apply", "-f", "-", stdin=body)
    body["spec"]["size"] = 4
    assert f"widget.{GROUP}/a configured" in await kubectl(api, namespace, "apply", "-f", "-", stdin=body)
    header, row = (await kubectl(api, namespace, "get", "wdg")).splitlines()
    assert header.split() == ["NAME", "STATE", "SIZE", "AGE"]
    assert row.split()[:2] == ["a", "4"]
    described = await kubectl(api, namespace, "describe", "widget", "a")
    assert "Size:   4" in described
    shown = json.loads(await kubectl(api, namespace, "get", "widget", "a", "-o", "json"))
    assert shown["spec"] == {"size": 4, "color": "red"}
    await kubectl(api, namespace, "delete", "widget", "a")
    assert "NotFound" in await kubectl(api, namespace, "get", "widget", "a", code=1)


async def test_kubectl_refuses_unknown_fields(api: Api, namespace: str) -> None:
    body = widget("a", spec={"size": 3, "colour": "red"})
    told = await kubectl(api, namespace, "apply", "-f", "-", stdin=body, code=1)
    assert 'strict decoding error: unknown field "spec.colour"' in told
    told = await kubectl(api, namespace, "create", "-f", "-", stdin=body, code=1)
    assert 'unknown field "spec.colour"' in told


async def test_kubectl_waits_for_a_condition(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    waiting = asyncio.create_task(
        kubectl(api, namespace, "wait", "--for=condition=Succeeded", "widget/a", "--timeout=30s")
    )
    conditions = [{"type": "Succeeded", "status": "True"}]
    await api.patch(widgets(namespace, "a", "status"), {"status": {"conditions": conditions}})
    assert "condition met" in await waiting


async def test_kubectl_delete_waits_for_finalizers(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a", finalizers=["conformance.example.com/held"]))
    deleting = asyncio.create_task(kubectl(api, namespace, "delete", "widget", "a", "--timeout=30s"))
    await api.marked(widgets(namespace, "a"))
    assert not deleting.done()
    await api.patch(widgets(namespace, "a"), {"metadata": {"finalizers": None}})
    assert 'widget.conformance.example.com "a" deleted' in await deleting


async def test_kubectl_on_built_in_kinds(api: Api, namespace: str) -> None:
    await kubectl(api, namespace, "run", "p", "--image=example.com/image:1", "--restart=Never")
    rows = (await kubectl(api, namespace, "get", "pods", "-o", "wide")).splitlines()
    assert rows[1].split()[:4] == ["p", "0/1", "Pending", "0"]
    described = await kubectl(api, namespace, "describe", "pod", "p")
    assert ["Status:", "Pending"] in [line.split() for line in described.splitlines()]
    await kubectl(api, namespace, "label", "pod", "p", "x=y")
    assert "pod/p" in await kubectl(api, namespace, "get", "all", "-l", "x=y", "-o", "name")
    await kubectl(api, namespace, "create", "configmap", "cm", "--from-literal=a=b")
    assert (await api.get(core(namespace, "configmaps", "cm"))).body["data"] == {"a": "b"}
    await kubectl(api, namespace, "delete", "pod", "p", "--now")
    assert "example.com/image:1" not in await kubectl(api, namespace, "get", "pods", "-o", "yaml")


async def test_kubectl_applies_built_in_kinds_both_ways(api: Api, namespace: str) -> None:
    body = config_map("cm", {"a": "1", "b": "2"})
    await kubectl(api, namespace, "apply", "-f", "-", stdin=body)
    await kubectl(api, namespace, "apply", "-f", "-", stdin=config_map("cm", {"a": "3"}))
    assert (await api.get(core(namespace, "configmaps", "cm"))).body["data"] == {"a": "3"}
    other = config_map("ssa", {"a": "1"})
    assert "serverside-applied" in await kubectl(api, namespace, "apply", "--server-side", "-f", "-", stdin=other)
    assert "serverside-applied" in await kubectl(api, namespace, "apply", "--server-side", "-f", "-", stdin=other)
    body = pod("p", labels={"a": "1"})
    await kubectl(api, namespace, "apply", "-f", "-", stdin=body)
    body["spec"]["containers"][0]["image"] = "example.com/image:2"
    assert "pod/p configured" in await kubectl(api, namespace, "apply", "-f", "-", stdin=body)


async def test_kubectl_creates_namespaces_and_explains(api: Api, namespace: str) -> None:
    name = f"{namespace}-by-kubectl"
    await kubectl(api, namespace, "create", "namespace", name)
    assert name in await kubectl(api, namespace, "get", "namespaces")
    await kubectl(api, namespace, "delete", "namespace", name)
    assert (await api.get(f"/api/v1/namespaces/{name}")).status == 404
    assert "size\t<integer> -required-" in await kubectl(api, namespace, "explain", "widget.spec")
    assert "widgets" in await kubectl(api, namespace, "api-resources")


async def test_kubectl_watches(api: Api, namespace: str) -> None:
    await api.made(widgets(namespace), widget("a"))
    process = await asyncio.create_subprocess_exec(
        kubectl_path(),
        "--kubeconfig", str(api.target.kubeconfig), "--namespace", namespace, "get", "widgets", "--watch",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert b"NAME" in await process.stdout.readline()
        assert b"a " in await process.stdout.readline()
        await api.made(widgets(namespace), widget("b"))
        assert b"b " in await process.stdout.readline()
    process.kill()
    await process.wait()


# --- kubernetes_asyncio ------------------------------------------------------------------------------------------


async def client_of(kubeconfig: Path) -> client.ApiClient:
    configuration = client.Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    return client.ApiClient(configuration)


async def test_the_typed_client(api: Api, namespace: str) -> None:
    async with await client_of(api.target.kubeconfig) as connection:
        core_v1 = client.CoreV1Api(connection)
        made = await core_v1.create_namespaced_pod(namespace, pod("a", labels={"x": "y"}))
        assert made.metadata.uid
        assert made.status.phase == "Pending"
        read = await core_v1.read_namespaced_pod("a", namespace)
        assert read.metadata.resource_version == made.metadata.resource_version
        listed = await core_v1.list_namespaced_pod(namespace, label_selector="x=y")
        assert [item.metadata.name for item in listed.items] == ["a"]
        with pytest.raises(client.ApiException) as refused:
            await core_v1.create_namespaced_pod(namespace, pod("a"))
        assert (refused.value.status, json.loads(refused.value.body)["reason"]) == (409, "AlreadyExists")
        await core_v1.delete_namespaced_pod("a", namespace)


async def test_the_typed_clients_watch(api: Api, namespace: str) -> None:
    async with await client_of(api.target.kubeconfig) as connection:
        core_v1 = client.CoreV1Api(connection)
        await api.made(core(namespace, "pods"), pod("a"))
        seen = []
        async with watch.Watch().stream(core_v1.list_namespaced_pod, namespace, timeout_seconds=20) as stream:
            async for event in stream:
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 1:
                    await api.delete(core(namespace, "pods", "a"))
                if event["type"] == "DELETED":
                    break
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_the_custom_objects_client(api: Api, namespace: str) -> None:
    async with await client_of(api.target.kubeconfig) as connection:
        custom = client.CustomObjectsApi(connection)
        made = await custom.create_namespaced_custom_object(GROUP, "v1", namespace, "widgets", widget("a"))
        assert made["metadata"]["generation"] == 1
        status = [{"op": "add", "path": "/status", "value": {"phase": "New"}}]
        patched = await custom.patch_namespaced_custom_object_status(
            GROUP, "v1", namespace, "widgets", "a", status, _content_type="application/json-patch+json"
        )
        assert patched["status"] == {"phase": "New"}
        listed = await custom.list_namespaced_custom_object(GROUP, "v1", namespace, "widgets")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
