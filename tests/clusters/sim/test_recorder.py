"""The recorder of a simulated writer keeps the rows that one on a host would write to files."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from holdfast.clusters.backends.sim.recorder import LiveRows, SimRecorder
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.live import Live
from holdfast.harness.recording import segments
from holdfast.harness.recording.segments import HEADER_BYTES, Recorder, segment_path

META = {"node": "c1", "processes": [1]}


class Twins:
    """One simulated writer and one that writes files, on one clock, told the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live, self.of_files = LiveRows(), Live(folder)
        self._t = itertools.count(1)
        self.now_ns = 0
        self.simulated = SimRecorder("w", META, lambda: self.now_ns, self.live)
        self.on_host = Recorder(folder, "w", META, lambda: self.now_ns)

    def invoke(self, op: Op, attempt: int, text: str) -> int:
        """A call by client 1; its row."""
        self.now_ns = next(self._t)
        edges = {"attempt": attempt, "token": attempt + 1, "arg": 5, "aux": 6, "op": 7, "late": 8}
        rows = [
            record.invoke(op, 1, record.intern(text), mode=1, **edges)
            for record in (self.simulated, self.on_host)
        ]
        assert rows[0] == rows[1]
        self.compare()
        return rows[0]

    def complete(self, row: int, status: Status, text: str) -> None:
        """Its return."""
        self.now_ns = next(self._t)
        for record in (self.simulated, self.on_host):
            err = record.intern(text)
            stamp = record.complete(row, status, token=3, res=-4, err=err, spent=9)
            assert stamp == self.now_ns
        self.compare()

    def compare(self) -> None:
        """What is known while they record, by rows in memory and by files."""
        self.of_files.look()
        assert (self.live.grants, self.live.ops) == (self.of_files.grants, self.of_files.ops)
        assert self.live.holds() == self.of_files.holds()

    def written(self) -> tuple[bytes, list[str]]:
        """Rows and strings as read from the files."""
        self.on_host.close()
        parts = sorted(self.folder.glob("*.seg"), key=lambda path: (len(path.name), path.name))
        assert parts[0] == segment_path(self.folder, "w", 0)
        rows = b"".join(path.read_bytes()[HEADER_BYTES:] for path in parts)
        return rows, (self.folder / "w.strings").read_text().splitlines()


@pytest.mark.parametrize("seed", range(6))
def test_rows_strings_and_holds_are_those_of_a_recorder_of_files(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 40)
    rng, twins = random.Random(seed), Twins(tmp_path)
    open_rows: list[tuple[int, Op, int]] = []
    granted: list[int] = []
    for attempt in range(1, 130):
        if granted and rng.random() < 0.4:
            ending = rng.choice((Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK, Op.CLOSED))
            open_rows.append((twins.invoke(ending, granted.pop(), "lock"), ending, 0))
            granted = [] if ending is Op.CLOSED else granted
        else:
            asked = rng.choice((Op.ACQUIRE, Op.TRY, Op.RENEW))
            open_rows.append((twins.invoke(asked, attempt, f"lock {attempt % 5}"), asked, attempt))
        while open_rows and rng.random() < 0.6:
            row, op, asked_for = open_rows.pop(rng.randrange(len(open_rows)))
            status = rng.choice((Status.OK, Status.OK, Status.FAIL, Status.INFO))
            twins.complete(row, status, rng.choice(("", "refused", "é" * 5000)))
            if status is Status.OK and op in (Op.ACQUIRE, Op.TRY):
                granted.append(asked_for)
    rows, lines = twins.written()
    assert len(rows) > 3 * 40 * 64, "several segments"
    assert twins.simulated.packed() == rows
    assert twins.simulated.strings[0] == "" and len(twins.simulated.strings) == len(lines) + 1
    assert max(len(text) for text in twins.simulated.strings) <= 4096


def test_nothing_is_recorded_of_a_process_that_is_gone() -> None:
    live = LiveRows()
    record = SimRecorder("w", META, lambda: 7, live)
    row = record.invoke(Op.ACQUIRE, 1, 0, attempt=5)
    before = record.packed()
    record.dead = True
    assert record.complete(row, Status.OK) == 7
    assert record.invoke(Op.RELEASE, 1, 0, attempt=5) == -1
    assert record.packed() == before
    assert (live.ops, live.holds()) == (1, [])
