"""Volumes as folders of this machine.

In: a pod's volumes, the ConfigMaps and Secrets that they name. Out: where each container's mount paths really lie.
Never: a mount. There are no mount namespaces here, so paths in words are led to the folders (environment.rewritten).
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from controller.local.kubelet.environment import MissingReference, Sources

__all__ = ["make_volumes", "places_of", "sources_of_volumes"]

Json = dict[str, Any]

_DEFAULT_MODE = 0o644


def sources_of_volumes(pod: Json) -> set[tuple[str, str]]:
    """The ConfigMaps and Secrets that the pod's volumes are made of, as (plural, name)."""
    named = set()
    for volume in pod["spec"].get("volumes") or []:
        if volume.get("configMap"):
            named.add(("configmaps", volume["configMap"]["name"]))
        if volume.get("secret"):
            named.add(("secrets", volume["secret"]["secretName"]))
    return named


def make_volumes(pod: Json, sources: Sources, folder: Path, claims: Path) -> dict[str, Path]:
    """Make each volume of the pod below `folder` and return their places by name.

    ConfigMaps and Secrets become files; a claim is a folder below `claims`, the same for all pods that name it; a
    hostPath is itself; everything else is an empty folder. Raises MissingReference, in a kubelet's words, if a
    ConfigMap, Secret or key is not there and not optional.
    """
    places = {}
    for volume in pod["spec"].get("volumes") or []:
        name = volume["name"]
        place = folder / name
        if volume.get("hostPath"):
            places[name] = Path(volume["hostPath"]["path"])
            continue
        if volume.get("persistentVolumeClaim"):
            place = claims / pod["metadata"]["namespace"] / volume["persistentVolumeClaim"]["claimName"]
        place.mkdir(parents=True, exist_ok=True)
        places[name] = place
        if source := volume.get("configMap"):
            _write_files(place, source, ("configmaps", source["name"]), sources)
        elif source := volume.get("secret"):
            _write_files(place, source, ("secrets", source["secretName"]), sources)
    return places


def places_of(container: Json, volumes: dict[str, Path]) -> dict[str, str]:
    """Where the container's mount paths really lie."""
    return {
        mount["mountPath"]: str(volumes[mount["name"]] / mount.get("subPath", ""))
        for mount in container.get("volumeMounts") or []
        if mount["name"] in volumes
    }


def _write_files(place: Path, source: Json, key: tuple[str, str], sources: Sources) -> None:
    found = sources.get(key)
    if found is None:
        if source.get("optional"):
            return
        raise MissingReference(f'{key[0].removesuffix("s")} "{key[1]}" not found')
    is_secret = key[0] == "secrets"
    texts = {name: value.encode() for name, value in (found.get("data") or {}).items() if not is_secret}
    coded = {**(found.get("binaryData") or {}), **(found.get("data") or {} if is_secret else {})}
    files = texts | {name: base64.b64decode(value) for name, value in coded.items()}
    mode = source.get("defaultMode", _DEFAULT_MODE)
    items = source.get("items") or [{"key": name, "path": name} for name in files]
    for item in items:
        if item["key"] not in files:
            if source.get("optional"):
                continue
            raise MissingReference(f"references non-existent {key[0].removesuffix('s')} key: {item['key']}")
        path = place / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[item["key"]])
        path.chmod(item.get("mode", mode))
