"""Manifests from files: read, checked whole, and refused with file, line and path before anything is started.

In: YAML files. Out: manifests in the order of the files. Never: a server; the checks are those of the local API
server's store and of admission, on a store that lives for one call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.errors import UserError
from controller.fold.admission import problems_of
from controller.local.apiserver.failures import ApiFailure
from controller.local.apiserver.reading import WriteOptions
from controller.local.apiserver.store import Store
from controller.local.shipped import shipped

DEFAULT_NAMESPACE = "default"
_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')
"""How the API server's strict decoding names what it does not know."""
_PLURALS = {"ConfigMap": "configmaps", "TFJob": "tfjobs.kubeflow.org"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object to be created; `lines` maps field paths to 1-based lines of `file`."""

    body: dict[str, Any]
    file: Path
    lines: dict[str, int]

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def namespace(self) -> str:
        return str((self.body.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE)

    @property
    def name(self) -> str:
        return str((self.body.get("metadata") or {}).get("name") or "")

    @property
    def plural(self) -> str:
        return _PLURALS[self.kind]

    def place(self, path: str) -> str:
        """`file:line` of a field path, or of its nearest parent that stands in the file."""
        parts = _split(path)
        while parts and ".".join(parts) not in self.lines:
            parts.pop()
        return f"{self.file}:{self.lines['.'.join(parts)]}"


def crd_manifest() -> dict[str, Any]:
    """The CustomResourceDefinition of TFJob, as deployed."""
    with shipped("deploy", "crd", "tfjob.yaml").open() as stream:
        body: dict[str, Any] = yaml.load(stream, Loader=yaml.CSafeLoader)
    return body


def load(files: Sequence[Path]) -> list[Manifest]:
    """Reads and checks all files. Raises UserError (exit 2) with one line for every problem there is."""
    manifests: list[Manifest] = []
    problems: list[str] = []
    for file in files:
        try:
            manifests += _documents(file)
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}")
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{file}:{mark.line + 1}" if mark else str(file)
            problems.append(f"{where}: not YAML: {getattr(error, 'problem', None) or error}")
    problems += _problems(manifests)
    if not problems and not any(each.kind == "TFJob" for each in manifests):
        problems.append(f"{', '.join(map(str, files))}: no TFJob in it")
    if problems:
        raise UserError("\n".join(problems))
    return manifests


def _documents(file: Path) -> list[Manifest]:
    found = []
    loader = yaml.CSafeLoader(file.read_text(encoding="utf-8"))
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "check_node said that there is one"
            lines: dict[str, int] = {"": node.start_mark.line + 1}
            _note_lines(node, "", lines)
            body = loader.construct_document(node)
            if body is None:
                continue
            found.append(Manifest(body if isinstance(body, dict) else {}, file, lines))
    finally:
        loader.dispose()
    return found


def _note_lines(node: yaml.Node, path: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            if below in lines:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
            lines[below] = key.start_mark.line + 1
            _note_lines(value, below, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[f"{path}.{number}"] = value.start_mark.line + 1
            _note_lines(value, f"{path}.{number}", lines)


def _split(path: str) -> list[str]:
    """`a.b[0].c` and `a.b[x].c` as `a`, `b`, `0`, `c`."""
    return [part for part in path.replace("[", ".").replace("]", "").split(".") if part]


def _problems(manifests: Sequence[Manifest]) -> list[str]:
    store = Store()
    store.create("customresourcedefinitions.apiextensions.k8s.io", crd_manifest())
    problems: list[str] = []
    for manifest in manifests:
        if manifest.kind not in _PLURALS:
            what = f"a {manifest.kind}" if manifest.kind else "not a Kubernetes object (it has no kind)"
            problems.append(f"{manifest.place('kind')}: {what}: `tfjob local` takes TFJobs and ConfigMaps")
            continue
        found = list(_refusals(store, manifest))
        problems += [f"{manifest.place(path)}: {path}: {words}" if path else words for path, words in found]
    return problems


def _refusals(store: Store, manifest: Manifest) -> list[tuple[str, str]]:
    """(field path, words) of what the server would refuse."""
    if manifest.kind == "TFJob":
        refused = [(each.path, each.message) for each in problems_of(manifest.body)]
        if refused:
            return refused
    try:
        if manifest.namespace not in {each["metadata"]["name"] for each in store.list("namespaces")}:
            store.create("namespaces", {"metadata": {"name": manifest.namespace}})
        store.create(
            manifest.plural, manifest.body, manifest.namespace, options=WriteOptions(field_validation="Strict")
        )
    except ApiFailure as failure:
        causes = (failure.details or {}).get("causes") or []
        if causes:
            return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]
        unknown = _UNKNOWN_FIELD.findall(failure.message)
        return [(path, "no such field") for path in unknown] or [("metadata.name", failure.message)]
    return []
