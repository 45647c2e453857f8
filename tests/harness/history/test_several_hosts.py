"""A history of several hosts on the driver's clock: bounds, cuts, and the summary of each clock."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import DELAY, Op, Starved, Status
from holdfast.harness.history import host_clocks, reader
from holdfast.harness.history.host_clocks import HostClock, Sample
from holdfast.harness.history.live import Live
from holdfast.harness.recording.segments import HEADER_BYTES, READY, Recorder, segment_path
from holdfast.harness.runs import directory

AHEAD = {"h1": 1000 * SECOND, "h2": -3 * SECOND}
"""Host -> how far its clock is ahead of the driver's."""
ROUND_NS = {"h1": 10_000, "h2": 4_000}
HOSTS = {"h1": ["c1", "idle"], "h2": ["c2"]}


def sample(host: str, at_ns: int, *, ahead_ns: int = 0) -> dict[str, int]:
    """A round trip that began at a time of the driver's, in the middle of which the host looked."""
    host_ns = at_ns + ROUND_NS[host] // 2 + AHEAD[host] + ahead_ns
    return {"sent_ns": at_ns, "host_ns": host_ns, "received_ns": at_ns + ROUND_NS[host]}


class Writing:
    """A run of two hosts, whose clocks were compared every 100 ms for two seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = folder / "history"
        self.history.mkdir()
        self.clocks = folder / host_clocks.FILE

    def compared(
        self,
        *,
        asked_ns: int = MILLISECOND,
        whole: Sequence[str] = ("h1", "h2"),
        until_ns: Mapping[str, int] | None = None,
        jump_ns: int = 0,
    ) -> None:
        """jump_ns: the step of h2's clock after a second."""
        until_ns = until_ns or {}
        host_clocks.begin(self.clocks, asked_ns=asked_ns, hosts=HOSTS)
        for at_ns in range(10 * SECOND, 12 * SECOND, SECOND // 10):
            for host in HOSTS:
                step_ns = jump_ns if host == "h2" and at_ns >= 11 * SECOND else 0
                if at_ns < until_ns.get(host, 99 * SECOND):
                    row = sample(host, at_ns, ahead_ns=step_ns)
                    directory.append(self.clocks, {"host": host, **row})
        for host in whole:
            directory.append(self.clocks, {"host": host, "whole": True})

    def write(self, node: str, *calls: tuple[int, int]) -> None:
        """The calls of a node's client at times of the driver's; to 0: no response."""
        host = next(host for host, nodes in HOSTS.items() if node in nodes)
        times = [at for call in calls for at in call if at]
        clock = iter([at + AHEAD[host] for at in times])
        meta = {"node": node, "processes": [len(node)]}
        with Recorder(self.history, node, meta, now=clock.__next__) as recorder:
            for _, to_ns in calls:
                row = recorder.invoke(Op.TRY, 1, 0, attempt=1)
                if to_ns:
                    recorder.complete(row, Status.OK, token=5)

    def load(self) -> reader.Recording:
        return reader.load(self.history)


@pytest.fixture
def writing(tmp_path: Path) -> Writing:
    return Writing(tmp_path)


A, B, C = 10 * SECOND, 11 * SECOND + 20_000, 11 * SECOND + 500 * MILLISECOND


def test_calls_are_as_wide_as_they_can_have_been_and_in_one_order(writing: Writing) -> None:
    writing.compared()
    writing.write("c1", (A, A + 50), (B, B + 60))
    writing.write("c2", (A + SECOND, A + SECOND + 5), (C, 0))
    found = writing.load()
    rows = found.history.rows
    assert [found.history.writers[n] for n in rows["writer"]] == ["c1", "c2", "c1", "c2"]
    true = [(A, A + 50), (A + SECOND, A + SECOND + 5), (B, B + 60), (C, 0)]
    for row, (from_ns, to_ns) in zip(rows, true, strict=True):
        host = "h1" if found.history.writers[row["writer"]] == "c1" else "h2"
        half, most = ROUND_NS[host] // 2, found.clocks[host].error_ns
        assert half <= most <= half + 200, "the drift between two samples is added"
        assert half <= from_ns - row["t_inv"] <= most
        assert (half <= row["t_ret"] - to_ns <= most) if to_ns else row["t_ret"] == 0
    assert found.error_ns == found.clocks["h1"].error_ns, "that of the worst clock"
    assert found.history.problems == () and sorted(found.clocks) == ["h1", "h2"]
    for host, ahead_ns in AHEAD.items():
        one = found.clocks[host]
        assert abs(one.offset_ns + ahead_ns) <= 2 and one.samples == 20
        assert one.drift_ppm == 0.0 and not one.contradicted


def test_a_writer_that_recorded_nothing_has_the_error_of_the_samples(writing: Writing) -> None:
    writing.compared()
    for node in ("c1", "c2", "idle"):
        writing.write(node)
    found = writing.load()
    assert len(found.history.rows) == 0 and found.nodes == {2: "c2", 4: "idle"}
    assert found.error_ns >= ROUND_NS["h1"] // 2


def test_a_history_is_cut_at_the_last_time_that_every_host_covers(writing: Writing) -> None:
    cut_ns = 11 * SECOND
    writing.compared(whole=["h1"], until_ns={"h2": cut_ns})
    writing.write("c1", (A, A + 50), (A + 100, C), (C + 1, C + 2))
    writing.write("c2", (A, A + 50))
    found = writing.load().history
    ours = found.rows[[found.writers[n] == "c1" for n in found.rows["writer"]]]
    assert [(int(row["row"]), Status(int(row["status"])).name) for row in ours] == [
        (0, "OK"), (1, "INVOKED"),
    ]  # fmt: skip
    assert (ours[1]["t_ret"], ours[1]["token"]) == (0, -1)
    assert found.problems == (
        "incomplete records from h2: the history is judged up to the last time that all hosts'"
        " records cover",
    )


def test_the_earliest_end_of_all_incomplete_hosts_counts(writing: Writing) -> None:
    writing.compared(whole=[], until_ns={"h1": 11 * SECOND, "h2": 10 * SECOND + SECOND // 2})
    clocks = host_clocks.read(writing.clocks)
    assert clocks is not None
    last_ns = 10 * SECOND + 4 * SECOND // 10
    cut_ns = clocks.cut_ns()
    assert cut_ns is not None and last_ns - 10_000 <= cut_ns <= last_ns + 10_000
    assert clocks.problems({})[0].startswith("incomplete records from h1, h2: ")


def test_a_clock_that_stepped_or_is_worse_than_asked_is_told_with_its_host(
    writing: Writing,
) -> None:
    writing.compared(jump_ns=SECOND, asked_ns=5_000)
    writing.write("c1", (A, A + 50))
    writing.write("c2", (A, A + 50))
    told = writing.load().history.problems
    assert [problem.split(" has an error")[0] for problem in told] == [
        "the clock of host h1",
        "the clock of host h2 moved by more than 1000 ppm against the driver's: it stepped, or the"
        " machine was suspended",
        "the clock of host h2",
    ]
    assert told[0] == (
        "the clock of host h1 has an error of up to 0.00501 ms, and the limit is 0.005 ms"
        " (clock_bound)"
    )


@pytest.mark.parametrize(("asked_ns", "problems"), [(7, 0), (6, 1)])
def test_an_error_up_to_the_limit_is_allowed(
    writing: Writing, asked_ns: int, problems: int
) -> None:
    writing.compared(asked_ns=asked_ns)
    clocks = host_clocks.read(writing.clocks)
    assert clocks is not None
    assert len(clocks.problems({"h1": 7})) == problems


def test_a_node_of_an_unknown_host_is_damage(writing: Writing) -> None:
    writing.compared(until_ns={"h2": 0}, whole=[])
    writing.write("c1", (A, A + 1))
    writing.load()
    writing.write("c2", (A, A + 1))
    with pytest.raises(UsageError, match=r"^clocks.jsonl: no clock data of the host of c2$"):
        writing.load()


def starved(folder: Path, node: str, from_ns: int, to_ns: int) -> None:
    (folder / "logs" / node).mkdir(parents=True)
    row = {"node": node, "kind": DELAY, "from_ns": from_ns, "to_ns": to_ns}
    (folder / "logs" / node / "starved.log").write_text(json.dumps(row) + "\n")


def test_a_span_without_a_processor_is_as_long_as_it_can_have_been(writing: Writing) -> None:
    writing.compared()
    writing.write("c1", (A, A + 1))
    starved(writing.folder, "c2", A + AHEAD["h2"], B + AHEAD["h2"])
    starved(writing.folder, "driver", A, B)
    (writing.folder / "logs" / "n1").mkdir()
    theirs, own = sorted(writing.load().starved, key=lambda one: one.node)
    assert own == Starved(node="driver", kind=DELAY, from_ns=A, to_ns=B)
    half = ROUND_NS["h2"] // 2
    assert half <= A - theirs.from_ns <= half + 200
    assert half <= theirs.to_ns - B <= half + 200


@pytest.mark.parametrize(
    ("count", "ppm", "told"),
    [(1, 50, 0.0), (2, 50, 50.0), (3, -40, -40.0), (40, 120, 120.0), (40, 0, 0.0)],
)
def test_the_drift_of_a_clock_is_its_rate_against_the_drivers(
    count: int, ppm: int, told: float
) -> None:
    samples = []
    for n in range(count):
        at_ns = n * SECOND
        host_ns = at_ns + 7 * SECOND + at_ns * ppm // 1_000_000
        width = 400 if n % 5 else 40  # the narrow ones decide
        samples.append(Sample(sent_ns=at_ns - width, host_ns=host_ns, received_ns=at_ns + width))
    clock = HostClock(samples)
    summary = clock.summary(np.empty(0, np.int64))
    assert summary.drift_ppm == pytest.approx(told, abs=1.5) and not clock.contradicted
    assert summary.samples == count
    if count == 1:
        assert summary.drift_ppm == 0.0


def test_samples_of_one_moment_show_no_drift() -> None:
    one = Sample(sent_ns=0, host_ns=5, received_ns=10)
    assert HostClock([one, one, one]).summary(np.empty(0, np.int64)).drift_ppm == 0.0


@pytest.mark.parametrize(("received_ns", "contradicted"), [(101, True), (102, True), (108, False)])
def test_samples_contradict_each_other_if_no_clock_fits_both(
    received_ns: int, contradicted: bool
) -> None:
    first = Sample(sent_ns=104, host_ns=100, received_ns=110)
    other = Sample(sent_ns=90, host_ns=100, received_ns=received_ns)
    assert HostClock([first, other]).contradicted is contradicted


def one_segment(folder: Path) -> Path:
    folder.mkdir(parents=True)
    with Recorder(folder, "w", {"node": "c1", "processes": [1]}) as recorder:
        recorder.complete(
            recorder.invoke(Op.LOST, 1, 0, attempt=1), Status.OK, res=recorder.intern("expired")
        )
    return segment_path(folder, "w", 0)


def changed(path: Path, at: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (16, (1 << 20) + 1, "room for 1048577 rows, of 1048576 at most; it is damaged"),
        (16, 0, "4192 bytes with room for 0 rows"),
        (12, 95, "segment schema 1 with 95 bytes a row, this version reads 1 and 2 with 96"),
    ],
)
def test_a_segment_of_an_impossible_size_is_not_read(
    tmp_path: Path, at: int, value: int, says: str
) -> None:
    path = one_segment(tmp_path / "history")
    changed(path, at, value.to_bytes(4, "little"))
    with pytest.raises(UsageError) as told:
        reader.load(tmp_path / "history")
    assert says in str(told.value) and str(path) in str(told.value)
    changed(path, at, (1 << 20 if at == 16 else 96).to_bytes(4, "little"))
    assert len(reader.load(tmp_path / "history").history.rows) == 1


@pytest.mark.parametrize(("reason", "damaged"), [(0, False), (1, False), (2, True), (-1, True)])
def test_the_reason_of_a_loss_is_a_text_of_its_writer(
    tmp_path: Path, reason: int, damaged: bool
) -> None:
    path = one_segment(tmp_path / "history")
    changed(path, HEADER_BYTES + 40, reason.to_bytes(8, "little", signed=True))
    if damaged:
        with pytest.raises(UsageError, match=r"row 0 \(byte 4096\) is damaged"):
            reader.load(tmp_path / "history")
    else:
        found = reader.load(tmp_path / "history").history
        assert found.strings[int(found.rows[0]["res"])] == ["", "expired"][reason]


def test_a_history_that_no_memory_of_this_machine_can_hold_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = one_segment(tmp_path / "history").stat().st_size - HEADER_BYTES
    pages: dict[Any, int] = {"SC_PHYS_PAGES": 4 * size, "SC_PAGE_SIZE": 1}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert len(reader.load(tmp_path / "history").history.rows) == 1
    pages["SC_PHYS_PAGES"] -= 4
    with pytest.raises(UsageError, match="more than a quarter of this machine's 0 MiB of memory"):
        reader.load(tmp_path / "history")


def test_the_state_of_a_writer_is_the_largest_of_its_segments(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    live = Live(folder)
    with Recorder(folder, "b", {}):
        pass
    with Recorder(folder, "a", {}) as one:
        one.tell(READY)
        data = bytearray((folder / "b.seg").read_bytes().ljust(HEADER_BYTES + 96, b"\0"))
        data[20:24] = (1).to_bytes(4, "little")  # the number of its first row: a later segment of b
        (folder / "b+1.seg").write_bytes(data)
        changed(folder / "b+1.seg", 24, bytes([READY]))
        assert live.states() == {"a": READY, "b": READY}
        (folder / "b+1.seg").unlink()
        assert live.states() == {"a": READY, "b": 0} and not live.ready("b")
