"""Dockerfile and docker-compose.yml: read by what reads them elsewhere; no engine runs here (deploy/README.md)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.layouts import KUSTOMIZE, ROOT, kustomized

COMPOSE = ROOT / "docker-compose.yml"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and what stands behind them."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    told = [line for line in lines if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in told)]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(number for number, (word, _) in enumerate(found) if word == "FROM") :]


def test_the_image_has_two_stages_and_the_last_runs_nothing_and_is_no_root() -> None:
    assert [rest for word, rest in instructions() if word == "FROM"] == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    last = last_stage()
    assert "RUN" not in {word for word, _ in last}
    (user,) = [rest for word, rest in last if word == "USER"]
    pods = kustomized(KUSTOMIZE / "base")["Deployment", "tfjob-controller"]["spec"]["template"]["spec"]
    assert user == f"{pods['securityContext']['runAsUser']}:{pods['securityContext']['runAsGroup']}"
    assert [json.loads(rest) for word, rest in last if word in ("ENTRYPOINT", "CMD")] == [["tfjob"], ["controller"]]


def test_everything_that_is_installed_has_a_hash() -> None:
    installs = [rest for word, rest in instructions() if word == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert all("--require-hashes -r requirements.lock" in each or "--no-deps" in each for each in installs)
    blocks = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text())
    pinned = [each for each in blocks if "==" in each.splitlines()[0]]
    assert len(pinned) > 20 and all("--hash=sha256:" in each for each in pinned)


def test_what_is_copied_is_there_and_reaches_the_build() -> None:
    kept = set(re.findall(r"(?m)^!(.+)$", (ROOT / ".dockerignore").read_text()))
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    named = {each.removeprefix("./") for sources in copied for each in sources}
    assert named == kept
    assert all((ROOT / each).exists() for each in named)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def test_every_service_waits_for_what_it_needs() -> None:
    services = compose()["services"]
    assert set(services) == {"postgres", "k3s", "migrate", "controller"}
    for name, service in services.items():
        for needed, how in (service.get("depends_on") or {}).items():
            has_check = "healthcheck" in services[needed]
            assert how["condition"] != "service_healthy" or has_check, f"{name} waits for the health of {needed}"
    needs = {name: how["condition"] for name, how in services["controller"]["depends_on"].items()}
    assert needs == {"k3s": "service_healthy", "migrate": "service_completed_successfully"}


def test_what_is_mounted_is_declared_or_there() -> None:
    declared = set(compose()["volumes"])
    for service in compose()["services"].values():
        for volume in service.get("volumes") or ():
            source = volume.split(":")[0]
            assert source in declared or (source.startswith("./") and (ROOT / source).is_file()), source


def test_no_port_is_open_to_other_machines() -> None:
    for service in compose()["services"].values():
        assert all(each.startswith("127.0.0.1:") for each in service.get("ports") or ())


def test_the_loader_of_docker_compose_takes_the_file(composecheck: Path) -> None:
    done = subprocess.run([str(composecheck), str(COMPOSE)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    understood = json.loads(done.stdout)["services"]
    assert set(understood) == set(compose()["services"])
    assert (
        understood["controller"]["environment"]["TFJOB_DATABASE_URL"] == "postgresql://tfjob:tfjob@postgres:5432/tfjob"
    )


def test_the_loader_of_docker_compose_would_refuse_a_slip(composecheck: Path, tmp_path: Path) -> None:
    slip = tmp_path / "docker-compose.yml"
    slip.write_text(COMPOSE.read_text().replace("depends_on:", "depend_on:", 1))
    done = subprocess.run([str(composecheck), str(slip)], capture_output=True, text=True)
    assert done.returncode == 1 and "depend_on" in done.stderr
