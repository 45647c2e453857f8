"""Segments packed while their run goes on: no reader notices, and nothing is lost at a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from holdfast.engine import driver_process, judging
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.history import growing, packed_columns, reader
from holdfast.harness.history.growing import Growing
from holdfast.harness.history.live import Live
from holdfast.harness.history.parts import Parts
from holdfast.harness.history.segment_packer import Packer
from holdfast.harness.plans.plan import Plan
from holdfast.harness.recording import segments
from holdfast.harness.recording.segments import Recorder
from holdfast.harness.runs import files
from holdfast.harness.verification.recorded_rows import of_directory
from holdfast.planning import prepare, run_folder
from holdfast.planning.resolve import resolve
from holdfast.workloads.resource.server import Server, Store, replay
from tests import needs

ROWS = 60
"""of a segment in these tests; packed they take less than half"""


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", ROWS)


def calls(recorder: Recorder, count: int) -> None:
    for n in range(count):
        row = recorder.invoke(Op.ACQUIRE, 1, recorder.intern("db"), attempt=1 << 32 | n + 1)
        recorder.complete(row, Status.OK, token=n, res=SECOND)
        row = recorder.invoke(Op.RELEASE, 1, recorder.intern("db"), attempt=1 << 32 | n + 1)
        recorder.complete(row, Status.OK)


def writer(folder: Path, name: str = "c1") -> Recorder:
    folder.mkdir(parents=True, exist_ok=True)
    return Recorder(folder, name, {"node": name, "processes": [1]})


def packed_now(folder: Path) -> list[str]:
    """The names of the segments that are packed."""
    headers = map(reader.read_header, reader.segment_files(folder))
    return [header.path.name for header in headers if header.packed]


def rows_in(folder: Path) -> list[tuple[int, ...]]:
    return reader.load(folder).history.rows.tolist()


def test_full_segments_are_packed_once_their_writer_has_closed_them(tmp_path: Path) -> None:
    with writer(tmp_path) as recorder:
        calls(recorder, 2 * ROWS)
        waits = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=1 << 32 | 5000)
        Packer(tmp_path).look()
        assert packed_now(tmp_path) == ["c1+1.seg", "c1+2.seg", "c1+3.seg", "c1.seg"]
        mapped = Path("/proc/self/maps").read_text().splitlines()
        ours = [line for line in mapped if str(tmp_path) in line]
        assert ours and not any("(deleted)" in line for line in ours), "the disk has them no more"
        calls(recorder, ROWS)
        before, raw = rows_in(tmp_path), (tmp_path / "c1+4.seg").stat().st_size
        Packer(tmp_path).look()
        assert "c1+4.seg" not in packed_now(tmp_path), "one of its calls has not returned"
        recorder.complete(waits, Status.OK)
    assert len(rows_in(tmp_path)) == len(before) == 6 * ROWS + 1
    Packer(tmp_path).look()
    assert packed_now(tmp_path) == [f"c1{part}.seg" for part in ("+1", "+2", "+3", "+4", "+5", "")]
    assert (tmp_path / "c1+4.seg").stat().st_size < segments.HEADER_BYTES + (raw - 4096) // 2
    assert (tmp_path / "c1+6.seg").stat().st_size == segments.HEADER_BYTES + 96


def test_a_packed_history_is_the_same_for_every_reader(tmp_path: Path) -> None:
    history = tmp_path / "history"
    with writer(history) as recorder, writer(history, "c2") as other:
        calls(recorder, 2 * ROWS + 3)
        calls(other, ROWS)

    def everything() -> list[object]:
        parts = Parts(directory=history, most_rows=50, faults=[], margin_ns=SECOND, expires=True)
        verified = [one._replace(rows=bytes(one.rows)) for one in of_directory(tmp_path)]
        read = [part.rows.tolist() for part in parts]
        return [rows_in(history), reader.load(history).states, parts.total, read, verified]

    before = everything()
    Packer(history).look()
    assert len(packed_now(history)) == 6
    assert everything() == before


def test_readers_of_a_growing_history_do_not_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(tmp_path) as recorder:
        seen, live = Growing(tmp_path), Live(tmp_path)
        waits = recorder.invoke(Op.ACQUIRE, 2, 0, attempt=2 << 32 | 1)
        calls(recorder, ROWS // 4)
        seen.until(now_ns())
        live.look()
        assert (seen.seen, live.ops) == (ROWS // 2 + 1, ROWS // 2 + 1)
        # Half of the first segment has been read, one of its rows before it returned; the second
        # one is not known yet.
        recorder.complete(waits, Status.OK, token=77)
        calls(recorder, ROWS)
        Packer(tmp_path).look()
        assert packed_now(tmp_path) == ["c1+1.seg", "c1.seg"]
        with monkeypatch.context() as listed:
            # A file system may miss a name while its file is replaced.
            listed.setattr(growing, "segment_files", lambda folder: [tmp_path / "c1+2.seg"])
            assert seen.until(now_ns()) is not None
            assert seen.seen == 3 * ROWS // 2 + 1, "the rest of the first one, and the third"
        found = seen.until(now_ns())
        live.look()
        assert found is not None and found.history.rows.tolist() == rows_in(tmp_path)
        assert live.ops == seen.seen == 5 * ROWS // 2 + 1
        assert live.grants == 5 * ROWS // 4 + 1 and len(live.holds()) == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_packer_that_is_killed_leaves_one_of_the_two_files(
    tmp_path: Path, replaced: bool
) -> None:
    with writer(tmp_path) as recorder:
        calls(recorder, ROWS)
    before = rows_in(tmp_path)
    program = f"""
