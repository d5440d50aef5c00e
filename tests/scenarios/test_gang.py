"""Every scenario again with a gang scheduler: its PodGroup changes when pods start, not what comes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.model.settings import GangScheduler
from controller.scenario import parse_file
from controller.scenario.compare import differences as differences_of
from controller.scenario.model import Scenario, Step
from controller.scenario.play import PurePlayer
from tests.scenarios.test_given import FILES

GANGS = (GangScheduler.VOLCANO, GangScheduler.SCHEDULER_PLUGINS)
SCENARIOS = [found for file in FILES if (found := parse_file(file)).is_for("core")]


def played(scenario: Scenario) -> tuple[PurePlayer, list[str]]:
    """The player when the scenario is over, and what differed."""
    player = PurePlayer(scenario)
    differences: list[str] = []

    def expect(step: Step) -> None:
        if step.verb == "expect":
            differences.extend(f"{step.path}: {each}" for each in differences_of(step.value, player))

    player.run(expect)
    return player, differences


@pytest.mark.parametrize("gang", GANGS)
def test_every_scenario_holds_with_pod_groups(gang: GangScheduler) -> None:
    differing = []
    for scenario in SCENARIOS:
        settings = {**scenario.settings, "gang_scheduler": gang.value}
        player, differences = played(scenario._replace(settings=settings))
        differing += [f"{Path(scenario.file).name} {each}" for each in differences]
        states = {uid: live.state for uid, live in player.history.live.items()}
        wanting = {uid for uid, state in states.items() if state.may_run() and state.spec.total()}
        left = {held.owner_uid for held in player.world.of_kind("PodGroup")}
        if player.is_watching:
            assert left == wanting, scenario.file
    assert differing == []
