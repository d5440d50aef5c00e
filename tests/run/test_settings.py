"""Settings: flags before environment before defaults, and what cannot be is refused in words."""

from __future__ import annotations

import pytest

from controller.errors import UserError
from controller.settings import read_settings

URL = "postgresql://tfjob@127.0.0.1/tfjob"


def test_flags_win_over_the_environment_and_that_over_defaults() -> None:
    environment = {"TFJOB_DATABASE_URL": URL, "TFJOB_API_WORKERS": "4", "CUSTOM_CLUSTER_DOMAIN": "cluster.local"}
    settings = read_settings({"api_workers": 8, "log_level": None}, environment)
    assert (settings.api_workers, settings.cluster_domain, settings.log_level) == (8, "cluster.local", "info")


def test_a_gang_scheduler_is_refused_while_nobody_makes_its_pod_groups() -> None:
    with pytest.raises(UserError, match="gang scheduling is not there yet"):
        read_settings({}, {"TFJOB_DATABASE_URL": URL, "TFJOB_GANG_SCHEDULER": "volcano"})
