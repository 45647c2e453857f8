"""A run directory read by the verifier: what writers left, and nothing that they did not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.recording.segments import ROWS_AT, STAMPS_AT, write_closed
from holdfast.harness.verification import recorded_rows
from holdfast.harness.verification.recorded_rows import Damaged, Rows, lines, of_directory
from holdfast.harness.verification.verify import run_of
from tests.checkers.certified import writers
from tests.checkers.shorthand import case

TOLD = "0a? 0a+7 1a? 1a+8 0L 0w? 0S+ 0w+"


def written(run: Path, text: str = TOLD) -> list[recorded_rows.Writer]:
    """The writers of a history, of whom each left its files in a run directory."""
    (run / "history").mkdir(parents=True)
    found = writers(case(text))
    for one in found:
        meta = {"writer": one.name, "node": one.node, "processes": list(one.processes)}
        write_closed(run / "history", meta, one.strings, bytes(one.rows))
    return found


def put(run: Path, name: str, at: int, data: bytes) -> None:
    """Other bytes at a place of a segment."""
    path = run / "history" / f"{name}.seg"
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def test_a_directory_holds_what_its_writers_wrote(tmp_path: Path) -> None:
    put_in = written(tmp_path)
    found = {one.name: one for one in of_directory(tmp_path)}
    assert len(found) == len(put_in) == 3
    for one in put_in:
        assert found[one.name] == one._replace(rows=one.rows)


def test_until_when_stamps_count_stands_in_the_header_beside_how_many_rows(tmp_path: Path) -> None:
    written(tmp_path)
    stamps = 0x0807060504030201
    put(tmp_path, "c0", STAMPS_AT, stamps.to_bytes(8, "little") + b"\x09")
    found = {one.name: one.stamps_ns for one in of_directory(tmp_path)}
    assert found == {"c0": stamps, "c1": 0, "resource": 0}


@pytest.mark.parametrize("at", range(16))
def test_a_segment_of_another_kind_is_refused(tmp_path: Path, at: int) -> None:
    written(tmp_path)
    head = (tmp_path / "history" / "c0.seg").read_bytes()
    put(tmp_path, "c0", at, bytes([head[at] ^ 1]))
    with pytest.raises(Damaged, match="not a segment"):
        of_directory(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 16, 4095])
def test_a_segment_without_a_whole_header_is_refused(tmp_path: Path, size: int) -> None:
    written(tmp_path)
    path = tmp_path / "history" / "c0.seg"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(Damaged, match="not a segment"):
        of_directory(tmp_path)


def test_rows_that_a_header_counts_have_to_be_there(tmp_path: Path) -> None:
    rows = len({one.name: one for one in written(tmp_path)}["c0"].rows) // 96
    for counted, refused in ((0, False), (rows + 1, False), (rows, False), (rows + 2, True)):
        put(tmp_path, "c0", ROWS_AT, counted.to_bytes(8, "little"))
        if refused:
            with pytest.raises(Damaged, match="rows are missing"):
                of_directory(tmp_path)
        else:
            assert len(of_directory(tmp_path)) == 3


def test_a_segment_that_is_none_of_history_is_left_alone(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "history" / "notes.txt").write_text("no segment")
    assert len(of_directory(tmp_path)) == 3


def first_row(run: Path, name: str, row: int) -> None:
    put(run, name, 20, row.to_bytes(4, "little"))


def test_rows_before_a_segment_are_empty_and_segments_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    rows = next(one for one in of_directory(tmp_path) if one.name == "c0").rows
    first_row(tmp_path, "c0", 3)
    shifted = next(one for one in of_directory(tmp_path) if one.name == "c0").rows
    assert bytes(shifted) == bytes(3 * 96) + bytes(rows)
    # The second part of the same writer begins where the first ends, or after it.
    second = tmp_path / "history" / "c0+1.seg"
    second.write_bytes((tmp_path / "history" / "c0.seg").read_bytes())
    first_row(tmp_path, "c0", 0)
    count = len(rows) // 96
    for begins, fits in ((count, True), (count + 1, True), (count - 1, False)):
        first_row(tmp_path, "c0+1", begins)
        if fits:
            whole = next(one for one in of_directory(tmp_path) if one.name == "c0").rows
            assert len(whole) == (begins + count) * 96
        else:
            with pytest.raises(Damaged, match="overlap"):
                of_directory(tmp_path)
    monkeypatch.setattr(recorded_rows, "MOST_BYTES", 96 * 100)
    for begins, near in ((400, True), (401, False), (480, False)):
        first_row(tmp_path, "c0+1", begins)
        if near:
            assert len(of_directory(tmp_path)) == 3
        else:
            with pytest.raises(Damaged, match="overlap"):
                of_directory(tmp_path)


def test_a_reason_is_a_text_of_its_writer_and_a_number_of_any_other_row_is_none() -> None:
    given = case("0a? 0a+7 0L")
    given.history.rows["res"][1] = 2
    one = writers(given)[0]
    other = one._replace(name="a", strings=["", "x", "y", "db"], rows=b"")
    rows = Rows([other, one._replace(strings=["", "db", "lost"])])
    assert [rows.strings[key] for key in rows.key] == ["db", "db"]
    assert rows.strings == ["", "x", "y", "db", "lost"]
    assert [*rows.res] == [10_000_000_000, rows.strings.index("lost")]


def fault(n: int, do: str, from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    row: dict[str, Any] = {"id": f"f{n}", "do": do, "nodes": [f"c{n}"]}
    injected = {**row, "event": "injected", "t_ns": from_ns, "before_ns": from_ns - 5}
    return [injected, {**row, "event": "healed", "t_ns": to_ns}]


def test_every_fault_is_a_window_and_a_kill_begins_before_its_signal() -> None:
    rows = Rows(writers(case(TOLD)))
    plan = {"lease_ns": 1, "resource": ""}
    manifest = {"promises": {"bound": "lease"}, "plan": plan}
    skipped: dict[str, Any] = {
        "id": "f9",
        "event": "skipped",
        "do": "reset",
        "t_ns": 70,
        "nodes": ["c9"],
    }
    told: list[dict[str, Any]] = [
        *fault(1, "pause", 20, 30),
        *fault(0, "kill", 50, 60),
        skipped,
        *fault(2, "kill", 90, 91)[:1],
    ]
    marks: list[dict[str, Any]] = [
        {"mark": "stop", "t_ns": 40},
        {"mark": "end", "t_ns": 10**15},
        {"mark": "begun"},
    ]
    run = run_of(rows, manifest, told, marks)
    assert [(w.do, w.from_ns, w.to_ns, w.nodes) for w in run.windows] == [
        ("pause", 20, 30, ("c1",)),
        ("kill", 45, 60, ("c0",)),
        ("reset", 70, 70, ("c9",)),
        ("kill", 85, 10**15, ("c2",)),
    ]
    assert (run.kills("c0"), run.kills("c1"), run.kills("c2")) == ([45], [], [85])
    assert (run.stop_ns, run_of(rows, manifest, (), ()).stop_ns) == (40, 7 * 10**9)


def test_every_whole_line_of_a_file_is_read_and_what_was_cut_off_is_not(tmp_path: Path) -> None:
    rows = [{"id": "a"}, {"id": "b"}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    for cut in ("", '{"id": "c"'):
        (tmp_path / "faults.jsonl").write_text(text + cut)
        assert lines(tmp_path, "faults.jsonl") == rows
    assert lines(tmp_path, "times.jsonl") == []


def test_a_run_without_the_time_of_its_start_begins_with_its_first_call() -> None:
    rows = Rows(writers(case("1a?@5 0a?@3 0a+7@9 1a+8@20")))
    assert rows.first_ns == 3_000_000_000
