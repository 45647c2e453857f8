"""Named scenarios: one plan file each, in this folder, to read, run and copy.

A file's `must` lists the properties that the scenario is for. A run that did not exercise one of
them is UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One scenario: its summary in one sentence.

    only     the backends that support its faults, () for all
    sweep    the file has a table [sweep]: many runs with different values of one setting
    """

    says: str
    only: tuple[str, ...] = ()
    sweep: bool = False


HOSTS = ("local", "docker", "ssh")
"""Backends on which each node has a network of its own."""
FILES_HERE = ("sim", "local", "local-proxy")
"""Backends whose driver reaches the files of the servers."""

SCENARIOS: dict[str, Scenario] = {
    "concurrent-acquisition": Scenario(says="6 clients compete for one lock, without faults"),
    "owner-crash": Scenario(says="the holder is killed, 3 times"),
    "owner-pause": Scenario(says="the holder is paused, for less than its lease and for longer"),
    "network-partition": Scenario(says="partitions: the leader alone, two halves, a bridge"),
    "delayed-renewal": Scenario(says="renewals that are late, within the lease and after it"),
    "duplicate-request": Scenario(
        says="every second write is sent twice, and the leader is killed"
    ),
    "stale-owner-resume": Scenario(says="a holder resumes after 3 leases and continues"),
    "singleton-job": Scenario(says="each job is done once, although owners are killed and paused"),
    "service-restart": Scenario(says="all lock servers are killed at once and restarted"),
    "clock-skew": Scenario(
        says="wall clocks step, drift and strobe, on a server and on the holder"
    ),
    "token-rejection": Scenario(says="a strict resource rejects requests with an old token"),
    "client-timeout": Scenario(says="clients give up before owners release"),
    "retry-storm": Scenario(says="clients retry at once; a leader and a holder are killed"),
    "reply-lost-after-apply": Scenario(
        says="the service processed a request and its reply is lost"
    ),
    "connection-reset": Scenario(says="a client's connection is reset before its request arrives"),
    "cancelled-call": Scenario(says="running calls are cancelled by their callers"),
    "crowd": Scenario(says="50 identical clients compete for one lock (thundering herd)"),
    "slow-dependency": Scenario(says="owners hold across a call that sometimes takes 3 leases"),
    "shared-client-id": Scenario(
        says="4 processes with one client id, distinguished by their attempts"
    ),
    "holder-isolated": Scenario(says="the owner reaches the resource, but no lock server"),
    "leader-isolated": Scenario(
        says="the leader is cut off from its peers; clients still reach it"
    ),
    "asymmetric-partition": Scenario(says="the leader receives but cannot send, then the reverse"),
    "abandoned-lock": Scenario(says="owners exit while they hold the lock"),
    "manual-recovery": Scenario(
        says="an owner hangs while its lease is renewed, until an operator frees the lock"
    ),
    "priority-flood": Scenario(says="endless high-priority requests and a few low-priority ones"),
    "leader-election": Scenario(
        says="the holder is the leader, for long terms; the token is the term"
    ),
    "split-vote": Scenario(says="many clients request 5 independent servers; none gets a majority"),
    "redlock-two-down": Scenario(says="2 of 5 independent servers are down"),
    "redlock-clock-step": Scenario(says="the clocks of 1, then of 3 of 5 servers jump"),
    "redlock-restart": Scenario(says="1, then 3 of 5 servers restart without their grants"),
    "resource-restart": Scenario(says="the resource is killed; its highest token must survive"),
    "resource-pause": Scenario(says="the resource is paused while owners wait for it"),
    "resource-slow": Scenario(says="the resource is paused for half of the time"),
    "frozen-in-send": Scenario(
        says="the holder stops inside its write to the resource, which arrives after its lease"
    ),
    "stutter": Scenario(says="the holder is paused repeatedly for short times"),
    "power-loss-after-grant": Scenario(
        says="all servers lose power while the lock is held; what they had not synced is gone"
    ),
    "disk-hang-leader": Scenario(
        says="the leader's disk takes no write for 2 leases, then for a moment", only=("local",)
    ),
    "restore-old-backup": Scenario(
        says="a backup is restored on all servers while the lock is held", only=FILES_HERE
    ),
    "upgrade-under-lock": Scenario(
        says="servers get another release one by one while the lock is held (etcd)",
        only=("local", "local-proxy"),
    ),
    "mtu-black-hole-leader": Scenario(
        says="the leader's small packets arrive at its peers, its large ones never do", only=HOSTS
    ),
    "zero-window-leader": Scenario(
        says="the leader's peers seem to read nothing, so it sends nothing more", only=HOSTS
    ),
    "half-open-holder": Scenario(
        says="the holder's open connections to the servers carry nothing more, new ones work",
        only=HOSTS,
    ),
    "lossy-links": Scenario(
        says="3 of 10 packets between the leader and its peers are lost, then those of the holder",
        only=HOSTS,
    ),
    "suspended-holder": Scenario(
        says="the holder's machine is suspended past its lease: no monotonic time passes for it"
    ),
    "memory-limit-leader": Scenario(
        says="the leader gets no more memory while the lock is held, and the kernel kills it",
        only=HOSTS,
    ),
    "whole-node-freeze": Scenario(says="a server and the holder are paused together"),
    "sweep-pause": Scenario(says="shortest pause of a holder that causes a violation", sweep=True),
    "sweep-delay": Scenario(
        says="smallest delay between holder and servers that causes a violation (simulator only)",
        only=("sim",),
        sweep=True,
    ),
    "sweep-skew": Scenario(says="smallest clock step that breaks the lock", sweep=True),
    "sweep-clients": Scenario(
        says="cost of a grant in requests, wake-ups and time, for 2 to 50 clients", sweep=True
    ),
    "sweep-nodes": Scenario(
        says="cost of a grant in requests and time, for 1 to 9 servers", sweep=True
    ),
    "ttl-sweep": Scenario(
        says="cost of a lease: false expiries if short, recovery time if long", sweep=True
    ),
}


def path_of(name: str) -> Path:
    """The plan file of a scenario; UsageError for an unknown name."""
    if name not in SCENARIOS:
        raise UsageError(suggest(name, SCENARIOS, "scenario") + "; holdfast list scenarios")
    return Path(__file__).with_name(f"{name}.toml")