import os, signal, sys
from pathlib import Path
from holdfast.harness.history.segment_packer import Packer
replace = os.replace
def dies(*names, **folders):
    if {replaced}:
        replace(*names, **folders)
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = dies
Packer(Path(sys.argv[1])).look()
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir() if path.suffix == ".part"]
    assert (len(left), packed_now(tmp_path)) == ((0, ["c1+1.seg"]) if replaced else (1, []))
    assert rows_in(tmp_path) == before
    Packer(tmp_path).look()
    assert len(packed_now(tmp_path)) == 2 and rows_in(tmp_path) == before


PACK = packed_columns.pack


def no_room(root: Path, name: str, data: bytes) -> None:
    raise OSError(28, "No space left on device")


def wrong(rows: object) -> bytes:
    return PACK(np.zeros(ROWS, reader.ROW_DTYPE))


@pytest.mark.parametrize(
    ("where", "name", "instead"), [(files, "write", no_room), (packed_columns, "pack", wrong)]
)
def test_a_segment_that_cannot_be_packed_stays_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: object,
    name: str,
    instead: Callable[..., object],
) -> None:
    with writer(tmp_path) as recorder:
        calls(recorder, ROWS)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(where, name, instead)
    Packer(tmp_path).look()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_damaged_segment_is_left_for_the_judge_to_report(tmp_path: Path) -> None:
    with writer(tmp_path) as recorder:
        calls(recorder, ROWS)
    os.truncate(tmp_path / "c1.seg", segments.HEADER_BYTES + 96)
    (tmp_path / "c2.seg").write_bytes(b"HOLDFAST")
    Packer(tmp_path).look()
    assert (tmp_path / "c1.seg").stat().st_size == segments.HEADER_BYTES + 96
    assert (tmp_path / "c2.seg").read_bytes() == b"HOLDFAST"
    with pytest.raises(UsageError, match=r"c2\.seg: not a Holdfast segment"):
        reader.load(tmp_path)


def test_a_restarted_resource_reads_its_packed_rows(tmp_path: Path) -> None:
    store = Store("fenced")
    with Recorder(tmp_path, "resource", {"node": "resource", "processes": []}) as recorder:
        server = Server(store, recorder)
        for n in range(3 * ROWS + 5):
            request = {"do": "write", "key": f"k{n % 2}", "attempt": 1 << 32 | n, "base": -1}
            server.decide({**request, "token": n - n % 7, "op": 1 << 32 | n})
    Packer(tmp_path).look()
    assert len(packed_now(tmp_path)) == 3
    again = Store("fenced")
    replay(tmp_path, "resource", again)
    assert again.registers == store.registers and again.done == store.done


def with_short_segments(code: Path) -> None:
    """Makes the workers of a run, which execute this archive, begin a segment every 20 rows: the
    source is changed, and its bytecode left out."""
    whole = code.with_suffix(".whole")
    code.rename(whole)
    with ZipFile(whole) as old, ZipFile(code, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("recording/segments.pyc"):
                continue
            if name.endswith("recording/segments.py"):
                assert data.count(b"SEGMENT_ROWS = 1 << 15\n") == 1
                data = data.replace(b"SEGMENT_ROWS = 1 << 15\n", b"SEGMENT_ROWS = 20\n")
            new.writestr(name, data)


def unpack_all(folder: Path) -> None:
    """Writes every packed segment as its writer had it."""
    for path in reader.segment_files(folder):
        header = reader.read_header(path)
        if header.packed:
            head = bytearray(path.read_bytes()[: segments.HEADER_BYTES])
            head[segments.SCHEMA_AT] = segments.SCHEMA
            rows = reader.rows_at(path, 0, header.capacity)
            path.write_bytes(bytes(head) + rows.tobytes())


def test_a_run_that_is_packed_while_it_goes_on_is_judged_as_before(tmp_path: Path) -> None:
    """Real clients, servers and a resource that is killed and reads its packed rows."""
    needs.namespaces()
    kill = ("kill", {"target": "resource", "every": "2s", "for": "500ms"})
    plan = prepare.complete(
        Plan(system="reference", time_ns=5 * SECOND, clients=3, nemeses=(kill,), seed=7)
    )
    run = run_folder.create(resolve(plan), tmp_path, "again")
    with_short_segments(run.code)
    packed_at: list[int] = []

    def show(row: Mapping[str, Json]) -> None:
        if row["stage"] == "run":
            packed_at.append(len(packed_now(run.history)))

    driver_process.execute(run, show)
    assert packed_at[-1] > 3, "packed while it went on"
    assert {name[0] for name in packed_now(run.history)} == {"c", "r"}
    verdicts, rows = judging.judge_run(run), rows_in(run.history)
    assert (run.history / "resource.1.seg").exists(), "it was restarted"
    held = {one.property for one in verdicts.verdicts if one.verdict is Verdict.HOLDS}
    assert {"mutual-exclusion", "token-order"} <= held and verdicts.exit_code != 1
    assert verdicts.verified is not None and verdicts.verified.accepted
    unpack_all(run.history)
    assert packed_now(run.history) == [] and rows_in(run.history) == rows
    assert judging.judge_run(run) == verdicts
