"""The Helm chart, rendered by Helm itself (`make helm-tools`), gives the same objects as kustomize."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.layouts import CHART, KUSTOMIZE, Objects, by_name, kustomized, with_components

KUBE = ["--kube-version", "1.33.0"]
"""A Helm that was built without a release's flags takes every cluster for an old one."""
NAMESPACED = ["namespaced=true", "crd=false", "userRoles=false", "flowControl=false"]


def rendered(helm: Path, namespace: str, *values: str) -> Objects:
    image = kustomized(KUSTOMIZE / "base")["Deployment", "tfjob-controller"]["spec"]["template"]["spec"]["containers"]
    command = [str(helm), "template", "release", str(CHART), "--namespace", namespace, *KUBE]
    for value in (f"image={image[0]['image']}", *values):
        command += ["--set", value]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = by_name(done.stdout)
    for each in found.values():
        annotations = each["metadata"].get("annotations") or {}
        ours = {key: value for key, value in annotations.items() if not key.startswith("helm.sh/")}
        if annotations and not ours:
            del each["metadata"]["annotations"]
    return found


def without_namespace(objects: Objects) -> Objects:
    """Helm makes the Namespace by a flag."""
    return {key: each for key, each in objects.items() if key[0] != "Namespace"}


@pytest.mark.parametrize(
    ("overlay", "namespace", "components", "values"),
    [
        ("standalone", "tfjob-system", [], []),
        ("kubeflow", "kubeflow", [], []),
        ("namespaced", "tfjob", [], NAMESPACED),
        ("standalone", "tfjob-system", ["monitoring"], ["monitoring=true"]),
        ("standalone", "tfjob-system", ["gang-volcano"], ["settings.gangScheduler=volcano"]),
        ("standalone", "tfjob-system", ["pod-finalizer"], ["settings.podFinalizer=true"]),
        (
            "namespaced",
            "tfjob",
            ["gang-scheduler-plugins-namespaced"],
            [*NAMESPACED, "settings.gangScheduler=scheduler-plugins"],
        ),
    ],
)
def test_chart_and_kustomize_give_the_same_objects(
    helm: Path, tmp_path: Path, overlay: str, namespace: str, components: list[str], values: list[str]
) -> None:
    wanted = with_components(overlay, *components, folder=tmp_path)
    found = rendered(helm, namespace, *values)
    for objects in (wanted, found):
        for container in objects["Deployment", "tfjob-controller"]["spec"]["template"]["spec"]["containers"]:
            container["env"].sort(key=lambda each: each["name"])
    assert found == without_namespace(wanted)


def test_lint_finds_nothing(helm: Path) -> None:
    done = subprocess.run(
        [str(helm), "lint", str(CHART), "--strict", "--set", "image=x", *KUBE], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "missing property 'image'"),
        (["image=x", "settings.apiQps=fast"], "apiQps"),
        (["image=x", "settings.apiQqs=1"], "apiQqs"),
        (["image=x", "replicas=0"], "replicas"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(helm: Path, values: list[str], words: str) -> None:
    command = [str(helm), "template", str(CHART), *KUBE, *(part for each in values for part in ("--set", each))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and words in done.stderr


def test_settings_reach_the_controller_as_they_are_written(helm: Path) -> None:
    found = rendered(helm, "a", "settings.inboxBytes=134217728", "settings.leaseSeconds=20", "settings.observe=false")
    environment = found["Deployment", "tfjob-controller"]["spec"]["template"]["spec"]["containers"][0]["env"]
    values = {each["name"]: each.get("value") for each in environment}
    assert values["TFJOB_INBOX_BYTES"] == "134217728"
    assert values["TFJOB_LEASE_SECONDS"] == "20"
    assert values["TFJOB_OBSERVE"] == "false"
