"""Makes deploy/kustomize and deploy/helm from one source (deploy/source), so that they cannot differ.

In: the objects of deploy/source, controller/settings.py. Out: with `--write` the files; without, exit 1 and the names
of files that are not what the source says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent
sys.path[:0] = [str(DEPLOY), str(DEPLOY.parent)]

from source import chart, kustomize  # noqa: E402

LAYOUTS = ((DEPLOY / "kustomize", kustomize.files), (DEPLOY / "helm" / "tfjob-controller", chart.files))


def made() -> Iterator[tuple[Path, str]]:
    """Every file and its text."""
    for folder, files in LAYOUTS:
        for name, text in files():
            yield folder / name, text


def stale() -> list[Path]:
    """Files that differ from what the source says, are missing, or are nobody's."""
    wanted = dict(made())
    there = {path for folder, _ in LAYOUTS for path in folder.rglob("*") if path.is_file()}
    return sorted(
        {path for path, text in wanted.items() if path not in there or path.read_text() != text} | there - set(wanted)
    )


def write() -> None:
    wanted = dict(made())
    for path in stale():
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    elif found := stale():
        names = [str(each.relative_to(DEPLOY.parent)) for each in found]
        sys.exit("\n".join([*names, "run `make docs`"]))
