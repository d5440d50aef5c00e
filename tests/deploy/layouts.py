"""deploy/ as kubectl and Helm render it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.kubectl import kubectl_path

ROOT = Path(__file__).resolve().parents[2]
KUSTOMIZE = ROOT / "deploy" / "kustomize"
CHART = ROOT / "deploy" / "helm" / "tfjob-controller"
OVERLAYS = sorted(each.name for each in (KUSTOMIZE / "overlays").iterdir())
Json = dict[str, Any]
Objects = dict[tuple[str, str], Json]


def kustomized(folder: Path) -> Objects:
    """What `kubectl kustomize` makes of a folder, by kind and name."""
    done = subprocess.run([kubectl_path(), "kustomize", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


def with_components(overlay: str, *components: str, folder: Path) -> Objects:
    """An overlay with further components, as a site has it: a copy of the overlay's folder, and lines added to it."""
    source = KUSTOMIZE / "overlays" / overlay
    for each in source.iterdir():
        shutil.copy(each, folder)
    content = yaml.safe_load((source / "kustomization.yaml").read_text())
    content["components"] += [f"../../components/{each}" for each in components]
    for field in ("resources", "components"):
        content[field] = [_seen_from(folder, source, each) for each in content[field]]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return kustomized(folder)


def _seen_from(folder: Path, source: Path, named: str) -> str:
    return os.path.relpath((source / named).resolve(), folder.resolve()) if named.startswith("..") else named


def by_name(text: str) -> Objects:
    found = [each for each in yaml.safe_load_all(text) if each]
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(named) == len(found), "two objects of one kind have one name"
    return named
