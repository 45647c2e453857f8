"""The five classic demonstrations of a lock manager, each with the order of its events.

Contention, crash of the holder, pause past the lease, stale token refused, majority vote: each runs
in the simulator with exact faults, and what is asserted is who was paused when, who was granted
the lock and which write was accepted, not only the verdict. True time is the clock of all rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.history import reader
from holdfast.harness.judging.run_case import case_of
from tests.clusters.sim.test_runs import fault, plan, simulate

LEASE_NS = SECOND
SEEDS = (7, 8, 9)


class Hold(NamedTuple):
    """One grant: when it was asked for, told to wait, known, and given back (0: never)."""

    client: str
    attempt: int
    token: int
    asked_ns: int
    waited_ns: int
    granted_ns: int
    released_ns: int


class Write(NamedTuple):
    """One request to write as the resource's own log has it."""

    client: str
    token: int
    t_ns: int
    accepted: bool


class Story:
    """A simulated run, judged, with its events in the order in which they came about."""

    def __init__(self, **given: Any) -> None:
        simulated, manifest = simulate(plan(**{"lease_ns": LEASE_NS, "clients": 3, **given}))
        recording = reader.merge(simulated.written())
        self.case: Case = case_of(manifest, recording, simulated.marks, simulated.faults)
        self.rows = self.case.history.rows
        asks = self._of(Op.ACQUIRE, Op.TRY)
        granted = [row for row in asks if row["status"] == Status.OK]
        self.holds = sorted(map(self._hold, granted), key=lambda hold: hold.granted_ns)
        self.writes = [
            Write(
                client=self._client(int(row["op"]) >> 32),
                token=int(row["token"]),
                t_ns=int(row["t_inv"]),
                accepted=bool(row["status"] == Status.OK),
            )
            for row in self._of(Op.SERVED_WRITE)
        ]

    def _of(self, *ops: Op) -> list[Any]:
        return [self.rows[row] for row in self.case.history.of(*ops).tolist()]

    def _client(self, process: int) -> str:
        return self.case.nodes[process]

    def _hold(self, row: Any) -> Hold:
        mine = [r for r in self.rows if r["attempt"] == row["attempt"]]
        waits = [int(r["t_inv"]) for r in mine if r["f"] == Op.WAITING]
        releases = [int(r["t_inv"]) for r in mine if r["f"] == Op.RELEASE]
        return Hold(
            client=self._client(int(row["process"])),
            attempt=int(row["attempt"]),
            token=int(row["token"]),
            asked_ns=int(row["t_inv"]),
            waited_ns=min(waits, default=0),
            granted_ns=int(row["t_ret"]),
            released_ns=min(releases, default=0),
        )

    def window(self, do: str) -> Window:
        (found,) = [window for window in self.case.windows if window.do == do]
        assert found.effective
        return found

    def holding_at(self, t_ns: int) -> Hold:
        """The one that held then, by its own record."""
        (found,) = [
            hold
            for hold in self.holds
            if hold.granted_ns <= t_ns and not 0 < hold.released_ns <= t_ns
        ][-1:]
        return found

    def after(self, hold: Hold) -> Hold:
        """The next grant."""
        at = self.holds.index(hold) + 1
        assert at < len(self.holds), "nobody was granted the lock any more"
        return self.holds[at]

    def lease_end_ns(self, hold: Hold) -> int:
        """When its lease is over at the earliest: it began with its request, or, as it waited, with
        the release before it; the leader's clock may be fast by two thousandths."""
        at = self.holds.index(hold)
        before_ns = self.holds[at - 1].released_ns if at else 0
        return max(hold.asked_ns, before_ns) + LEASE_NS * 998 // 1000

    def lost_ns(self, hold: Hold) -> int:
        """When its client was notified that it lost it."""
        told = [r for r in self._of(Op.LOST) if r["attempt"] == hold.attempt]
        return int(told[0]["t_inv"])

    def judged(self, prop: str) -> PropertyVerdict:
        verdict: PropertyVerdict = load(catalogue.CHECKERS[prop])(self.case)
        return verdict


def contention(seed: int, **options: str) -> None:
    """Three clients want one lock all the time."""
    story = Story(seed=seed, time_ns=3 * SECOND, options=options)
    holds = story.holds
    assert {hold.client for hold in holds} == {"c1", "c2", "c3"} and len(holds) > 20
    for before, hold in pairwise(holds):
        assert before.granted_ns < before.released_ns < hold.granted_ns
        assert hold.token == before.token + 1
    queued = [hold for hold in holds if hold.waited_ns]
    assert len(queued) > len(holds) / 2
    for n, earlier in enumerate(queued):
        late = [hold for hold in queued[n + 1 :] if hold.waited_ns < earlier.asked_ns]
        assert late == [], "none that was granted later had queued before this one asked"
    owner = {hold.token: hold for hold in holds}
    assert story.writes and all(write.accepted for write in story.writes)
    for write in story.writes:
        hold = owner[write.token]
        assert write.client == hold.client and hold.granted_ns < write.t_ns < hold.released_ns


