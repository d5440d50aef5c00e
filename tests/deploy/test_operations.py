"""docs/OPERATIONS.md says what the code does: settings, alerts, metrics; and the settings for people."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from controller.cli import app
from controller.cli.settings_table import lines_of, table, without_password
from controller.settings import Settings, read_settings
from tests.deploy.layouts import KUSTOMIZE, ROOT, with_components

PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()
URL = "postgresql://tfjob@127.0.0.1/tfjob"


def test_the_page_has_every_setting_as_it_is() -> None:
    assert table() in PAGE
    assert re.findall(r"(?m)^\| `--([\w-]+)`", PAGE) == [each.name.replace("_", "-") for each in fields(Settings)]


def test_every_setting_has_its_flag() -> None:
    group = typer.main.get_command(app)
    named = {parameter.name for parameter in group.commands["controller"].params}  # type: ignore[attr-defined]
    assert {each.name for each in fields(Settings)} <= named


def test_every_alert_has_its_place_in_the_runbook(tmp_path: Path) -> None:
    objects = with_components("standalone", "monitoring", folder=tmp_path)
    rules = objects["PrometheusRule", "tfjob-controller"]["spec"]["groups"][0]["rules"]
    headings = "\n".join(re.findall(r"(?m)^### .+$", PAGE))
    assert [each["alert"] for each in rules if not re.search(rf"\b{each['alert']}\b", headings)] == []


def test_every_overlay_is_named_to_people() -> None:
    page = (ROOT / "deploy" / "README.md").read_text()
    assert all(f"overlays/{each.name}" in page for each in (KUSTOMIZE / "overlays").iterdir())


def test_settings_are_printed_as_they_would_be_read() -> None:
    given = read_settings({}, {"TFJOB_DATABASE_URL": URL, "TFJOB_API_WORKERS": "7", "TFJOB_POD_FINALIZER": "true"})
    printed = dict(line.partition("#")[0].strip().split("=", 1) for line in lines_of(given))
    assert read_settings({}, printed) == given
    assert [line for line in lines_of(given) if "# default" not in line] == [
        f"TFJOB_DATABASE_URL={URL}",
        "TFJOB_POD_FINALIZER=true",
        "TFJOB_API_WORKERS=7",
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s@h:5432/d?sslmode=require", "postgresql://u:***@h:5432/d?sslmode=require"),
        ("postgresql://u:s%40@h/d", "postgresql://u:***@h/d"),
        ("postgresql:///d?host=/run&password=s", "postgresql:///d?host=/run&password=***"),
        (URL, URL),
    ],
)
def test_the_password_is_not_printed(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_print_settings_starts_nothing() -> None:
    command = [sys.executable, "-m", "controller", "controller", "--print-settings", "--api-qps", "5"]
    environment = {"PYTHONPATH": str(ROOT), "TFJOB_DATABASE_URL": "postgresql://u:hidden@h/d"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "TFJOB_API_QPS=5\n" in done.stdout and "hidden" not in done.stdout


def test_what_people_look_for_is_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    for name in ("SECURITY.md", "CONTRIBUTING.md"):
        assert (ROOT / name).read_text().startswith("# ")
