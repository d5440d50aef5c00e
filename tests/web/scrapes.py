"""What a cluster's probes and Prometheus do: ask an address, and read the numbers.

In: a port of this machine. Out: (code, text) of a probe; samples by name and labels.
"""

from __future__ import annotations

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, float]
"""`name{label="value",…}` with the labels in order → value."""


async def ask(port: int, path: str) -> tuple[int, str]:
    """One probe."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def scrape(port: int) -> Samples:
    """One scrape, parsed as Prometheus' own client library parses it."""
    code, text = await ask(port, "/metrics")
    assert code == 200, text
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, f"{name} is there twice"
            found[name] = sample.value
    return found
