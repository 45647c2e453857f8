"""Driver side of a client of the user on the servers of a built-in system.

`holdfast.clusters.libraries.lock_on_servers:SERVERS=LOCK` is such a System; both are entries, that
of the built-in system and that of the user's class or table.

Promises: those that the class or table declares; by default those of a lock while its servers run,
also under faults of clients
Does not promise: by default, anything after the servers have lost what they had acknowledged
Tested with: a class and programs on redis, etcd, zookeeper and postgres-lease
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from holdfast.clusters.libraries.on_servers import WithoutClient
from holdfast.clusters.libraries.system import KEPT, REACHED
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import System
from holdfast.harness.core.verdict import Promises

KEPT_BY_DEFAULT = (
    "mutual-exclusion",
    "ownership",
    "token-order",
    "no-stale-write",
    "truthful-queries",
)
REACHED_BY_DEFAULT = ("deadlock-freedom", "orphan-freedom")


class OwnLock(System, Protocol):
    """A user's class or table.

    nodes             number of its own servers
    server_of         the built-in system whose servers it uses, "" for none
    option_names      options that it reads itself
    states_promises   whether it declares what it promises
    environment       its project's virtual environment, "" for none
    ends_with_client  whether a client that exits by itself is a failure of the environment
    """

    nodes: int
    server_of: str
    states_promises: bool
    ends_with_client: bool
    environment: str

    def option_names(self) -> Sequence[str]: ...

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]: ...


class LockOnServers(WithoutClient):
    """A System: the servers of a built-in one, the client and the promises of the user."""

    def __init__(self, name: str) -> None:
        servers, _, own = name.partition("=")
        self._servers: System = load(servers)
        self.lock: OwnLock = load(own)
        self.client = self.lock.client
        self.libraries: Sequence[str] = self.lock.libraries
        self.ports: Sequence[int] = self._servers.ports
        self.ends_with_client = self.lock.ends_with_client

    def promises(self, options: Mapping[str, str]) -> Promises:
        """The user's promises. UsageError for options that neither the client nor the servers
        have."""
        own = self.lock.option_names()
        mine = self.lock.promises({k: v for k, v in options.items() if k in own})
        base = self._servers.promises(self._rest(options))
        return replace(
            mine,
            keeps=mine.keeps if self.lock.states_promises else _while_servers_run(mine),
            # How far its clocks slip, how soon it serves again and how long a session lasts at
            # least, is the servers' affair.
            slip_ns=max(mine.slip_ns, base.slip_ns),
            recovery_ns=max(mine.recovery_ns, base.recovery_ns),
            session_ns=max(mine.session_ns, base.session_ns),
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """Those of the user's client: whatever the servers can, only it can be asked for."""
        own = self.lock.option_names()
        return self.lock.abilities({k: v for k, v in options.items() if k in own})

    def _rest(self, options: Mapping[str, str]) -> dict[str, str]:
        own = self.lock.option_names()
        return {name: value for name, value in options.items() if name not in own}


def lock_of(system: System) -> System:
    """The user's class or table of a system on servers that are not its own; else the system."""
    return system.lock if isinstance(system, LockOnServers) else system


def _while_servers_run(promises: Promises) -> dict[str, tuple[str, ...]]:
    """What a lock keeps by default: a server that was killed may have lost what it had said."""
    keeps: dict[str, tuple[str, ...]] = {}
    for prop, kinds in promises.keeps.items():
        if prop in KEPT_BY_DEFAULT:
            kinds = KEPT
        elif prop in REACHED_BY_DEFAULT:
            kinds = REACHED
        keeps[prop] = kinds
    return keeps


def __getattr__(name: str) -> LockOnServers:
    """The System of SERVERS=LOCK."""
    if "=" not in name:
        raise AttributeError(name)
    return LockOnServers(name)
