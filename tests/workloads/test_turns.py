"""What most workloads do alike: requests within a hold, one release, a pause, the next lock."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast import catalogue
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.properties import PROPERTIES
from tests.workloads.runs import CLIENTS, REQUESTS, calls, history, holds, ran

ALL = sorted(set(catalogue.WORKLOADS))
LOOPS = (
    "abandoned", "critical-section", "duplicate-request", "hierarchy", "retry-storm",
    "read-write", "sequencers", "shared-client-id", "try-lock",
)  # fmt: skip
"""Workloads whose holds are `writes` requests, `gap_ms` apart."""
EXERCISED = {
    "duplicate-request": "applied-once",
    "lost-update": "no-lost-update",
    "many-locks": "token-order",
    "manual-recovery": "ownership",
    "queries": "truthful-queries",
    "retry-storm": "no-false-rejection",
    "semaphore": "bounded-wait",
    "sequencers": "truthful-queries",
    "shared-client-id": "ownership",
    "singleton-job": "exactly-once-job",
    "slow-dependency": "no-expired-write",
    "try-lock": "no-false-rejection",
}
"""The property that a workload is for, and that it exercises without faults."""


@pytest.mark.parametrize("workload", ALL)
def test_a_hold_ends_with_its_release_and_its_requests_are_within_it(workload: str) -> None:
    every = holds(workload)
    assert len(every) >= CLIENTS
    for hold in every:
        released = hold[hold["f"] == Op.RELEASE]
        requests = hold[[int(f) in REQUESTS for f in hold["f"]]]
        if not len(released):
            assert workload == "abandoned"
            continue
        assert hold["t_ret"][0] <= requests["t_inv"].min(initial=released["t_inv"][0])
        assert requests["t_ret"].max(initial=0) <= released["t_inv"][0]
        assert len(released) == 1 or workload == "shared-client-id"


@pytest.mark.parametrize("workload", [one for one in ALL if one not in ("many-locks", "reentrant")])
def test_a_client_holds_one_lock_at_a_time(workload: str) -> None:
    rows = calls(workload, Op.ACQUIRE, Op.TRY, Op.RELEASE)
    for process in set(rows["process"].tolist()):
        own = rows[rows["process"] == process]
        assert all(one["t_ret"] <= other["t_inv"] for one, other in pairwise(own) if one["t_ret"])


@pytest.mark.parametrize("workload", LOOPS)
def test_a_hold_has_as_many_requests_as_asked_for_with_a_gap_before_each(workload: str) -> None:
    for hold in holds(workload, writes="3", gap_ms="20"):
        requests = hold[[int(f) in REQUESTS for f in hold["f"]]]
        renewals = hold[hold["f"] == Op.RENEW]
        assert len(requests) == 3
        assert (len(renewals) >= 1) == (workload != "try-lock")
        assert not len(renewals) or renewals["t_ret"][0] <= requests["t_inv"][0]
        ends = [hold["t_ret"][0], *requests["t_ret"][:-1]]
        gaps = [begun - end for end, begun in zip(ends, requests["t_inv"].tolist(), strict=True)]
        # A node's clock may be 1 % slow; a request over the network takes a few ms.
        assert min(gaps) >= 19.8 * MILLISECOND and max(gaps[1:]) < 40 * MILLISECOND


PAUSES = {
    "critical-section": 2, "crowd": 2, "hierarchy": 2, "lost-update": 2, "manual-recovery": 2,
    "many-locks": 2, "reentrant": 2, "semaphore": 2, "sequencers": 2, "singleton-job": 2,
    "try-lock": 4,
}  # fmt: skip
"""Longest pause of a workload after a release, in `think_ms`."""


@pytest.mark.parametrize("workload", PAUSES)
def test_the_pause_between_holds_is_random_and_bounded(workload: str) -> None:
    rows = calls(workload, Op.ACQUIRE, Op.TRY, Op.RELEASE, think_ms="40")
    longest_ns = PAUSES[workload] * 40 * MILLISECOND
    pauses = []
    for process in set(rows["process"].tolist()):
        own = rows[rows["process"] == process]
        pauses += [
            int(after["t_inv"] - before["t_ret"])
            for before, after in pairwise(own)
            if before["f"] == Op.RELEASE and after["f"] != Op.RELEASE
        ]
    # A clock may be 1 % slow; a check of a released sequencer takes some ms.
    assert min(pauses) < longest_ns // 3
    assert 0.7 * longest_ns < max(pauses) < 1.1 * longest_ns


@pytest.mark.parametrize("workload", ["critical-section", "read-write", "renewal", "singleton-job"])
def test_all_locks_are_used(workload: str) -> None:
    rows = calls(workload, Op.ACQUIRE)
    used = {history(workload).strings[key] for key in set(rows["key"].tolist())}
    assert used == {"lock-1", "lock-2"}


@pytest.mark.parametrize("workload", ALL)
def test_a_workload_asks_for_known_properties_once(workload: str) -> None:
    asks = ran(workload).case.asked
    assert asks and set(asks) <= set(PROPERTIES) and len(set(asks)) == len(asks)


def test_each_property_is_asked_by_a_workload() -> None:
    """Else no run is for it. Where a fault undoes grants, each run asks for that one."""
    asked = {prop for workload in ALL for prop in ran(workload).case.asked}
    assert asked | {"durable-grants"} == set(PROPERTIES)


@pytest.mark.parametrize("workload", EXERCISED)
def test_a_workload_exercises_what_it_is_for(workload: str) -> None:
    verdicts = {row.property: row.verdict for row in ran(workload).verdicts.verdicts}
    assert verdicts[EXERCISED[workload]] is Verdict.HOLDS
    assert Verdict.VIOLATED not in verdicts.values()


@pytest.mark.parametrize("workload", ["critical-section", "abandoned"])
def test_the_probe_acquires_every_lock_once_after_all_clients(workload: str) -> None:
    rows = history(workload).rows
    probes, others = rows[rows["f"] == Op.PROBE], calls(workload, Op.ACQUIRE)
    assert sorted(probes["key"].tolist()) == sorted(set(others["key"].tolist()))
    assert probes["t_inv"].min() > others["t_inv"].max()
    releases = rows[(rows["f"] == Op.RELEASE) & (rows["process"] == probes["process"][0])]
    assert releases["attempt"].tolist() == probes["attempt"].tolist()


def test_a_share_of_owners_exits_in_place_of_the_release() -> None:
    plain, dying = history("critical-section"), history("critical-section", dies_pct="50")
    assert not (plain.rows["f"] == Op.CLOSED).any()
    died = int((dying.rows["f"] == Op.CLOSED).sum())
    released = int((dying.rows["f"] == Op.RELEASE).sum())
    assert died and 0.2 < died / (died + released) < 0.8


@pytest.mark.parametrize("workload", ["critical-section", "try-lock", "renewal"])
def test_clients_that_ask_together_ask_at_the_same_instants(workload: str) -> None:
    rows = calls(workload, Op.ACQUIRE, Op.TRY, together_ms="500", wait_ms="100")
    # A node's clock may be 1 % slow: they drift apart, and the first seconds show it.
    early = rows[rows["t_inv"] < rows["t_inv"].min() + 700 * MILLISECOND]
    begun = early["t_inv"].min()
    for later in (False, True):
        instant = [t for t in early["t_inv"].tolist() if (t - begun > 250 * MILLISECOND) == later]
        assert len(instant) >= 2 and max(instant) - min(instant) < 20 * MILLISECOND
