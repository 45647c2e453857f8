"""Stamps of other hosts become intervals that hold the truth, and no verdict leans on more."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.clusters.systems.reference.system import SYSTEM
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import ROW_FORMAT, Op, Status, attempt_id
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.history import host_clocks, reader
from holdfast.harness.history.host_clocks import HostClock, Sample
from holdfast.harness.recording.segments import write_closed
from holdfast.harness.runs import directory

MINUTE = 60 * SECOND
LEASE = 2 * SECOND
Clock = Callable[[int], int]


def skewed(rng: random.Random) -> Clock:
    """A host's clock: minutes off, 200 ppm fast or slow, its drift turning round midway."""
    offset, ppm = rng.randrange(0, 18 * MINUTE), rng.choice((-200, 200))
    turn = rng.randrange(5 * SECOND, 25 * SECOND)
    return lambda t: t + offset + (min(t, turn) - max(0, t - turn)) * ppm // 1_000_000


def looks(rng: random.Random, clock: Clock, span_ns: int) -> list[Sample]:
    """Round trips of 0.2 to 3 ms, as uneven as can be, every 40 to 80 ms."""
    found, now = [], 10 * SECOND
    while now < 10 * SECOND + span_ns:
        there, back = (rng.randrange(MILLISECOND // 10, 3 * MILLISECOND // 2) for _ in range(2))
        found.append(
            Sample(sent_ns=now, host_ns=clock(now + there), received_ns=now + there + back)
        )
        now += rng.randrange(40 * MILLISECOND, 80 * MILLISECOND)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_true_moment_is_never_outside_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    clock = skewed(rng)
    known = HostClock(looks(rng, clock, 20 * SECOND))
    truth = np.array(sorted(rng.randrange(9 * SECOND, 31 * SECOND) for _ in range(2000)), np.int64)
    stamps = np.array([clock(int(t)) for t in truth], np.int64)
    assert (known.earliest(stamps) <= truth).all()
    assert (known.latest(stamps) >= truth).all()
    assert not known.contradicted
    inside = (truth > 10 * SECOND) & (truth < 30 * SECOND)
    assert known.error_ns(stamps[inside]) < MILLISECOND


def test_drift_is_seen() -> None:
    rng = random.Random(1)
    known = HostClock(looks(rng, lambda t: t + MINUTE + t * 200 // 1_000_000, 20 * SECOND))
    assert abs(known.summary(np.empty(0, np.int64)).drift_ppm - 200) < 40


def test_a_clock_that_steps_is_found_and_stays_bounded() -> None:
    rng = random.Random(2)

    def clock(t: int) -> int:
        return t + (MINUTE if t > 20 * SECOND else 0)

    known = HostClock(looks(rng, clock, 20 * SECOND))
    assert known.contradicted
    truth = np.array([15 * SECOND, 25 * SECOND], np.int64)
    stamps = np.array([clock(int(t)) for t in truth], np.int64)
    assert (known.earliest(stamps) <= truth).all() and (known.latest(stamps) >= truth).all()
    assert known.error_ns(stamps) > 29 * SECOND


class Writing:
    """Two clients on two hosts that take turns at one lock, recorded by each host's own clock."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.clocks = [skewed(self.rng), skewed(self.rng)]
        self.rows: list[list[bytes]] = [[], []]
        self.attempts = 0

    def op(self, who: int, f: Op, inv: int, ret: int, attempt: int, token: int) -> None:
        clock = self.clocks[who]
        res = LEASE if f in (Op.ACQUIRE, Op.RENEW) else 0
        columns = (clock(inv), clock(ret), attempt, token, LEASE, res, -1, 0)
        small = (0, 0, who + 1, 1, 0, 0, int(f), 0, 0, int(Status.OK), 0)
        self.rows[who].append(struct.pack(ROW_FORMAT, *columns, *small))

    def turns(self, count: int, overlap_ns: int = 0) -> None:
        """Each asks while the other holds, and is granted right after the release began. With an
        overlap, one renewal of every second holder is still answered ok that much after."""
        now = 11 * SECOND
        for n in range(count):
            who, token = n % 2, n + 1
            attempt = attempt_id(who + 1, n + 1)
            granted = now
            self.op(who, Op.ACQUIRE, granted - 5 * MILLISECOND, granted, attempt, token)
            end = granted + self.rng.randrange(4 * MILLISECOND, 30 * MILLISECOND)
            proof = end + (overlap_ns if n % 2 == 0 else 0)
            self.op(who, Op.RENEW, proof, proof + 50_000, attempt, token)
            self.op(who, Op.RELEASE, proof + 60_000, proof + 120_000, attempt, token)
            now = end + (70_000 if not overlap_ns or n % 2 else 0)

    def judged(self, asked_ns: int = 10 * MILLISECOND) -> tuple[Verdict, Sequence[Finding], int]:
        """Mutual exclusion as `load` and the checker see it, and the proven error."""
        (self.folder / "history").mkdir(parents=True)
        for who, rows in enumerate(self.rows):
            meta = {"writer": f"c{who + 1}", "node": f"c{who + 1}", "processes": [who + 1]}
            write_closed(self.folder / "history", meta, ["", "lock-1"], b"".join(rows))
        hosts = {"h1": ["c1"], "h2": ["c2"]}
        path = self.folder / host_clocks.FILE
        host_clocks.begin(path, asked_ns=asked_ns, hosts=hosts)
        for host, clock in zip(hosts, self.clocks, strict=True):
            for look in looks(self.rng, clock, 8 * SECOND):
                stamps = {name: getattr(look, name) for name in look.__dataclass_fields__}
                directory.append(path, {"host": host, **stamps})
            directory.append(path, {"host": host, "whole": True})
        recording = reader.load(self.folder / "history")
        case = Case(
            history=recording.history,
            promises=SYSTEM.promises({}),
            windows=(),
            asked=("mutual-exclusion",),
            start_ns=10 * SECOND,
            stop_ns=30 * SECOND,
            end_ns=30 * SECOND,
            lease_ns=LEASE,
            error_ns=recording.error_ns,
            nodes=recording.nodes,
        )
        verdict = check(case)
        return verdict.verdict, verdict.findings, recording.error_ns


@pytest.mark.parametrize("seed", range(20))
def test_skewed_hosts_show_no_false_double_holder(tmp_path: Path, seed: int) -> None:
    no_false_double_holder(tmp_path, seed)


@pytest.mark.power
@pytest.mark.parametrize("seed", range(20, 220))
def test_two_hundred_pairs_of_skewed_hosts(tmp_path: Path, seed: int) -> None:
    no_false_double_holder(tmp_path, seed)


def no_false_double_holder(tmp_path: Path, seed: int) -> None:
    """A correct lock, judged over clocks that are minutes apart."""
    writing = Writing(tmp_path, seed)
    writing.turns(100)
    verdict, findings, _ = writing.judged()
    assert verdict is not Verdict.VIOLATED
    assert findings == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_double_holder_larger_than_the_bound_is_found(tmp_path: Path, seed: int) -> None:
    writing = Writing(tmp_path, seed)
    writing.turns(100, overlap_ns=8 * MILLISECOND)
    verdict, _, error_ns = writing.judged()
    assert 4 * error_ns < 8 * MILLISECOND
    assert verdict is Verdict.VIOLATED


def test_a_bound_that_is_worse_than_asked_proves_nothing(tmp_path: Path) -> None:
    writing = Writing(tmp_path, 1)
    writing.turns(100)
    assert writing.judged(asked_ns=MILLISECOND // 10)[0] is Verdict.UNKNOWN
