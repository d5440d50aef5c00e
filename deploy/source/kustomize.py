"""The kustomize layout: a base, components that add to it, and one overlay for each way to install.

Out: path below deploy/kustomize → text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from source.parts import PARTS, Part, database_patches, postgres
from source.words import LABELS, NAME, Json
from source.yaml_text import MADE, documents, plain

CONFIG = "kustomize.config.k8s.io"


class Overlay(NamedTuple):
    """One way to install. `has_namespace`: the Namespace is made too, under Pod Security `restricted`."""

    name: str
    namespace: str
    components: tuple[str, ...]
    has_crd: bool = True
    has_namespace: bool = True
    further: tuple[Json, ...] = ()
    patches: tuple[Json, ...] = ()


FLOW_KINDS = ("FlowSchema", "PriorityLevelConfiguration")
EVERYWHERE = ("all-namespaces", "user-roles", "flow-control")
OVERLAYS = [
    Overlay("standalone", "tfjob-system", EVERYWHERE),
    Overlay("kubeflow", "kubeflow", EVERYWHERE, has_namespace=False),
    Overlay("namespaced", "tfjob", ("one-namespace",), has_crd=False, has_namespace=False),
    Overlay(
        "cloudnative-pg", "tfjob-system", EVERYWHERE, further=(postgres(),), patches=database_patches()
    ),
]  # fmt: skip


def files() -> Iterator[tuple[str, str]]:
    """Every file of the layout."""
    for part in PARTS:
        folder = "base" if part.name == "base" else f"components/{part.name}"
        yield f"{folder}/objects.yaml", documents(part.objects)
        yield f"{folder}/kustomization.yaml", MADE + plain(_kustomization(part))
    for overlay in OVERLAYS:
        further = [*([_namespace(overlay.namespace)] if overlay.has_namespace else []), *overlay.further]
        if further:
            yield f"overlays/{overlay.name}/objects.yaml", documents(further)
        yield f"overlays/{overlay.name}/kustomization.yaml", MADE + plain(_overlay(overlay, bool(further)))


def _kustomization(part: Part) -> Json:
    is_base = part.name == "base"
    return {
        "apiVersion": f"{CONFIG}/{'v1beta1' if is_base else 'v1alpha1'}",
        "kind": "Kustomization" if is_base else "Component",
        "resources": ["objects.yaml"],
        **_patches(part.patches),
    }


def _overlay(overlay: Overlay, has_objects: bool) -> Json:
    resources = [
        "../../base",
        *(["../../../crd"] if overlay.has_crd else []),
        *(["objects.yaml"] if has_objects else []),
    ]
    found: Json = {
        "apiVersion": f"{CONFIG}/v1beta1",
        "kind": "Kustomization",
        "namespace": overlay.namespace,
        "resources": resources,
        "components": [f"../../components/{name}" for name in overlay.components],
        **_patches(overlay.patches),
    }
    if "flow-control" in overlay.components:
        # kustomize knows the namespaces in bindings, not those in FlowSchemas.
        target = {
            "select": {"kind": "FlowSchema"},
            "fieldPaths": ["spec.rules.*.subjects.*.serviceAccount.namespace"],
        }
        source = {"kind": "ServiceAccount", "name": NAME, "fieldPath": "metadata.namespace"}
        found["transformers"] = [plain(_without_namespace(kind)) for kind in FLOW_KINDS]
        found["replacements"] = [{"source": source, "targets": [target]}]
    return found


def _without_namespace(kind: str) -> Json:
    """kustomize takes kinds that it does not know for namespaced."""
    return {
        "apiVersion": "builtin",
        "kind": "PatchTransformer",
        "metadata": {"name": f"cluster-scoped-{kind.lower()}"},
        "target": {"kind": kind},
        "patch": plain([{"op": "remove", "path": "/metadata/namespace"}]),
    }


def _patches(patches: tuple[Json, ...]) -> dict[str, Any]:
    return {"patches": [{"patch": plain(each)} for each in patches]} if patches else {}


def _namespace(name: str) -> Json:
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted", "istio-injection": "disabled"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
