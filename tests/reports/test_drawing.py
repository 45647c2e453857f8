"""The pictures: what they show of a finding, on which axis, and that no label covers another."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.harness.verdicts.evidence import Dist, Histogram
from holdfast.harness.verdicts.judged import Event, Judged, ObservedFault, Shown, read
from holdfast.reports.pictures.charts import distribution, falls, tokens
from holdfast.reports.pictures.finding import PHONE_PX, draw, pattern
from holdfast.reports.pictures.finding_scene import RESOURCE, halves, scene, told
from holdfast.reports.pictures.overview import grants_per_second, overview
from holdfast.reports.pictures.svg import (
    NARROW_PX,
    by_order,
    linear,
    place_labels,
    round_ticks,
)
from tests.reports import specimens
from tests.reports.pieces import SECOND, at, event, hold


def shown(run: Judged, property_at: int, finding: int = 0) -> Shown:
    """One finding of a run that has been read."""
    return run.verdicts[property_at].findings[finding]


def texts(picture: str) -> list[str]:
    """All words in a picture."""
    return [element.text or "" for element in ET.fromstring(picture).iter("text")]


def test_a_double_grant_shows_two_holds_and_only_their_overlap_in_red() -> None:
    run = read(specimens.broken())
    drawn = scene(shown(run, 0), run)
    assert drawn.lanes == ("c3", "c5")
    assert drawn.clashes == ((at(18.660), at(19.171)),)
    assert drawn.guilty == -1
    picture = ET.fromstring(draw(shown(run, 0), 2, run, "broken"))
    red = [element for element in picture.iter("rect") if element.get("class") == "clash"]
    assert len(red) == 2
    assert len({(element.get("x"), element.get("width")) for element in red}) == 1
    assert "both hold it for 511 ms" in texts(str(draw(shown(run, 0), 2, run, "broken")))


def test_a_refused_release_is_no_half_of_the_proof_that_its_client_held() -> None:
    """A server's clock jumped: the second grant contradicts the first one's lease, and that the
    first client's release is refused later is what follows."""
    run = read(specimens.broken())
    broken = replace(
        shown(run, 0),
        kind="broken-lease",
        spans=((at(17.934), at(19.171), "c3", 0), (at(18.66), at(19.4), "c5", 1)),
        witnesses=tuple(
            msgspec.convert(one, Event)
            for one in (
                event("acquire", 3, 17.902, 17.934),
                event("acquire", 5, 18.612, 18.660),
                event("release", 3, 19.171, 19.176, status="not-owner"),
            )
        ),
    )
    assert [half.text for half in halves(broken, run)] == ["granted", "granted"]
    assert [half.lane for half in halves(broken, run)] == ["c3", "c5"]
    # Where a response does show the hold, it is the half.
    grant, renewal = halves(shown(run, 0), run)
    assert (grant.lane, grant.text) == ("c5", "granted, token 45")
    assert (renewal.lane, renewal.text) == ("c3", "renewal ok, token 44")


def test_a_stale_write_points_at_the_write_and_at_who_sent_it() -> None:
    run = read(specimens.limit())
    drawn = scene(shown(run, 1), run)
    assert drawn.lanes == ("c1", "c2", RESOURCE)
    assert drawn.clashes == ()
    guilty = drawn.marks[drawn.guilty]
    assert (guilty.sender, guilty.lane, guilty.t_ns) == ("c1", RESOURCE, at(7.031))
    picture = draw(shown(run, 1), 1, run, "limits")
    assert "c1: write accepted · 7.031 s" in texts(picture)
    assert "f1 pause of c1" in texts(picture)


@pytest.mark.parametrize("kind", ["stale-accepted-write", "expired-owner-write", "token-inversion"])
def test_what_an_owner_only_believed_is_hatched_from_the_next_grant_on(kind: str) -> None:
    run = read(specimens.limit())
    finding = replace(shown(run, 1), kind=kind)
    outlasted = kind != "token-inversion"
    assert [bar.belief_ns for bar in scene(finding, run).bars] == [at(6.004) * outlasted, 0]
    picture = str(draw(finding, 1, run, "limits"))
    assert picture.count("url(#hatch-belief)") == outlasted
    assert ("only believed from 6.004 s" in picture) is outlasted
    alone = replace(finding, witnesses=finding.witnesses[:1])
    assert [bar.belief_ns for bar in scene(alone, run).bars] == [0, 0]


