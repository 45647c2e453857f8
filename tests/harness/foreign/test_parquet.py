"""Parquet tables: a run exported and read back, and files that do not fit or are none."""

from __future__ import annotations

import csv
import io
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.foreign import exported_table, write
from holdfast.harness.foreign.exported_table import WANTED, csv_events, parquet_events
from holdfast.harness.foreign.operations import Malformed
from holdfast.harness.foreign.parquet import write_parquet

STATUSES = (Status.OK, Status.FAIL, Status.NOT_OWNER, Status.INFO, Status.INVOKED)


def history(rng: random.Random, count: int) -> History:
    """Random rows of all operations, on two locks, by two writers."""
    rows = np.zeros(count, MERGED_DTYPE)
    rows["f"] = [rng.choice(list(Op)) for _ in rows]
    rows["status"] = [rng.choice(STATUSES) for _ in rows]
    rows["mode"] = [rng.choice(list(Mode)) for _ in rows]
    rows["key"], rows["err"] = ([rng.randrange(1, 3) for _ in rows], [rng.choice((0, 3))] * count)
    rows["process"], rows["attempt"] = [rng.randrange(4) for _ in rows], range(1, count + 1)
    rows["token"] = [rng.choice((NO_TOKEN, 1 << 62)) for _ in rows]
    rows["writer"] = [rng.randrange(2) for _ in rows]
    rows["t_inv"] = np.sort([rng.randrange(1000) for _ in rows])
    rows["t_ret"] = rows["t_inv"] + [rng.randrange(50) for _ in rows]
    return History(rows=rows, strings=("", "db", "é\n,", "no majority"), writers=("c1", "c2"))


def exported(made: History, folder: Path) -> Path:
    path = folder / "rows.parquet"
    write_parquet(made, path)
    return path


def refused(path: Path) -> tuple[int, str]:
    with path.open("rb") as file, pytest.raises(Malformed) as told:
        list(parquet_events(file))
    return told.value.line, told.value.reason


def rewritten(path: Path, **columns: list[object] | None) -> Path:
    """The same file with other columns; None leaves one out."""
    found = parquet.read_table(path)
    table = {name: columns.get(name, found.column(name)) for name in found.column_names}
    parquet.write_table(
        pyarrow.table({name: column for name, column in table.items() if column is not None}), path
    )
    return path


def test_every_value_of_a_row_is_in_the_file_as_in_the_csv(tmp_path: Path) -> None:
    made = history(random.Random(1), 60)
    found = parquet.read_table(exported(made, tmp_path))
    head, *rows = csv.reader(io.StringIO("".join(write.table(made)), newline=""))
    assert found.column_names == head
    assert [[str(value) for value in row.values()] for row in found.to_pylist()] == rows
    for name, field in zip(found.column_names, found.schema, strict=True):
        text = name in ("f", "status", "mode", "key", "err", "writer", "attempt_name")
        assert str(field.type).startswith("dictionary<values=string" if text else "int64")


@pytest.mark.parametrize("seed", range(6))
def test_a_table_is_the_same_history_in_both_formats(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_table, "BATCH", 7)
    made = history(random.Random(seed), 40)
    with exported(made, tmp_path).open("rb") as file:
        found = list(parquet_events(file))
    # A row of the CSV is the line after the one of the names and after the line break in a key.
    text = "".join(write.table(made)).replace("é\n,", "x")
    plain = list(csv_events(io.BytesIO(text.encode())))
    assert [event.line for event in found] == [event.line - 1 for event in plain]
    assert [(e.process, e.kind, e.f, e.time, e.token, e.attempt, e.shared, e.not_owner)
            for e in found] == [
        (e.process, e.kind, e.f, e.time, e.token, e.attempt, e.shared, e.not_owner) for e in plain
    ]  # fmt: skip
    assert {event.key for event in found} == {"db", "é\n,"}


def test_columns_without_which_a_history_can_be_read_may_be_left_out(tmp_path: Path) -> None:
    path = exported(history(random.Random(2), 30), tmp_path)
    optional = [name for name in parquet.read_schema(path).names if name not in WANTED]
    rewritten(path, **dict.fromkeys(optional))
    with path.open("rb") as file:
        events = list(parquet_events(file))
    assert events and not any(event.shared for event in events)