def crash_of_the_holder(seed: int, **options: str) -> None:
    """A holder of three dies amid its writes."""
    story = Story(
        seed=seed,
        time_ns=6 * SECOND,
        options={"gap_ms": "100", **options},
        faults=[fault("kill", "holder", 2000, 3000)],
    )
    death = story.window("kill")
    crashed = story.holding_at(death.from_ns)
    assert death.nodes == (crashed.client,) and crashed.released_ns == 0
    after = story.after(crashed)
    assert after.client != crashed.client and after.token == crashed.token + 1
    assert 0 < after.waited_ns < after.granted_ns, "it waited, and was not refused"
    assert story.lease_end_ns(crashed) < after.granted_ns < death.to_ns
    assert after.granted_ns < crashed.granted_ns + LEASE_NS + SECOND // 4
    written = [write.t_ns for write in story.writes if write.token == crashed.token]
    assert all(t_ns < death.from_ns + SECOND // 4 for t_ns in written), "the dead write no more"
    assert story.judged("mutual-exclusion").findings == ()


def paused_past_its_lease(seed: int, resource: str, **options: str) -> Story:
    """A holder of three is stopped amid its writes for three times its lease."""
    return Story(
        seed=seed,
        time_ns=6 * SECOND,
        resource=resource,
        options={"gap_ms": "100", **options},
        faults=[fault("pause", "holder", 2000, 3000)],
    )


def told_of(story: Story) -> tuple[Hold, Hold, Window]:
    """Up to the end of the pause both runs go alike: paused, lease over, another granted."""
    pause = story.window("pause")
    paused = story.holding_at(pause.from_ns)
    assert pause.nodes == (paused.client,)
    after = story.after(paused)
    assert paused.granted_ns < pause.from_ns < after.granted_ns < pause.to_ns
    assert story.lease_end_ns(paused) < after.granted_ns
    assert after.client != paused.client and after.token == paused.token + 1
    assert pause.to_ns <= story.lost_ns(paused), "who is stopped cannot be notified"
    newer = [w for w in story.writes if w.token > paused.token and w.t_ns < pause.to_ns]
    assert newer and all(write.accepted for write in newer)
    asleep = [w for w in story.writes if w.token == paused.token and w.t_ns > pause.from_ns]
    assert asleep and asleep[-1].t_ns >= pause.to_ns, "it writes on as soon as it can"
    return paused, after, pause


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pause_past_the_lease_ends_in_a_stale_write_where_nobody_checks(seed: int) -> None:
    story = paused_past_its_lease(seed, "unfenced")
    paused, after, pause = told_of(story)
    late = [w for w in story.writes if w.token == paused.token and w.t_ns >= pause.to_ns]
    assert late and all(write.accepted for write in late)
    assert after.granted_ns < late[0].t_ns
    assert story.judged("mutual-exclusion").findings == (), "the lock was not to blame"
    findings = story.judged("no-stale-write").findings
    assert {finding.kind for finding in findings} == {"stale-accepted-write"}
    assert findings[0].t_ns >= pause.to_ns


def stale_token(seed: int, **options: str) -> None:
    """The same pause before a resource that compares tokens."""
    story = paused_past_its_lease(seed, "fenced", **options)
    paused, _, pause = told_of(story)
    late = [w for w in story.writes if w.token == paused.token and w.t_ns >= pause.to_ns]
    assert late and not any(write.accepted for write in late)
    highest = 0
    for write in story.writes:
        assert write.accepted == (write.token >= highest), write
        highest = max(highest, write.token)
    assert story.judged("no-stale-write").verdict is Verdict.HOLDS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_majority_grants_without_one_server_and_not_without_two(seed: int) -> None:
    story = Story(
        seed=seed,
        system="majority",
        nodes=3,
        time_ns=8 * SECOND,
        faults=[
            fault("partition", "minority", 1000, 1500, shape="isolate"),
            fault("pause", "majority", 4000, 2000),
        ],
    )
    one, two = story.window("partition"), story.window("pause")
    assert len(one.nodes) == 1 and len(two.nodes) == 2
    within = [h for h in story.holds if one.from_ns < h.asked_ns and h.granted_ns < one.to_ns]
    assert within, "two of three are a majority"
    stopped = [h for h in story.holds if two.from_ns < h.asked_ns < two.to_ns]
    assert all(hold.granted_ns >= two.to_ns for hold in stopped), "one of three is none"
    assert [h for h in story.holds if h.asked_ns > two.to_ns], "and after it, it goes on"
    assert story.judged("mutual-exclusion").findings == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_majority_that_forgets_its_votes_grants_what_another_holds(seed: int) -> None:
    story = Story(
        seed=seed,
        system="majority",
        nodes=3,
        workload="renewal",
        time_ns=8 * SECOND,
        lease_ns=4 * SECOND,
        options={"hold_leases": "1"},
        faults=[fault("kill", "majority", 2000, 100)],
    )
    death = story.window("kill")
    holder = story.holding_at(death.from_ns)
    second = story.after(holder)
    assert holder.granted_ns < death.from_ns < death.to_ns < second.granted_ns
    assert second.client != holder.client
    assert second.granted_ns < holder.granted_ns + 4 * SECOND, "amid the lease of the first"
    assert holder.released_ns == 0 or second.granted_ns < holder.released_ns
    assert story.judged("mutual-exclusion").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("seed", SEEDS)
def test_contention_one_holds_at_a_time_in_the_order_of_the_queue(seed: int) -> None:
    contention(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crashed_holder_keeps_the_lock_until_its_lease_is_over_and_no_longer(seed: int) -> None:
    crash_of_the_holder(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stale_token_is_refused_where_the_resource_compares_tokens(seed: int) -> None:
    stale_token(seed)


@pytest.mark.parametrize(
    ("timeline", "mutant"),
    [
        (contention, "last-come-first"),
        (crash_of_the_holder, "early-expiry"),
        (crash_of_the_holder, "endless-lease"),
        (stale_token, "early-expiry"),
        (stale_token, "unchecked-tokens"),
        (stale_token, "endless-lease"),
    ],
)
def test_a_planted_bug_makes_another_timeline(timeline: Any, mutant: str) -> None:
    with pytest.raises(AssertionError):
        timeline(SEEDS[0], mutant=mutant)