def test_the_end_of_the_lease_is_drawn_and_only_belief_follows_it() -> None:
    run = read(specimens.limit())
    finding = shown(run, 1)
    owner = finding.witnesses[finding.spans[0][3]]
    start, end = finding.spans[0][:2]
    lease = (start + end) // 2
    first, second = scene(finding, run, {owner.row: lease}).bars
    assert (first.lease_ns, first.belief_ns) == (lease, min(lease, at(6.004)))
    assert (second.lease_ns, second.belief_ns) == (0, 0)
    picture = str(draw(finding, 1, run, "limits", {owner.row: lease}))
    assert texts(picture).count("lease ends") == picture.count('class="lease-end"') == 1
    assert f"its lease ends at {(lease - run.start_ns) / SECOND:.3f} s" in picture
    for outside in (start, end, end + 1):
        assert scene(finding, run, {owner.row: outside}).bars[0].lease_ns == 0
    assert "lease ends" not in texts(str(draw(finding, 1, run, "limits")))


def test_faults_outside_the_stretch_or_without_a_bite_are_not_drawn() -> None:
    run = read(specimens.broken())
    assert [fault.id for fault in scene(shown(run, 0), run).faults] == ["f3", "f4"]
    assert [fault.id for fault in scene(shown(run, 1), run).faults] == ["f2"]


def test_the_axis_says_whether_it_is_time_or_order() -> None:
    run = read(specimens.broken())
    assert "seconds since the start" in texts(draw(shown(run, 0), 1, run, "broken"))[-1]
    close = Shown(
        kind="double-grant",
        sentence="",
        lock="db",
        t_ns=at(9.0005),
        witnesses=(
            Event(op="acquire", node="c1", t_inv_ns=at(1), t_ret_ns=at(1.1), status="ok"),
            Event(op="acquire", node="c2", t_inv_ns=at(9), t_ret_ns=at(9.0005), status="ok"),
            Event(op="renew", node="c1", t_inv_ns=at(9.001), t_ret_ns=at(9.002), status="ok"),
        ),
        spans=((at(1.1), at(9.001), "c1", 0), (at(9.0005), at(9.5), "c2", 1)),
    )
    drawn = scene(close, run)
    assert drawn.in_order
    start, end = drawn.clashes[0]
    assert drawn.scale(end) - drawn.scale(start) > 0.1
    assert "in order of time" in texts(draw(close, 1, run, "broken"))[-1]
    # As many decimals as tell its times apart: 9.0005 and 9.001 s.
    assert drawn.digits == 4


def test_a_hold_that_nobody_ended_is_drawn_open() -> None:
    run = read(specimens.broken())
    finding = shown(run, 0)
    endless = Shown(
        kind="double-holder",
        sentence="",
        lock="db",
        t_ns=finding.t_ns,
        witnesses=finding.witnesses,
        spans=((at(17.934), 1 << 62, "c3", 0), (at(18.66), at(19.4), "c5", 2)),
    )
    first = scene(endless, run).bars[0]
    assert first.open_end
    assert first.to_ns < at(20)


def test_odd_findings_are_drawn_without_a_crash() -> None:
    run = read(specimens.broken())
    bare = Shown(kind="orphan", sentence="nobody holds it", lock="db", t_ns=at(3))
    words = texts(draw(bare, 1, run, "broken"))
    assert "3.000" in words
    assert len(words) == len(set(words))
    never = Event(op="acquire", node="c1", t_inv_ns=at(2), status="info")
    one = Shown(kind="hung-request", sentence="", lock="db", t_ns=at(2), witnesses=(never,))
    assert "requested, no response · 2.000 s" in texts(draw(one, 1, run, "broken"))
    loose = Shown(
        kind="deadlock", sentence="", lock="db", t_ns=0, spans=((at(1), at(2), "free", -1),)
    )
    assert scene(loose, run).lanes == ("lock db",)
    assert draw(loose, 1, run, "broken")


