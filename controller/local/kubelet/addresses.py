"""The addresses in TF_CONFIG: every replica of a local job is on 127.0.0.1, each with a free port of its own.

In: TF_CONFIG as the controller wrote it, with the names of services. Out: the same with loopback addresses.
A name and port of one job get the same loopback port in all its pods, and in the next attempt of a slot as well.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["LoopbackPorts", "tf_config_on_loopback"]

_LOWEST_PORT = 20_000
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def tf_config_on_loopback(text: str, namespace: str, job: str, port_of: Callable[[str], int]) -> str:
    """TF_CONFIG with the addresses of the job's own services (`<job>-…[.<namespace>.svc…]:port`) on 127.0.0.1.

    `port_of` gives the loopback port for an address as written. Lists and the sparse form (index → address) alike;
    addresses of others, and a text that is no TF_CONFIG, stay as they are.
    """
    try:
        config: Any = json.loads(text)
        cluster = config["cluster"]
        types = list(cluster.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return text

    def moved(address: object) -> object:
        if not isinstance(address, str) or not _is_of_job(address, namespace, job):
            return address
        return f"127.0.0.1:{port_of(address)}"

    for replica_type, addresses in types:
        match addresses:
            case list():
                cluster[replica_type] = [moved(address) for address in addresses]
            case dict():
                cluster[replica_type] = {index: moved(address) for index, address in addresses.items()}
    return json.dumps(config)


def _is_of_job(address: str, namespace: str, job: str) -> bool:
    host, colon, port = address.rpartition(":")
    labels = host.split(".")
    return (
        bool(colon)
        and port.isdigit()
        and labels[0].startswith(f"{job}-")
        and (len(labels) == 1 or labels[1] == namespace)
    )


class LoopbackPorts:
    """Ports of 127.0.0.1, one for each key for as long as this object lives."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, ...], int] = {}
        self._taken: set[int] = set()

    def port_of(self, *key: str) -> int:
        """The port of this key, a free one when it is first asked for. Raises OSError if none is free."""
        if key not in self._ports:
            self._ports[key] = self._free_port()
            self._taken.add(self._ports[key])
        return self._ports[key]

    def _free_port(self) -> int:
        """A port below those that the system gives to outgoing connections: those come and go while we wait."""
        try:
            end = int(_PORT_RANGE.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            end = _LOWEST_PORT
        candidates = list(range(_LOWEST_PORT, end))
        random.shuffle(candidates)
        for port in [*candidates, *([0] * 50)]:
            if port not in self._taken:
                with socket.socket() as probe:
                    try:
                        probe.bind(("127.0.0.1", port))
                    except OSError:
                        continue
                    bound: int = probe.getsockname()[1]
                    if bound not in self._taken:
                        return bound
        raise OSError("no free port on 127.0.0.1")
