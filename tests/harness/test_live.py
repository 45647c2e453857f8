"""The driver sees who holds while the history is still being written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import live as live_module
from holdfast.harness.history.live import Live
from holdfast.harness.history.reader import segment_files
from holdfast.harness.history.so_far import CurrentHolds, Hold
from holdfast.harness.recording.segments import READY, Recorder


def test_a_holder_is_seen_from_its_grant_to_the_sending_of_its_release(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        acquire = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=5)
        assert live.holds() == []
        recorder.complete(acquire, Status.OK, token=1)
        assert [(hold.node, hold.attempt) for hold in live.holds()] == [("c1", 5)]
        release = recorder.invoke(Op.RELEASE, 1, 0, attempt=5)
        assert live.holds() == []
        recorder.complete(release, Status.OK)
        assert live.grants == 1


def test_a_refused_acquire_and_a_lost_lock_are_no_holds(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=5), Status.FAIL)
        recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=6), Status.OK)
        recorder.complete(recorder.invoke(Op.LOST, 1, 0, attempt=6), Status.OK)
        assert live.holds() == []
        assert (live.grants, live.ops) == (1, 3)


def test_the_newest_hold_comes_first_and_none_is_counted_twice(tmp_path: Path) -> None:
    live = Live(tmp_path)
    rows = 3 * live_module.LOOK_ROWS + 5
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        for attempt in range(1, rows + 1):
            recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=attempt), Status.OK)
        assert live.holds()[0].attempt == rows
        live.look()
        assert live.grants == rows


def test_a_writer_says_how_far_it_is(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        assert not live.ready("c1")
        recorder.tell(READY)
        assert live.ready("c1")
    assert not live.ready("c2")


def test_a_closed_session_ends_the_holds_of_its_client_and_no_others(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1, 2]}) as recorder:
        for process, attempt in ((1, 5), (1, 6), (2, 7)):
            recorder.complete(recorder.invoke(Op.TRY, process, 0, attempt=attempt), Status.OK)
        recorder.complete(recorder.invoke(Op.CLOSED, 1, 0), Status.OK)
        assert [hold.attempt for hold in live.holds()] == [7]
        assert live.grants == 3


def test_a_hold_that_ended_before_its_grant_is_learned_of_does_not_begin() -> None:
    current = CurrentHolds()
    current.end(5)
    current.grant(Hold(process=1, node="c1", attempt=5, since_ns=3))
    current.grant(Hold(process=1, node="c1", attempt=6, since_ns=4))
    current.grant(Hold(process=2, node="c2", attempt=7, since_ns=9))
    assert [hold.attempt for hold in current.holds()] == [7, 6] and current.grants == 3


def test_a_segment_that_is_cut_off_after_its_head_was_read_is_named(tmp_path: Path) -> None:
    live = Live(tmp_path)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}):
        live.states()
    segment = segment_files(tmp_path)[0]
    os.truncate(segment, 20)
    with pytest.raises(UsageError, match=f"{segment.name}: the segment was cut off to 20"):
        live.states()