def test_an_event_is_told_by_what_the_service_answered() -> None:
    def words(op: str, status: str, token: int = -1) -> str:
        return told(Event(op=op, status=status, token=token, t_inv_ns=1))

    assert words("acquire", "ok", 8) == "granted, token 8"
    assert words("try", "fail") == "refused"
    assert words("release", "not-owner") == "release not the owner"
    assert words("served_write", "fail", 7) == "write refused, token 7"
    assert words("renew", "invoked") == "renewal without response"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, allow_nan=False), st.text("x", min_size=1, max_size=40)),
        max_size=7,
    ),
    st.sampled_from([NARROW_PX, PHONE_PX]),
)
def test_no_label_covers_another_or_leaves_the_plot(
    ticks: list[tuple[float, str]], room: int
) -> None:
    placed = place_labels(ticks, room)
    assert sorted(label.index for label in placed) == list(range(len(ticks)))
    for a, b in combinations(placed, 2):
        assert a.level != b.level or a.high <= b.low or b.high <= a.low
    for label in placed:
        assert label.low >= -1 and label.high <= room + 1
        width = label.high - label.low
        # Across its tick only where neither side has the room.
        beside = label.x + width <= room or label.x >= width
        assert label.x in (label.low, label.high) or not beside


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=12))
def test_time_never_runs_backwards_on_either_axis(times: list[int]) -> None:
    for scale in (by_order(times), linear(min(times), max(times))):
        shares = [scale(t) for t in sorted(times)]
        assert shares == sorted(shares)
        assert 0 <= shares[0] <= shares[-1] <= 1
    knots = sorted(set(times))
    steps = [by_order(times)(t) for t in knots]
    assert len(set(steps)) == len(knots)


def test_ticks_are_round_numbers_within_the_axis() -> None:
    assert round_ticks(0, 30, 10) == [0, 5, 10, 15, 20, 25, 30]
    assert [round(tick, 3) for tick in round_ticks(17.9, 19.5, 4)] == [18.0, 18.5, 19.0, 19.5]
    assert round_ticks(2, 2) == [2]


def test_the_hatching_of_a_fault_is_said_by_the_verdict_or_known_of_an_older_one() -> None:
    def hatching(do: str, said: str | None) -> str:
        return pattern(
            ObservedFault(id="f1", do=do, from_ns=0, to_ns=1, effective=True, pattern=said)
        )

    assert hatching("mine.py:NEMESIS", "pause") == "pause"
    assert hatching("mine.py:NEMESIS", "") == hatching("kill", "") == "other"
    assert hatching("kill", None) == "kill" and hatching("reset", None) == "other"
    assert hatching("mine.py:NEMESIS", None) == hatching("kill", "<odd>") == "other"


def test_the_overview_counts_grants_per_second_and_numbers_the_findings() -> None:
    run = read(specimens.broken())
    rates, weight = grants_per_second(run)
    assert len(rates) == 30
    assert abs(sum(rates) - 512) < 1e-6
    assert weight > 1
    picture = overview(run, [(1, shown(run, 0), "broken"), (2, shown(run, 1), "notes")])
    assert {"1", "2", "pause", "kill", "partition", "clock", "f5: no effect"} <= set(texts(picture))
    none = read(specimens.unknown())
    assert grants_per_second(none)[0] == []
    assert "no times of grants in the verdict" in texts(overview(none, []))


def test_exact_grant_counts_are_preferred_to_the_thinned_log() -> None:
    run = specimens.broken()
    run["evidence"]["grants"] = {"edges_ns": [at(0), at(15), at(30)], "counts": [30, 150]}
    assert grants_per_second(read(run)) == ([2.0, 10.0], 1.0)


def test_a_distribution_without_values_is_not_drawn() -> None:
    assert distribution("x", "x", Dist()) is None
    broken = Dist(n=3, histogram=Histogram(edges_ns=(1.0, 2.0), counts=(1, 2)))
    assert distribution("x", "x", broken) is None
    one = Dist(n=1, p50=5.0, p99=5.0, histogram=Histogram(edges_ns=(5.0, 5.0), counts=(1,)))
    assert distribution("x", "x", one)
    late = Dist(n=2, p50=-5.0, p99=9.0, histogram=Histogram(edges_ns=(-9.0, 9.0), counts=(2,)))
    assert "linear axis" in texts(distribution("x", "x", late) or "")


def test_a_token_that_fell_is_marked_per_lock() -> None:
    log = [(1, "a", 5, 1), (2, "b", 1, 1), (3, "a", 6, 1), (4, "a", 6, 2), (5, "b", 2, 1)]
    assert falls(log) == {3}
    assert "token 105 at 13.806 s" in texts(tokens(read(specimens.broken())) or "")
    assert tokens(read(specimens.limit())) is None


def test_specimens_tell_one_consistent_tale() -> None:
    run = read(specimens.broken())
    for one in run.verdicts:
        for finding in one.findings:
            for start, end, _, index in finding.spans:
                assert start < end
                assert finding.witnesses[index].t_ret_ns == start
    assert event("acquire", 1, 1, None)["t_ret_ns"] == 0
    assert hold(1, 2, "x", 0)[1] - hold(1, 2, "x", 0)[0] == SECOND
