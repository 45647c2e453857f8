"""The named scenarios: one plan file each, beside this one, to be read, run and copied.

A file's `must` names the properties that the scenario is for. One that a run did not put to the
test makes it UNKNOWN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What it shows in one sentence.

    only     the one backend that can do its faults, "" for all
    sweep    the file has a table [sweep]: many runs, along one value
    """

    says: str
    only: str = ""
    sweep: bool = False


SCENARIOS: dict[str, Scenario] = {
    "concurrent-acquisition": Scenario(says="six clients want one lock, and nothing goes wrong"),
    "owner-crash": Scenario(says="whoever holds the lock is killed, three times"),
    "owner-pause": Scenario(says="the holder stands still, for less than its lease and for more"),
    "network-partition": Scenario(says="the leader alone, the servers in halves, a bridge"),
    "delayed-renewal": Scenario(says="renewals that come late, and renewals that come too late"),
    "duplicate-request": Scenario(says="every other write is sent twice, and the leader dies"),
    "stale-owner-resume": Scenario(says="a holder comes back after three leases and goes on"),
    "singleton-job": Scenario(says="each job is done once, though its owners die and stand still"),
    "service-restart": Scenario(says="all lock servers die at once, and come back"),
    "clock-skew": Scenario(says="wall clocks step, run fast and flicker, at server and holder"),
    "token-rejection": Scenario(says="a strict resource refuses whoever comes with an old token"),
    "client-timeout": Scenario(says="clients wait less long than owners hold"),
    "retry-storm": Scenario(says="clients that ask again at once, a leader and a holder that die"),
    "reply-lost-after-apply": Scenario(says="the service did it, and its answer got lost"),
    "connection-reset": Scenario(says="a client's connection is reset before its request arrives"),
    "cancelled-call": Scenario(says="running calls are cancelled by their own callers"),
    "crowd": Scenario(says="fifty clients before one lock, all alike, and each gets its turn"),
    "slow-dependency": Scenario(says="owners hold across a call that takes three leases at times"),
    "shared-client-id": Scenario(says="four processes of one name, told apart by their attempts"),
    "holder-isolated": Scenario(says="the owner reaches the resource, but no lock server"),
    "leader-isolated": Scenario(says="the leader is cut off, and clients still reach it"),
    "asymmetric-partition": Scenario(says="the leader hears but is not heard, then the reverse"),
    "abandoned-lock": Scenario(says="owners that stop dead with the lock in their hand"),
    "manual-recovery": Scenario(
        says="an owner hangs and is renewed for ever, until an operator frees the lock"
    ),
    "priority-flood": Scenario(says="urgent requests without end, and a few that are not"),
    "leader-election": Scenario(says="whoever holds leads, for long; tokens are its terms"),
    "split-vote": Scenario(says="many ask five independent servers at once, nobody has three"),
    "redlock-two-down": Scenario(says="two of five independent servers are down"),
    "redlock-clock-step": Scenario(says="the clocks of one and then of three of five servers jump"),
    "redlock-restart": Scenario(says="one and then three of five servers forget what they granted"),
    "resource-restart": Scenario(says="the resource dies; its highest token must survive"),
    "resource-pause": Scenario(says="the resource stands still while owners wait for it"),
    "resource-slow": Scenario(says="the resource stands still for half of the time"),
    "stutter": Scenario(says="whoever holds stands still again and again, for moments"),
    "whole-node-freeze": Scenario(says="a server and the holder stand still together"),
    "sweep-pause": Scenario(says="the shortest pause of a holder that does harm", sweep=True),
    "sweep-delay": Scenario(
        says="the smallest delay between holder and servers that does harm (simulator only)",
        only="sim",
        sweep=True,
    ),
    "sweep-skew": Scenario(says="the smallest clock step that breaks the lock", sweep=True),
    "sweep-clients": Scenario(
        says="what a grant costs in requests, wake-ups and time, for 2 to 50 clients", sweep=True
    ),
    "sweep-nodes": Scenario(
        says="what a grant costs in requests and time, for 1 to 9 servers", sweep=True
    ),
    "ttl-sweep": Scenario(
        says="what a lease costs: false expiries if short, recovery time if long", sweep=True
    ),
}


def path_of(name: str) -> Path:
    """The plan file of a scenario; UsageError for a name that is not in the table."""
    if name not in SCENARIOS:
        raise UsageError(suggest(name, SCENARIOS, "scenario") + "; holdfast list scenarios")
    return Path(__file__).with_name(f"{name}.toml")
