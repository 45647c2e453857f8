"""The recorder keeps what was acknowledged, whatever becomes of the writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import ROW_BYTES, Op, Stamped, Status
from holdfast.harness.history import reader
from holdfast.harness.recording import segments

WRITER = """
import sys
import threading
from pathlib import Path
from holdfast.harness.core.operations import ROW_BYTES, Op, Status
from holdfast.harness.recording.segments import Recorder
recorder = Recorder(Path(sys.argv[1]), "w", {"node": "c1", "processes": [1]})
key = recorder.intern("db")
while True:
    row = recorder.invoke(Op.TRY, 1, key, attempt=7)
    recorder.complete(row, Status.OK, token=row)
    sys.stdout.write(f"{row}\\n")
    sys.stdout.flush()
"""


def recorder(directory: Path, writer: str = "w") -> segments.Recorder:
    return segments.Recorder(directory, writer, {"node": "c1", "processes": [1]})


def calls(
    record: segments.Recorder, count: int, status: Status = Status.OK, *, stamped: bool = False
) -> None:
    """Records calls that return at once; stamped: with kernel timestamps."""
    for _ in range(count):
        row = record.invoke(Op.TRY, 1, 0, attempt=1)
        edges: Stamped | None = (lambda inv, ret: (inv, ret)) if stamped else None
        record.complete(row, status, stamped=edges)


def test_both_edges_and_every_column_come_back(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        key = record.intern("db")
        row = record.invoke(
            Op.ACQUIRE, 1, key, attempt=5, token=9, arg=-3, aux=1 << 40, op=77, mode=1
        )
        t_ret = record.complete(row, Status.OK, token=12, res=34, err=record.intern("why"))
    loaded = reader.load(tmp_path)
    (found,) = loaded.history.rows
    assert loaded.nodes == {1: "c1"}
    assert found["t_inv"] <= found["t_ret"] == t_ret
    wanted = {"attempt": 5, "token": 12, "arg": -3, "res": 34, "aux": 1 << 40, "op": 77, "mode": 1}
    assert {name: int(found[name]) for name in wanted} == wanted
    assert (found["f"], found["status"]) == (Op.ACQUIRE, Status.OK)
    assert loaded.history.strings[found["key"]] == "db"
    assert loaded.history.strings[found["err"]] == "why"


def test_an_op_that_never_returned_stays_invoked(tmp_path: Path) -> None:
    with recorder(tmp_path) as record:
        record.invoke(Op.TRY, 1, record.intern("db"), attempt=1)
    assert [row["status"] for row in reader.load(tmp_path).history.rows] == [Status.INVOKED]


@pytest.mark.parametrize("wait_for", [1, 300, 2000])
def test_nothing_acknowledged_is_lost_at_sigkill(tmp_path: Path, wait_for: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= wait_for:
                break
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
        acknowledged = int(rest[-1]) if rest and rest[-1] else wait_for
    rows = reader.load(tmp_path).history.rows
    whole = rows[rows["status"] == Status.OK]
    assert len(whole) >= acknowledged
    assert [int(token) for token in whole["token"]] == [int(row) for row in whole["row"]]
    assert len(rows) - len(whole) <= 1


def test_a_full_segment_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 8)
    with recorder(tmp_path) as record:
        calls(record, 20, Status.FAIL)
    loaded = reader.load(tmp_path)
    assert [int(row) for row in loaded.history.rows["row"]] == list(range(20))
    assert not loaded.history.problems


def test_a_missing_segment_is_told_as_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 8)
    with recorder(tmp_path) as record:
        calls(record, 20, Status.FAIL)
    segments.segment_path(tmp_path, "w", 1).unlink()
    assert reader.load(tmp_path).history.problems == ("writer w: rows 8 to 16 are missing",)


def test_two_writers_merge_in_order_of_invocation_with_one_table_of_strings(
    tmp_path: Path,
) -> None:
    with recorder(tmp_path, "a") as a, recorder(tmp_path, "b") as b:
        b.intern("only b")
        for writer in (a, b, a):
            row = writer.invoke(Op.TRY, 1, writer.intern("db"), attempt=1)
            writer.complete(row, Status.OK)
    loaded = reader.load(tmp_path).history
    assert [loaded.writers[n] for n in loaded.rows["writer"]] == ["a", "b", "a"]
    assert {loaded.strings[n] for n in loaded.rows["key"]} == {"db"}


def one_row(tmp_path: Path) -> Path:
    with recorder(tmp_path) as record:
        record.complete(record.invoke(Op.TRY, 1, 0, attempt=1), Status.OK)
    return segments.segment_path(tmp_path, "w", 0)


def damaged(path: Path, at: int, value: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (0, 0, "not a Holdfast segment"),
        (8, 9, "schema 9"),
        (segments.META_AT, 0xFF, "description is damaged"),
        (segments.HEADER_BYTES + 91, 77, "row 0 (byte 4096) is damaged"),
        (segments.HEADER_BYTES + 88, 200, "row 0 (byte 4096) is damaged"),
        (segments.HEADER_BYTES + 15, 0x80, "row 0 (byte 4096) is damaged"),
        (segments.HEADER_BYTES + 16, 0, "row 0 (byte 4096) is damaged"),
    ],
)
def test_damage_is_one_message_with_the_place(
    tmp_path: Path, at: int, value: int, says: str
) -> None:
    path = one_row(tmp_path)
    damaged(path, at, value)
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        reader.load(tmp_path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", [0, 100, segments.HEADER_BYTES, segments.HEADER_BYTES + 50])
def test_a_truncated_segment_is_told(tmp_path: Path, keep: int) -> None:
    path = one_row(tmp_path)
    os.truncate(path, keep)
    with pytest.raises(UsageError, match="copy the run directory again"):
        reader.load(tmp_path)


def test_a_folder_without_segments_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \*\.seg"):
        reader.load(tmp_path)


def test_a_writer_killed_while_it_closes_leaves_a_readable_file(tmp_path: Path) -> None:
    path = one_row(tmp_path)
    with path.open("ab") as file:
        file.write(bytes(5 * ROW_BYTES))
    assert len(reader.load(tmp_path).history.rows) == 1


def test_a_row_may_be_completed_long_after_its_segment_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 4)
    with recorder(tmp_path) as record:
        numbers = [record.invoke(Op.TRY, 1, 0, attempt=n + 1) for n in range(11)]
        for number in reversed(numbers):
            record.complete(number, Status.OK, token=100 + number)
    rows = reader.load(tmp_path).history.rows
    assert [(int(row["attempt"]), int(row["token"])) for row in rows] == [
        (n + 1, 100 + n) for n in range(11)
    ]
    names = ["w+1.seg", "w+2.seg", "w.seg"]
    assert sorted(path.name for path in tmp_path.glob("*.seg")) == names
    assert [reader.read_header(tmp_path / name).rows for name in names] == [4, 3, 4]


def test_threads_that_fill_segments_at_once_lose_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 4)
    each = 25
    together = threading.Barrier(4)
    with recorder(tmp_path) as record:

        def work(process: int) -> None:
            together.wait(20)
            for n in range(each):
                row = record.invoke(Op.TRY, process, 0, attempt=process << 32 | n + 1)
                record.complete(row, Status.OK, token=n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    found = reader.load(tmp_path).history
    assert found.problems == () and sorted(found.rows["row"]) == list(range(4 * each))
    assert sorted((int(row["process"]), int(row["token"])) for row in found.rows) == [
        (process, n) for process in range(1, 5) for n in range(each)
    ]


def test_a_disk_without_room_for_the_rows_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(EnvironmentFailed, match=r"w.seg: recording failed: .*No space left"):
        recorder(tmp_path)
    assert list(tmp_path.glob("*.seg")) == [], "no reader takes it for a segment"


def test_a_text_is_written_once_and_cut_at_its_longest(tmp_path: Path) -> None:
    most = segments.LONGEST_STRING
    with recorder(tmp_path) as record:
        numbers = [record.intern(text) for text in ("", "a", "é" * (most + 5), "a", "\n")]
        record.invoke(Op.TRY, 1, numbers[2], attempt=1)
        assert numbers == [0, 1, 2, 1, 3] and record.strings()[2] == "é" * most
    assert len((tmp_path / "w.strings").read_bytes().splitlines()) == 3
    found = reader.load(tmp_path).history
    assert found.strings == ["", "a", "é" * most, "\n"]


def test_the_state_of_a_writer_is_in_all_its_segments_also_in_those_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)

    def states() -> list[int]:
        return [reader.read_header(path).state for path in sorted(tmp_path.glob("*.seg"))]

    with recorder(tmp_path) as record:
        for n, state in enumerate((segments.READY, segments.IDLE, segments.DONE)):
            record.tell(state)
            assert states() == [state] * (n + 1)
            for _ in range(2 if n else 3):
                record.invoke(Op.TRY, 1, 0, attempt=1)
            assert states() == [state] * (n + 2)


def test_a_call_may_return_in_the_nanosecond_in_which_it_began_and_not_before(
    tmp_path: Path,
) -> None:
    for name, times, damaged in (("a", (5, 5), False), ("b", (5, 4), True)):
        clock = iter(times)
        folder = tmp_path / name
        folder.mkdir()
        meta = {"node": "c1", "processes": [1]}
        with segments.Recorder(folder, "w", meta, now=clock.__next__) as record:
            record.complete(record.invoke(Op.TRY, 1, 0, attempt=1), Status.OK)
        if damaged:
            with pytest.raises(UsageError, match=r"row 0 \(byte 4096\) is damaged"):
                reader.load(folder)
        else:
            (row,) = reader.load(folder).history.rows
            assert row["t_inv"] == row["t_ret"] == 5


def closed(directory: Path) -> list[str]:
    """The segments that their writers have closed."""
    headers = map(reader.read_header, sorted(directory.glob("*.seg")))
    return [header.path.name for header in headers if header.rows is not None]


def test_a_full_segment_is_closed_once_all_its_calls_have_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)
    with recorder(tmp_path) as record:
        waits = record.invoke(Op.ACQUIRE, 1, 0, attempt=1)
        calls(record, 4)
        assert closed(tmp_path) == ["w+1.seg"]
        record.complete(waits, Status.OK, token=5)
        record.invoke(Op.TRY, 1, 0, attempt=2)
        assert closed(tmp_path) == ["w+1.seg"], "they are looked at when the next one begins"
        record.invoke(Op.TRY, 1, 0, attempt=2)
        assert closed(tmp_path) == ["w+1.seg", "w.seg"]
        record.tell(segments.DONE)
    loaded = reader.load(tmp_path)
    assert loaded.states == {"w": segments.DONE}
    assert loaded.history.rows["token"].tolist() == [5, -1, -1, -1, -1, -1, -1]


def test_a_full_segment_stays_open_while_its_kernel_timestamps_may_be_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)
    times = iter(range(10, 1000))
    meta = {"node": "c1", "processes": [1]}
    with segments.Recorder(tmp_path, "w", meta, now=times.__next__) as record:
        calls(record, 3, stamped=True)  # returns at 11, 13 and 15
        record.stamps_good(13)
        calls(record, 2, stamped=True)
        assert closed(tmp_path) == [], "a return at 13 is dropped by drop_stamps(13)"
        record.drop_stamps(13)
        record.stamps_good(17)
        calls(record, 2, stamped=True)
        assert closed(tmp_path) == ["w+1.seg", "w.seg"]
    loaded = reader.load(tmp_path)
    assert loaded.history.rows["flags"].tolist() == [3, 0, 0, 0, 0, 0, 0]


def test_until_when_timestamps_count_outlives_the_first_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)
    with recorder(tmp_path) as record:
        for _ in range(5):
            calls(record, 1, stamped=True)
            record.stamps_good(segments.HOST_CLOCK())
    assert reader.load(tmp_path).history.rows["flags"].tolist() == [3] * 5


def test_a_row_of_a_closed_segment_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)
    with recorder(tmp_path) as record:
        calls(record, 3)
        before = (tmp_path / "w.seg").read_bytes()
        with pytest.raises(AssertionError, match="a second time"):
            record.complete(0, Status.FAIL)
        assert (tmp_path / "w.seg").read_bytes() == before