@pytest.mark.parametrize("name", WANTED)
def test_a_column_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    path = rewritten(exported(history(random.Random(3), 5), tmp_path), **{name: None})
    assert refused(path) == (
        1, f"missing column {name}: expected a table of holdfast export"
    )  # fmt: skip


@pytest.mark.parametrize("name", ["f", "status", "key", "mode", "err"])
def test_a_text_may_have_its_longest_length_and_no_more(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_table, "LONGEST", 30)
    monkeypatch.setattr(exported_table, "BATCH", 2)
    made = history(random.Random(4), 6)
    made.rows["f"], made.rows["status"] = Op.ACQUIRE, Status.OK
    path = exported(made, tmp_path)
    for length in (30, 31):
        words: list[object] = [*parquet.read_table(path).column(name).to_pylist()]
        words[-1] = "x" * length
        line, said = 0, ""
        try:
            with rewritten(path, **{name: words}).open("rb") as file:
                list(parquet_events(file))
        except Malformed as told:
            line, said = told.line, told.reason
        if length == 31:
            # The dictionary of the first batch may be that of the whole file.
            assert line in (1, 3, 5) and said == f"{name} has a text of more than 30 characters"
        elif name in ("f", "status"):
            assert (line, said[: len(name) + 8]) == (6, f"invalid {name}")
        else:
            assert said == ""


@pytest.mark.parametrize(("memory", "fits"), [(40, True), (39, False)])
def test_rows_beyond_the_memory_are_refused_while_they_are_read(
    tmp_path: Path, memory: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file says of itself may be wrong, so rows are counted as they come."""
    made = history(random.Random(5), 40)
    path = exported(made, tmp_path)
    monkeypatch.setattr(exported_table, "ROW_BYTES", 1)
    monkeypatch.setattr(exported_table, "_fits", lambda told: None)
    monkeypatch.setattr(
        os, "sysconf", {"SC_PHYS_PAGES": memory, "SC_PAGE_SIZE": 1}.__getitem__
    )  # fmt: skip
    if not fits:
        assert refused(path) == (40, "more rows than fit into this machine's memory")
        return
    with path.open("rb") as file:
        assert len(list(parquet_events(file))) > 0


def test_a_file_that_says_it_is_too_large_is_not_read_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = exported(history(random.Random(5), 40), tmp_path)
    monkeypatch.setattr(exported_table, "ROW_BYTES", 1 << 60)
    line, said = refused(path)
    assert line == 1 and said.startswith("40 rows, 0 MiB uncompressed: more than this machine's")


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_truncated_file_is_told(tmp_path: Path, cut: int) -> None:
    path = exported(history(random.Random(6), 20), tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    line, said = refused(path)
    assert line == 1 and said.startswith("unreadable Parquet: ") and len(said) < 221


def test_without_the_package_both_directions_say_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    how = "needs the package pyarrow: pip install 'holdfast[parquet]', or"
    with pytest.raises(UsageError, match=r"^--format parquet ") as told:
        exported(history(random.Random(7), 1), tmp_path)
    assert how in str(told.value) and str(told.value).endswith("take --format csv")
    with pytest.raises(UsageError, match=r"^reading Parquet ") as told:
        parquet_events(io.BytesIO())
    assert how in str(told.value) and str(told.value).endswith("export csv")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "rows.parquet"
    with pytest.raises(UsageError) as told:
        write_parquet(history(random.Random(8), 1), path)
    assert str(told.value).startswith(f"{path}: cannot be written: ")


def test_numbers_of_a_part_of_a_column_are_those_of_the_library() -> None:
    for kind in (pyarrow.int8(), pyarrow.int32(), pyarrow.int64()):
        whole = pyarrow.array(range(-20, 20), kind)
        for part in (whole, whole[3:11], whole[39:], whole[5:5], whole[0:0], whole[4:30][2:9]):
            assert exported_table._stored(part).tolist() == part.to_pylist()


def test_a_table_is_read_without_pandas(tmp_path: Path) -> None:
    """It would take longer to import than a file of a thousand operations takes in all."""
    path = exported(history(random.Random(1), 20), tmp_path)
    code = (
        "import sys; from holdfast.harness.foreign.exported_table import parquet_columns;"
        " parquet_columns(open(sys.argv[1], 'rb'));"
        " print([*{'pyarrow', 'pandas'} & {*sys.modules}])"
    )
    argv = [sys.executable, "-P", "-c", code, str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "['pyarrow']\n"
