"""Two programs that were written apart bound a host's clock alike."""

from __future__ import annotations

import random

import numpy as np

from holdfast.harness.history import host_clocks
from holdfast.harness.verification.clocks import Clocks, HostClock


def samples(chance: random.Random) -> list[host_clocks.Sample]:
    offset, at, made = chance.randint(-(10**10), 10**10), 10**12, []
    for _ in range(chance.randint(1, 12)):
        at += chance.randint(1, 10**9)
        trip = chance.randint(1, 10**7)
        host = at + offset + chance.randint(0, trip)
        made.append(host_clocks.Sample(sent_ns=at, host_ns=host, received_ns=at + trip))
        offset += chance.randint(-1000, 1000) * chance.choice((1, 1, 1, 10**3, 10**4, 10**6))
    return made


def test_intervals_and_errors_of_a_host_are_the_same_by_both() -> None:
    chance, stepped = random.Random(5), 0
    for _ in range(300):
        drawn = samples(chance)
        theirs = host_clocks.HostClock(drawn, 1000)
        ours = HostClock(
            [(s.host_ns, s.sent_ns - s.host_ns, s.received_ns - s.host_ns) for s in drawn], 1000
        )
        assert ours.error_ns == theirs.error_ns(np.array([], np.int64))
        low, high = drawn[0].host_ns - 10**9, drawn[-1].host_ns + 10**9
        stamps = np.array([chance.randint(min(low, high), max(low, high)) for _ in range(9)])
        both = zip(theirs.earliest(stamps).tolist(), theirs.latest(stamps).tolist(), strict=True)
        assert [ours.interval(stamp) for stamp in stamps.tolist()] == list(both)
        assert ours.error_ns == theirs.error_ns(stamps)
        stepped += theirs.contradicted
    assert 0 < stepped < 300


def test_calls_become_earlier_and_answers_later_and_what_never_returned_stays_open() -> None:
    head = {"asked_ns": 1, "most_ppm": 1000, "hosts": {"far": ["c1"]}}
    sample = {"host": "far", "sent_ns": 100, "host_ns": 1_000, "received_ns": 120}
    clocks = Clocks([head, sample, {"host": "far", "whole": True}])
    inv, ret = [1_000, 0, 1_000], [1_000, 0, 0]
    clocks.widen("c1", inv, ret)
    assert 95 <= inv[0] <= 100 and 120 <= ret[0] <= 125 and (inv[1], ret[1]) == (0, 0)
    assert (inv[2] <= 100, ret[2]) == (True, 0)
    assert clocks.span("c1", 1_000, 1_000) == (inv[0], ret[0])
    assert clocks.whole
    assert clocks.error_ns >= 10
    assert not Clocks([head, sample]).whole


def test_every_host_has_a_clock_of_its_own_samples() -> None:
    head = {"asked_ns": 1, "most_ppm": 1000, "hosts": {"near": ["c1"], "far": ["c2", "n1"]}}
    near = {"host": "near", "sent_ns": 100, "host_ns": 1_000, "received_ns": 120}
    far = {"host": "far", "sent_ns": 100, "host_ns": 50_000, "received_ns": 120}
    clocks = Clocks([head, near, far])
    for node, stamp in (("c1", 1_000), ("c2", 50_000), ("n1", 50_000)):
        low, high = clocks.span(node, stamp, stamp)
        assert 95 <= low <= 100 and 120 <= high <= 125
