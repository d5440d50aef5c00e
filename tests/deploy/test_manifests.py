"""The kustomize layout: it is what its source says, renders, and keeps what DESIGN §6 asks of every installation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from controller.run.tally import Tally
from controller.run.vitals import Vitals
from controller.settings import Settings
from controller.web.exposition import ControllerCollector
from tests.deploy.layouts import CHART, KUSTOMIZE, OVERLAYS, ROOT, Json, Objects, kustomized, with_components

NAME = "tfjob-controller"
NO_VALUES = {"database_url", "kubeconfig", "context"}


def test_the_files_are_what_their_source_makes() -> None:
    done = subprocess.run([sys.executable, "deploy/make.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pod_templates(objects: Objects) -> list[Json]:
    return [each["spec"]["template"] for each in objects.values() if each["kind"] in ("Deployment", "Job")]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_renders_with_what_an_installation_needs(overlay: str) -> None:
    objects = kustomized(KUSTOMIZE / "overlays" / overlay)
    kinds = {kind for kind, _ in objects}
    assert {"ServiceAccount", "Deployment", "Job", "PodDisruptionBudget", "NetworkPolicy", "Service", "Role"} <= kinds
    assert objects["Deployment", NAME]["spec"]["replicas"] == 2
    own = objects["ServiceAccount", NAME]["metadata"]["namespace"]
    accounts = [
        subject
        for each in objects.values()
        for subject in each.get("subjects") or ()
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
    ]
    assert accounts
    assert all(each == {"kind": "ServiceAccount", "name": NAME, "namespace": own} for each in accounts)
    rules = [rule for (kind, _), each in objects.items() if kind in ("Role", "ClusterRole") for rule in each["rules"]]
    assert not any("secrets" in rule["resources"] or "*" in rule["resources"] for rule in rules)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_restricted_and_without_a_sidecar(overlay: str) -> None:
    for template in pod_templates(kustomized(KUSTOMIZE / "overlays" / overlay)):
        assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in template["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]


def test_one_namespace_has_no_object_outside_of_it() -> None:
    objects = kustomized(KUSTOMIZE / "overlays" / "namespaced")
    assert {each["metadata"].get("namespace") for each in objects.values()} == {"tfjob"}
    environment = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["env"]
    own = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert {"name": "TFJOB_NAMESPACE", "valueFrom": own} in environment


def test_flow_control_names_the_account_where_it_is() -> None:
    for overlay, namespace in (("standalone", "tfjob-system"), ("kubeflow", "kubeflow")):
        objects = kustomized(KUSTOMIZE / "overlays" / overlay)
        schemas = [each for (kind, _), each in objects.items() if kind == "FlowSchema"]
        assert len(schemas) == 2
        for schema in schemas:
            subject = schema["spec"]["rules"][0]["subjects"][0]
            assert subject["serviceAccount"] == {"name": NAME, "namespace": namespace}


@pytest.mark.parametrize(
    ("component", "variable", "value"),
    [
        ("gang-volcano", "TFJOB_GANG_SCHEDULER", "volcano"),
        ("gang-scheduler-plugins", "TFJOB_GANG_SCHEDULER", "scheduler-plugins"),
        ("pod-finalizer", "TFJOB_POD_FINALIZER", "true"),
    ],
)
def test_a_component_brings_the_setting_and_its_rights(
    component: str, variable: str, value: str, tmp_path: Path
) -> None:
    plain = kustomized(KUSTOMIZE / "overlays" / "standalone")
    objects = with_components("standalone", component, folder=tmp_path)
    environment = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": variable, "value": value} in environment
    assert {kind for kind, _ in set(objects) - set(plain)} == {"ClusterRole", "ClusterRoleBinding"}


def exposed() -> set[str]:
    """The names of all samples that the controller exposes."""
    registry = CollectorRegistry()
    registry.register(ControllerCollector(lambda: Vitals(Tally())))
    found = set()
    for family in registry.collect():
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
        found |= {family.name + end for end in ends}
    return found


def test_alerts_and_panels_name_metrics_that_there_are(tmp_path: Path) -> None:
    objects = with_components("standalone", "monitoring", folder=tmp_path)
    rules = objects["PrometheusRule", NAME]["spec"]["groups"][0]["rules"]
    panels = json.loads(objects["ConfigMap", f"{NAME}-dashboard"]["data"]["tfjobs.json"])["panels"]
    expressions = [each["expr"] for each in rules]
    expressions += [target["expr"] for panel in panels for target in panel["targets"] if "expr" in target]
    named = {name for each in expressions for name in re.findall(r"\b(?:tfjob|training_operator)_\w+", each)}
    assert named and named <= exposed(), named - exposed()
    page = (ROOT / "docs" / "METRICS.md").read_text()
    assert all(f"`{name.removesuffix('_bucket')}`" in page for name in named)


async def test_panels_ask_the_log_for_what_it_has(database_url: str) -> None:
    import asyncpg

    panels = json.loads((CHART / "files" / "tfjobs.json").read_text())["panels"]
    queries = [target["rawSql"] for panel in panels for target in panel["targets"] if "rawSql" in target]
    assert len(queries) == 3
    connection = await asyncpg.connect(database_url.replace("+asyncpg", ""))
    try:
        # The right of a reader is enough.
        await connection.execute("SET ROLE tfjob_reader")
        for query in queries:
            await connection.fetch(re.sub(r"\$__timeFilter\((\w+)\)", r"\1 < now()", query))
    finally:
        await connection.close()


def test_every_setting_is_a_value_of_the_chart() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    first_words = {each.name: each.name.split("_") for each in fields(Settings) if each.name not in NO_VALUES}
    wanted = {words[0] + "".join(word.title() for word in words[1:]) for words in first_words.values()}
    assert set(schema["properties"]["settings"]["properties"]) == wanted
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values["settings"]) == wanted
    assert "image" in schema["required"] and "image" not in values
