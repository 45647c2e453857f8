"""What each workload does that others do not, read from the history of a run without faults."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from holdfast.engine.seed_search import one_seed
from holdfast.harness.core.case import Rows
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.job_keys import job_of
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, carried
from tests.workloads.runs import CLIENTS, LEASE_NS, SECONDS, calls, grants, history, holds, ran

CLIENT_NUMBERS = range(1, CLIENTS + 1)


def by(rows: Rows, process: int) -> Rows:
    """The rows of one client."""
    return np.asarray(rows[rows["process"] == process])


def begun(rows: Rows, op: Op) -> list[int]:
    """When the calls of this kind began."""
    return [int(t_ns) for t_ns in rows[rows["f"] == op]["t_inv"]]


def kinds(rows: Rows) -> list[Op]:
    """The operations, in order of their calls."""
    return [Op(int(f)) for f in rows["f"]]


def terms(rows: Rows) -> list[tuple[bool, int, int]]:
    """(reentrant, priority, the rest) of acquires, unpacked from their column `op`."""
    return [(bool(op & 1), op >> 1 & 127, op >> 8) for op in rows["op"].tolist()]


def test_every_second_write_of_duplicate_request_is_sent_twice() -> None:
    for hold in holds("duplicate-request", writes="5"):
        assert hold[hold["f"] == Op.WRITE]["aux"].tolist() == [0, 1, 0, 1, 0]
    assert set(calls("critical-section", Op.WRITE)["aux"].tolist()) == {0}


@pytest.mark.parametrize("workload", ["lost-update", "slow-dependency"])
def test_a_write_is_based_on_the_version_read_before_it(workload: str) -> None:
    based = 0
    for hold in holds(workload):
        requests = hold[[int(f) in (Op.READ, Op.WRITE) for f in hold["f"]]]
        for read, write in pairwise(requests):
            if write["f"] == Op.WRITE:
                assert read["f"] == Op.READ and write["arg"] == read["res"]
                based += write["arg"] > 0
    assert based > CLIENTS


def test_one_in_three_clients_of_read_write_writes_and_the_others_share() -> None:
    for process in CLIENT_NUMBERS:
        acquires = by(calls("read-write", Op.ACQUIRE), process)
        writes = len(by(calls("read-write", Op.WRITE), process))
        reads = len(by(calls("read-write", Op.READ), process))
        mode = Mode.EXCLUSIVE if process % 3 == 0 else Mode.SHARED
        assert set(acquires["mode"].tolist()) == {mode}
        assert (writes > 0, reads > 0) == (process % 3 == 0, process % 3 != 0)


def test_hierarchy_locks_all_levels_and_writes_to_leaves_below_its_path() -> None:
    strings, levels = history("hierarchy").strings, Counter[int]()
    for hold in holds("hierarchy"):
        path = strings[hold["key"][0]]
        levels[path.count("/") - 1] += 1
        written = {strings[key] for key in hold[hold["f"] == Op.WRITE]["key"].tolist()}
        assert all(f"{leaf}/".startswith(f"{path}/") and leaf.count("/") == 3 for leaf in written)
    # 1, 2 and 3 of 6.
    assert 0 < levels[0] < levels[1] < levels[2]


def test_reentrant_holds_are_nested_up_to_three_and_written_at_every_depth() -> None:
    depths = set()
    for process in CLIENT_NUMBERS:
        rows = by(calls("reentrant", Op.ACQUIRE, Op.WRITE, Op.RELEASE), process)
        entered = list[int]()
        for before, row in pairwise(rows):
            if row["f"] == Op.ACQUIRE:
                assert not entered or row["key"] == before["key"]
                entered.append(int(row["attempt"]))
            elif row["f"] == Op.WRITE:
                # After each acquire, and after each release that leaves an entry.
                assert before["f"] != Op.WRITE
                assert not entered or row["attempt"] == entered[-1]
            elif entered:
                assert row["attempt"] == entered.pop() and before["f"] == Op.WRITE
            depths.add(len(entered))
    assert max(depths) == 3 and 0 in depths
    assert {reentrant for reentrant, _, _ in terms(grants("reentrant"))} == {True}
    assert {reentrant for reentrant, _, _ in terms(grants("crowd"))} == {False}


@pytest.mark.parametrize("workload", ["renewal", "leader-election"])
def test_long_holds_last_for_their_leases_and_are_renewed_all_along(workload: str) -> None:
    every, stop_ns = holds(workload, renew_pct="20"), ran(workload, renew_pct="20").case.stop_ns
    # The end of the run cuts holds short.
    whole = [hold for hold in every if hold["t_inv"][-1] < stop_ns]
    spans = [int(hold["t_inv"][-1] - hold["t_ret"][0]) for hold in whole]
    assert spans and 2.99 * LEASE_NS < min(spans) <= max(spans) < 3.5 * LEASE_NS
    for hold in whole:
        renewals = hold[hold["f"] == Op.RENEW]
        assert renewals["t_inv"][0] - hold["t_ret"][0] < LEASE_NS // 10
        gaps = [after - before for before, after in pairwise(renewals["t_inv"].tolist())]
        assert all(0.19 * LEASE_NS < gap < 0.3 * LEASE_NS for gap in gaps)
        written = [after - before for before, after in pairwise(begun(hold, Op.WRITE))]
        assert len(written) > 40 and all(0.04 < gap / LEASE_NS < 0.08 for gap in written)


def test_extended_renewals_ask_for_twice_and_half_of_the_lease_in_turn() -> None:
    for hold in holds("renewal", extend="1"):
        asked = hold[hold["f"] == Op.RENEW]["arg"].tolist()
        assert asked == [2 * LEASE_NS, LEASE_NS // 2] * (len(asked) // 2) + [2 * LEASE_NS] * (
            len(asked) % 2
        )
    assert set(calls("renewal", Op.RENEW)["arg"].tolist()) == {LEASE_NS}


def test_a_leader_reads_first_and_is_no_candidate_for_a_lease_afterwards() -> None:
    for hold in holds("leader-election"):
        requests = [op for op in kinds(hold) if op in (Op.READ, Op.WRITE)]
        assert requests[0] is Op.READ and Op.READ not in requests[1:]
    rows = calls("leader-election", Op.ACQUIRE, Op.RELEASE)
    for process in CLIENT_NUMBERS:
        for before, after in pairwise(by(rows, process)):
            if before["f"] == Op.RELEASE:
                assert after["t_inv"] - before["t_ret"] > 0.99 * LEASE_NS


def test_paced_clients_try_at_the_planned_times() -> None:
    tries = calls("paced", Op.TRY, rate="120")
    assert 0.9 * SECONDS * 120 < len(tries) <= 1.05 * SECONDS * 120
    assert not len(calls("paced", Op.ACQUIRE, rate="120"))
    for process in CLIENT_NUMBERS:
        gaps = [after - before for before, after in pairwise(begun(by(tries, process), Op.TRY))]
        assert all(40 * MILLISECOND < gap < 60 * MILLISECOND for gap in gaps)
    # Not all at once: each client begins at its own random time.
    firsts = sorted(int(by(tries, process)["t_inv"][0]) for process in CLIENT_NUMBERS)
    assert firsts[-1] - firsts[0] > 5 * MILLISECOND


@pytest.mark.slow
def test_a_paced_client_that_cannot_keep_up_records_by_how_much_it_is_late() -> None:
    # What the clock of a node is slow by makes some us of it.
    assert calls("paced", Op.TRY, rate="120")["late"].max() < 100
    late_us = by(calls("paced", Op.TRY, rate="60000"), 1)["late"].tolist()
    assert late_us == sorted(late_us) and 1_000_000 < late_us[-1] < SECONDS * 1_000_000
    assert set(calls("paced", Op.TRY)["late"].tolist()) == {0}, "nothing is due"


@pytest.mark.parametrize("workload", ["paced", "crowd"])
def test_a_hold_of_one_request_is_one_blind_write(workload: str) -> None:
    for hold in holds(workload):
        assert [op for op in kinds(hold)[1:] if op not in (Op.WAITING, Op.ARRIVED)] == [
            Op.WRITE,
            Op.RELEASE,
        ]
    assert set(calls(workload, Op.WRITE)["arg"].tolist()) == {-1}


def test_high_priority_clients_are_two_of_three_and_use_one_lock() -> None:
    acquires = calls("priority-flood", Op.ACQUIRE)
    for process in CLIENT_NUMBERS:
        found = {priority for _, priority, _ in terms(by(acquires, process))}
        assert found == {0} if process % 3 == 0 else found == {5, 6, 7}
    for workload in ("priority-flood", "crowd"):
        (key,) = set(calls(workload, Op.ACQUIRE)["key"].tolist())
        assert history(workload).strings[key] == "lock-1"


@pytest.mark.parametrize(("permits", "asked"), [("1", {1}), ("5", {1, 2})])
def test_permits_are_one_or_two_of_the_limit_and_renewed_in_the_middle(
    permits: str, asked: set[int]
) -> None:
    found = [rest for _, _, rest in terms(grants("semaphore", permits=permits))]
    assert {rest >> 16 for rest in found} == asked
    assert {rest & 0xFFFF for rest in found} == {int(permits)}
    for hold in holds("semaphore", permits=permits, writes="4", gap_ms="20"):
        (renewal,), (release,) = (hold[hold["f"] == op] for op in (Op.RENEW, Op.RELEASE))
        halves = (renewal["t_inv"] - hold["t_ret"][0], release["t_inv"] - renewal["t_ret"])
        assert all(39 * MILLISECOND < half < 50 * MILLISECOND for half in halves)
        assert hold["mode"][0] == Mode.PERMITS


def test_a_sequencer_is_checked_before_each_write_and_after_the_release() -> None:
    for hold in holds("sequencers", writes="3"):
        steps = [op for op in kinds(hold) if op in (Op.CHECK, Op.WRITE, Op.RELEASE)]
        assert steps == [Op.CHECK, Op.WRITE] * 3 + [Op.RELEASE, Op.CHECK]
        checks = hold[hold["f"] == Op.CHECK]
        assert checks["status"].tolist() == [Status.OK] * 3 + [Status.FAIL]
        assert set(checks["token"].tolist()) == {int(hold["token"][0])}


def test_a_shared_client_id_repeats_renewal_and_release_of_its_latest_hold() -> None:
    again = 0
    for hold in holds("shared-client-id"):
        steps = [op for op in kinds(hold) if op in (Op.RENEW, Op.RELEASE)]
        late = steps[2:]
        assert steps[:2] == [Op.RENEW, Op.RELEASE] and late in ([], [Op.RENEW, Op.RELEASE])
        if late:
            again += 1
            assert hold["status"][-2:].tolist() == [Status.NOT_OWNER] * 2
    assert again >= len(grants("shared-client-id")) - CLIENTS


def test_clients_of_a_shared_id_that_pause_for_long_end_with_the_run() -> None:
    ran_long = one_seed(803150, "reference", {"queue": "priority"})
    assert "--workload shared-client-id" in ran_long.command and ran_long.problems == ()


def test_a_try_never_waits() -> None:
    assert not len(calls("try-lock", Op.ACQUIRE, Op.WAITING))
    assert len(grants("try-lock")) < len(calls("try-lock", Op.TRY))


def test_one_in_four_clients_of_retry_storm_queues_and_the_others_retry_at_once() -> None:
    for process in CLIENT_NUMBERS:
        found = set(kinds(by(calls("retry-storm", Op.ACQUIRE, Op.TRY), process)))
        assert found == {Op.ACQUIRE if process % 4 == 0 else Op.TRY}
    means = []
    for backoff in ("0", "40"):
        tries = by(calls("retry-storm", Op.TRY, backoff_ms=backoff), 1)
        gaps = [
            int(after["t_inv"] - before["t_ret"])
            for before, after in pairwise(tries)
            if before["status"] == Status.FAIL
        ]
        assert max(gaps) < 41 * MILLISECOND
        means.append(sum(gaps) / len(gaps))
    assert means[0] < MILLISECOND and 15 * MILLISECOND < means[1] < 25 * MILLISECOND


@pytest.mark.parametrize(
    ("mark", "order"), [("0", [False]), ("1", [False, True]), ("2", [True, False])]
)
def test_jobs_are_done_in_order_and_marked_when_it_was_asked_for(
    mark: str, order: list[bool]
) -> None:
    strings, done = history("singleton-job", mark=mark).strings, dict[str, list[int]]()
    every = holds("singleton-job", mark=mark)
    for hold in sorted(every, key=lambda hold: int(hold["t_ret"][0])):
        jobs = [job_of(strings[key]) for key in hold[hold["f"] == Op.WRITE]["key"].tolist()]
        assert [job is not None and job[2] for job in jobs] == order
        for job in jobs:
            assert job is not None and job[0] == strings[hold["key"][0]]
            if not job[2]:
                done.setdefault(job[0], []).append(job[1])
    # A job, and what comes after its effect or its mark, takes a random time.
    writes = [begun(hold, Op.WRITE)[-1] - int(hold["t_ret"][0]) for hold in every]
    assert max(writes) - min(writes) > 20 * MILLISECOND
    assert len(done) == 2
    assert all(numbers == list(range(len(numbers))) for numbers in done.values())


@pytest.mark.parametrize(("renews", "lost"), [("0", True), ("1", False)])
def test_a_slow_call_outlasts_the_lease_unless_the_owner_renews(renews: str, lost: bool) -> None:
    every = holds("slow-dependency", renews=renews)
    slow = [hold for hold in every if hold["t_ret"][-1] - hold["t_ret"][0] > 3 * LEASE_NS]
    assert 0 < len(slow) < len(every) // 2
    assert all((Op.LOST in kinds(hold)) == lost for hold in slow)
    assert all((Op.RENEW in kinds(hold)) != lost for hold in every)


def test_queries_ask_for_the_place_while_waiting_and_for_holder_and_length_while_holding() -> None:
    rows = calls("queries", Op.ACQUIRE, Op.PLACE)
    for place in rows[rows["f"] == Op.PLACE]:
        (acquire,) = rows[(rows["attempt"] == place["attempt"]) & (rows["f"] == Op.ACQUIRE)]
        assert acquire["t_inv"] < place["t_inv"] < acquire["t_ret"]
    conditional = [rest > 0 for _, _, rest in terms(calls("queries", Op.ACQUIRE))]
    assert 0.3 < sum(conditional) / len(conditional) < 0.7
    strings = history("queries", metadata="1").strings
    texts = {int(row["token"]): carried(row["attempt"]) for row in grants("queries", metadata="1")}
    for row in calls("queries", Op.HOLDER, metadata="1"):
        assert strings[row["err"]] == texts.get(int(row["token"]), "")
    assert not calls("queries", Op.HOLDER)["err"].any()
    own = {int(row["token"]) for row in grants("queries")}
    named = calls("queries", Op.HOLDER)
    assert {int(row["token"]) for row in named} - {NO_TOKEN} <= own and len(named) > len(own)
    assert len(calls("queries", Op.LENGTH)) == len(own)


def test_the_operator_ends_a_hanging_hold_after_two_leases_and_does_nothing_else() -> None:
    rows = history("manual-recovery").rows
    assert set(kinds(by(rows, 1))) == {Op.HOLDER, Op.FORCE_UNLOCK}
    forced = rows[rows["f"] == Op.FORCE_UNLOCK]
    for unlock in forced:
        (grant,) = rows[(rows["f"] == Op.ACQUIRE) & (rows["token"] == unlock["token"])]
        assert grant["process"] == 2 and grant["key"] == unlock["key"]
        assert 2 * LEASE_NS < unlock["t_inv"] - grant["t_ret"] < 3 * LEASE_NS
    lost = rows[rows["f"] == Op.LOST]
    assert 0 < len(forced) == len(lost) and set(lost["process"].tolist()) == {2}
    # The late write of the owner that hung comes half a lease after it was notified.
    for hold in holds("manual-recovery"):
        notices = hold[hold["f"] == Op.LOST]["t_inv"].tolist()
        late = hold[hold["f"] == Op.WRITE]["t_inv"][-1]
        assert not notices or 0.49 * LEASE_NS < late - notices[0] < 0.7 * LEASE_NS


def test_one_in_forty_holds_is_abandoned_and_its_owner_replaced() -> None:
    rows = history("abandoned", gap_ms="2").rows
    deaths, granted = rows[rows["f"] == Op.CLOSED], rows[rows["f"] == Op.ACQUIRE]
    assert 1 / 80 < len(deaths) / len(granted) < 1 / 20
    assert len(set(granted["process"].tolist())) == CLIENTS + len(deaths)
    for death in deaths:
        later = by(rows, int(death["process"]))
        assert later["t_inv"].max() <= death["t_inv"]


@pytest.mark.parametrize("ordered", ["0", "1"])
def test_two_locks_are_acquired_in_random_or_in_one_order(ordered: str) -> None:
    strings, seen = history("many-locks", ordered=ordered).strings, set()
    for process in CLIENT_NUMBERS:
        held = list[str]()
        rows = by(calls("many-locks", Op.ACQUIRE, Op.RELEASE, ordered=ordered), process)
        for row in rows:
            lock = strings[row["key"]]
            if row["f"] == Op.RELEASE:
                # The second lock is released first.
                assert lock == held.pop()
            else:
                assert lock not in held and len(held) < 2
                seen |= {(held[0], lock)} if held else set()
                held += [lock] if row["status"] == Status.OK else []
    both = {("lock-1", "lock-2"), ("lock-2", "lock-1")}
    assert seen == both if ordered == "0" else seen == {("lock-1", "lock-2")}
