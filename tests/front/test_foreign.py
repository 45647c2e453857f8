"""A history from elsewhere is judged by its model, and a run can be told to other tools."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import holdfast as hf
from holdfast.foreign import judge_foreign
from holdfast.harness.core.operations import Mode, Op, Status, attempt_id
from holdfast.harness.foreign import exported_table
from holdfast.harness.foreign.operations import Malformed
from holdfast.harness.foreign.read import read_history
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.recording import segments
from holdfast.harness.runs import directory
from holdfast.reports.text.progress import Progress
from tests.front.said import holdfast
from tests.manifests import manifest

Capture = pytest.CaptureFixture[str]

TWO_HOLDERS = """{:process 0, :type :invoke, :f :acquire}
{:process 1, :type :invoke, :f :acquire}
{:process 0, :type :ok, :f :acquire}
{:process 1, :type :ok, :f :acquire}
"""


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.edn"
    path.write_text(TWO_HOLDERS)
    return path


def test_the_verdict_on_a_file_is_the_exit_code(capsys: Capture, history: Path) -> None:
    said = holdfast(capsys, "check", history, "--model", "owner-mutex")
    assert said.code == 1
    assert said.out.startswith("VIOLATED")
    assert "double-hold" in said.out and "lines 2 to 4" in said.out
    said = holdfast(capsys, "check", history, "--model", "semaphore:2")
    assert said.code == 0 and said.out.startswith("HOLDS")


def test_json_has_one_object_for_one_file_and_an_array_for_two(
    capsys: Capture, history: Path
) -> None:
    words = ("--model", "lease-mutex", "--json")
    one = json.loads(holdfast(capsys, "check", history, *words).out)
    assert (one["schema"], one["verdict"], one["exit_code"]) == ("holdfast-verdict/4", "HOLDS", 0)
    assert one["verdicts"][0]["property"] == "mutual-exclusion"
    said = holdfast(capsys, "check", history, history, "--model", "mutex", "--json")
    both = json.loads(said.out)
    assert [each["verdict"] for each in both] == ["VIOLATED", "VIOLATED"]
    assert both[0]["verdicts"][0]["findings"][0]["witnesses"] == [{"line": 2}, {"line": 1}]
    assert said.code == 1


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "a foreign history needs --model: one of mutex"),
        (("--model", "mutx"), "did you mean 'mutex'?"),
        (("--model", "semaphore:x"), "semaphore:3"),
        (("--model", "semaphore"), "unknown model 'semaphore'"),
        (("--model", "mutex:3"), "unknown model 'mutex:3'"),
        (("--model", "register"), "'acquire' is not an operation of this model"),
        (("--model", "fenced"), "no ok acquire carries a token"),
        (("--model", "mutex", "--format", "jsonl"), "line 1: not a JSON object"),
        (("--model", "mutex", "--format", "xml"), "xml"),
        (("--model", "mutex", "--property", "applied-once"), "applied-once"),
    ],
)
def test_what_cannot_be_judged_is_told_and_ends_in_2(
    capsys: Capture, history: Path, words: tuple[str, ...], part: str
) -> None:
    said = holdfast(capsys, "check", history, *words)
    assert said.code == 2
    assert part in said.err
    assert "Traceback" not in said.err


def test_a_run_is_not_judged_by_a_model(capsys: Capture, tmp_path: Path) -> None:
    said = holdfast(capsys, "check", tmp_path, "--model", "mutex")
    assert said.code == 2 and "holdfast export" in said.err


def recorded(folder: Path, lease_ns: int = 0) -> directory.RunDir:
    """A run in which a holder is followed by a reader, one answer is lost and one try refused."""
    run = directory.create(folder, "run")
    directory.write_json(run.manifest, to_table(manifest()))
    with segments.Recorder(run.history, "c1", {"node": "c1", "processes": [1, 2]}) as recorder:
        db = recorder.intern("db \u00e9\n")
        first, second = attempt_id(1, 1), attempt_id(2, 1)
        held = recorder.invoke(Op.ACQUIRE, 1, db, attempt=first, arg=lease_ns)
        recorder.complete(held, Status.OK, token=7)
        tried = recorder.invoke(Op.TRY, 2, db, attempt=second, arg=lease_ns)
        recorder.complete(tried, Status.FAIL)
        recorder.invoke(Op.RENEW, 1, db, attempt=first)
        freed = recorder.invoke(Op.RELEASE, 1, db, attempt=first)
        recorder.complete(freed, Status.OK)
        reader = attempt_id(2, 2)
        shared = recorder.invoke(Op.ACQUIRE, 2, db, attempt=reader, mode=Mode.SHARED, arg=lease_ns)
        recorder.complete(shared, Status.OK, token=8)
        late = recorder.invoke(Op.RELEASE, 1, db, attempt=first)
        recorder.complete(late, Status.NOT_OWNER)
    return run


@pytest.mark.parametrize("form", ["jsonl", "edn", "csv", "parquet"])
def test_an_exported_run_is_read_back_and_judged(
    capsys: Capture, tmp_path: Path, form: str
) -> None:
    run, out = recorded(tmp_path), tmp_path / f"history.{form}"
    assert holdfast(capsys, "export", run.path, "--format", form, "--out", out).code == 0
    ops = read_history(out).ops
    told = [(op.f, op.status, op.token, op.attempt, op.shared, op.key) for op in ops]
    key, first = "db \u00e9\n", attempt_id(1, 1)
    assert told == [
        ("acquire", Status.OK, 7, first, False, key),
        ("acquire", Status.FAIL, -1, attempt_id(2, 1), False, key),
        ("renew", Status.INFO, -1, first, False, key),
        ("release", Status.OK, -1, first, False, key),
        ("acquire", Status.OK, 8, attempt_id(2, 2), True, key),
        ("release", Status.NOT_OWNER, -1, first, False, key),
    ]
    assert len({ops[0].process, ops[3].process}) == 2, "the unanswered renewal keeps its process"
    if form in ("jsonl", "edn"):
        assert '"c1.p2/2"' in out.read_text(), "the second logical client of c1"
    for model in ("fenced", "owner-mutex", "lease-mutex", "rw"):
        assert holdfast(capsys, "check", out, "--model", model).code == 0


def test_an_export_as_csv_has_every_row_and_its_columns(capsys: Capture, tmp_path: Path) -> None:
    said = holdfast(capsys, "export", recorded(tmp_path).path, "--format", "csv")
    head, *rows = list(csv.reader(said.out.splitlines(keepends=True)))
    assert len(rows) == 6
    first = dict(zip(head, rows[0], strict=True))
    assert (first["f"], first["status"], first["token"]) == ("acquire", "ok", "7")
    assert first["key"] == "db \u00e9\n"
    raw = hf.Run(recorded(tmp_path / "again").path).frame(raw=True)
    assert sorted(head) == sorted([*raw.columns, "attempt_name"])
    assert first["attempt_name"] == "c1/1" and int(first["attempt"]) == attempt_id(1, 1)


def test_an_export_as_parquet_has_what_the_csv_has(capsys: Capture, tmp_path: Path) -> None:
    run, out = recorded(tmp_path), tmp_path / "rows.parquet"
    assert holdfast(capsys, "export", run.path, "--format", "parquet", "--out", out).code == 0
    found = parquet.read_table(out)
    said = holdfast(capsys, "export", run.path, "--format", "csv")
    head, *rows = list(csv.reader(said.out.splitlines(keepends=True)))
    assert found.column_names == head
    assert [[str(value) for value in row.values()] for row in found.to_pylist()] == rows
    assert str(found.schema.field("t_inv").type) == "int64"


def test_parquet_says_what_it_wants(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, missing = recorded(tmp_path), tmp_path / "no" / "file"
    said = holdfast(capsys, "export", run.path, "--format", "parquet")
    assert said.code == 2 and "--out FILE" in said.err
    said = holdfast(capsys, "export", run.path, "--format", "parquet", "--out", missing)
    assert said.code == 2 and "cannot be written" in said.err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = holdfast(capsys, "export", run.path, "--format", "parquet", "--out", missing)
    assert said.code == 2 and "pip install 'holdfast[parquet]'" in said.err


def test_what_is_no_run_is_not_exported(capsys: Capture, tmp_path: Path) -> None:
    said = holdfast(capsys, "export", tmp_path)
    assert said.code == 2 and "is this a run directory" in said.err
    said = holdfast(capsys, "export", recorded(tmp_path).path, "--out", tmp_path / "no" / "file")
    assert said.code == 2 and "cannot be written" in said.err


def test_a_small_parquet_file_that_unpacks_without_end_is_refused(
    capsys: Capture, tmp_path: Path
) -> None:
    """One text of a megabyte that every row names takes some kilobytes."""
    count = 1 << 18
    same = pyarrow.array(np.zeros(count, np.int64))
    word = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(np.zeros(count, np.int32)), pyarrow.array(["x" * (1 << 20)])
    )
    columns = dict.fromkeys(("process", "t_inv", "t_ret", "attempt", "token"), same)
    columns |= dict.fromkeys(("f", "status", "key"), word)
    bomb = tmp_path / "bomb.parquet"
    parquet.write_table(pyarrow.table(columns), bomb, compression="zstd")
    assert bomb.stat().st_size < 1 << 19
    done = holdfast(capsys, "check", bomb, "--model", "mutex")
    assert done.code == 2
    assert "characters" in done.err


def test_a_parquet_file_of_more_rows_than_memory_is_refused_before_it_is_read() -> None:
    rows = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1000
    told = SimpleNamespace(num_rows=rows, num_row_groups=0, row_group=None)
    with pytest.raises(Malformed) as refused:
        exported_table._fits(told)
    assert "memory" in refused.value.reason


def lines(*events: tuple[int, str, str, str]) -> str:
    """EDN of (process, type, f, value)."""
    return "\n".join(
        f"{{:process {p}, :type :{kind}, :f :{f}, :value {value}}}" for p, kind, f, value in events
    )


INDEPENDENT = {
    "register": lines(
        (0, "invoke", "write", "[1 7]"),
        (0, "ok", "write", "[1 7]"),
        (1, "invoke", "write", "[2 8]"),
        (1, "ok", "write", "[2 8]"),
        (0, "invoke", "read", "[1 nil]"),
        (0, "ok", "read", "[1 7]"),
        (1, "invoke", "read", "[3 nil]"),
        (1, "ok", "read", "[3 nil]"),
    ),
    "cas-register": lines(
        (0, "invoke", "write", "[1 7]"),
        (0, "ok", "write", "[1 7]"),
        (1, "invoke", "cas", "[2 [nil 8]]"),
        (1, "ok", "cas", "[2 [nil 8]]"),
        (0, "invoke", "read", "[1 nil]"),
        (0, "ok", "read", "[1 7]"),
    ),
    "mutex": lines(
        (0, "invoke", "acquire", "[a nil]"),
        (0, "ok", "acquire", "[a nil]"),
        (1, "invoke", "acquire", "[b nil]"),
        (1, "ok", "acquire", "[b nil]"),
    ).replace("[a", '["a"').replace("[b", '["b"'),
}  # fmt: skip


@pytest.mark.parametrize("model", INDEPENDENT)
def test_the_pairs_of_independent_histories_are_keys_and_values(
    capsys: Capture, tmp_path: Path, model: str
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(INDEPENDENT[model])
    said = holdfast(capsys, "check", path, "--model", model)
    assert said.code == 0, said.out
    wrong = INDEPENDENT[model].replace('"b"', '"a"')
    path.write_text(wrong.replace("ok, :f :read, :value [1 7]", "ok, :f :read, :value [1 9]"))
    assert holdfast(capsys, "check", path, "--model", model).code == 1


def test_values_of_one_register_that_are_pairs_stay_values(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        lines(
            (0, "invoke", "write", "[1 2]"),
            (0, "ok", "write", "[1 2]"),
            (0, "invoke", "write", "[3 4]"),
            (0, "ok", "write", "[3 4]"),
            (0, "invoke", "read", "nil"),
            (0, "ok", "read", "[1 2]"),
        )
    )
    assert holdfast(capsys, "check", path, "--model", "register").code == 1


@pytest.mark.parametrize("model", ["register", "cas-register"])
@pytest.mark.parametrize(("written", "read"), [("1", "true"), ("true", "1"), ("[0]", "[false]")])
def test_a_boolean_is_no_number(
    capsys: Capture, tmp_path: Path, model: str, written: str, read: str
) -> None:
    path = tmp_path / "history.edn"
    text = lines((0, "invoke", "write", written), (0, "ok", "write", written),
                 (0, "invoke", "read", "nil"), (0, "ok", "read", read))  # fmt: skip
    path.write_text(text)
    said = holdfast(capsys, "check", path, "--model", model)
    assert said.code == 1, said.out
    path.write_text(text.replace(f"read, :value {read}", f"read, :value {written}"))
    assert holdfast(capsys, "check", path, "--model", model).code == 0


UNANSWERED = {
    "register": lines((0, "invoke", "write", "1"), (0, "fail", "write", "1")),
    "kv": lines((0, "invoke", "get", "nil"), (0, "info", "get", "nil")),
}
UNANSWERED |= dict.fromkeys(
    ("mutex", "owner-mutex", "lease-mutex", "reentrant", "semaphore:2", "rw"),
    lines((0, "invoke", "acquire", "nil"), (0, "info", "acquire", "nil"),
          (1, "invoke", "acquire", "nil"), (1, "fail", "acquire", "nil"),
          (1, "invoke", "renew", "nil"), (1, "ok", "renew", "nil")),
)  # fmt: skip


@pytest.mark.parametrize("model", UNANSWERED)
def test_a_history_in_which_nothing_was_answered_ok_shows_nothing(
    capsys: Capture, tmp_path: Path, model: str
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(UNANSWERED[model])
    said = holdfast(capsys, "check", path, "--model", model)
    assert said.code == 3 and said.out.startswith("UNKNOWN"), said.out
    assert "there is nothing to check" in said.out


STALE_READ = """{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :write, :value 2}
{:process 1, :type :ok, :f :write, :value 2}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value 1}
"""


def test_a_page_draws_the_longest_legal_prefix(capsys: Capture, tmp_path: Path) -> None:
    path, page = tmp_path / "r.edn", tmp_path / "page.html"
    path.write_text(STALE_READ)
    said = holdfast(capsys, "check", path, "--model", "register", "--html", page)
    assert said.code == 1
    text = page.read_text()
    assert "2 of 3 responses are explained by one order." in text
    assert "1: process 0 write 1; 2: process 1 write 2." in text
    assert "No order goes on with read → 1 of process 0." in text
    assert "The state could then only be <b><bdi>2</bdi></b>." in text
    assert "<script" not in text and "http" not in text.replace("http-equiv", "")


def test_the_page_of_a_legal_history_has_no_drawing(capsys: Capture, tmp_path: Path) -> None:
    path, page = tmp_path / "r.edn", tmp_path / "page.html"
    path.write_text("\n".join(STALE_READ.splitlines()[:4]))
    assert holdfast(capsys, "check", path, "--model", "register", "--html", page).code == 0
    text = page.read_text()
    assert "HOLDS" in text and "longest legal prefix" not in text


def test_a_specification_of_the_user_is_drawn_too(capsys: Capture, tmp_path: Path) -> None:
    spec, path, page = tmp_path / "spec.py", tmp_path / "r.edn", tmp_path / "page.html"
    spec.write_text(
        "class Last:\n"
        "    initial = 0\n"
        "    def step(self, state, command):\n"
        "        f, value, result = command\n"
        "        if f == 'write':\n"
        "            return value\n"
        "        return state if result in (state, ...) else None\n"
    )
    path.write_text(STALE_READ)
    said = holdfast(capsys, "check", path, "--model", f"{spec}:Last", "--html", page)
    assert said.code == 1
    assert "2 of 3 responses are explained by one order." in page.read_text()


def test_strings_of_a_file_cannot_leave_their_place_on_its_page(
    capsys: Capture, tmp_path: Path
) -> None:
    evil = "<script>alert(1)</script><img src=x>"
    path, page = tmp_path / "r.edn", tmp_path / "page.html"
    path.write_text(STALE_READ.replace(":value 2", f':value "{evil}"'))
    assert holdfast(capsys, "check", path, "--model", "register", "--html", page).code == 1
    text = page.read_text()
    assert "<script" not in text and "<img" not in text
    assert "&lt;script&gt;" in text


def test_a_page_is_for_one_foreign_history(capsys: Capture, history: Path, tmp_path: Path) -> None:
    words = ("--model", "mutex", "--html", tmp_path / "page.html")
    said = holdfast(capsys, "check", history, history, *words)
    assert said.code == 2 and "one history at a time, not 2" in said.err
    words = ("--model", "mutex", "--html", tmp_path / "no" / "page.html")
    assert holdfast(capsys, "check", history, *words).code == 4


@pytest.mark.parametrize(
    "model", ["mutex", "owner-mutex", "reentrant", "semaphore:1", "rw", "cas-register"]
)
def test_every_model_of_a_violated_history_is_drawn(
    capsys: Capture, tmp_path: Path, model: str
) -> None:
    path, page = tmp_path / "h.edn", tmp_path / "page.html"
    path.write_text(STALE_READ if "register" in model else TWO_HOLDERS)
    assert holdfast(capsys, "check", path, "--model", model, "--html", page).code == 1
    assert "No order explains the next response." in page.read_text()


UNREADABLE: dict[str, str] = {"empty.edn": "", "damaged.edn": "{:process 0", "missing.edn": ""}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("first", [False, True])
def test_of_several_histories_each_is_judged_although_one_cannot_be_read(
    capsys: Capture, tmp_path: Path, history: Path, name: str, first: bool
) -> None:
    bad, fine = tmp_path / name, tmp_path / "fine.edn"
    if name != "missing.edn":
        bad.write_text(UNREADABLE[name])
    fine.write_text(TWO_HOLDERS.splitlines()[0] + "\n" + TWO_HOLDERS.splitlines()[2])
    paths = (bad, history, fine) if first else (history, fine, bad)
    said = holdfast(capsys, "check", *paths, "--model", "owner-mutex")
    assert said.code == 1, "a violation is worse than a file that cannot be read"
    assert [line.split()[0] for line in said.out.splitlines() if line[0] != " "] == [
        "VIOLATED", "HOLDS",
    ]  # fmt: skip
    assert said.err.startswith(f"holdfast: not judged: {bad}") and said.err.count("\n") == 1
    words = ("--model", "owner-mutex", "--json")
    rows = json.loads(holdfast(capsys, "check", *paths, *words).out)
    (row,) = [row for row in rows if row["run"] == str(bad)]
    assert (row["verdict"], row["exit_code"], len(row["problems"])) == (None, 2, 1)
    assert len(rows) == 3
    assert holdfast(capsys, "check", bad, fine, "--model", "owner-mutex").code == 2
    said = holdfast(capsys, "check", bad, "--model", "owner-mutex")
    assert said.code == 2 and said.err.startswith(f"holdfast: {bad}") and not said.out


def test_a_history_outside_its_model_voids_no_other_but_a_wrong_model_all(
    capsys: Capture, tmp_path: Path, history: Path
) -> None:
    other = tmp_path / "register.edn"
    other.write_text("{:process 0, :type :invoke, :f :write, :value 1}\n")
    said = holdfast(capsys, "check", other, history, "--model", "mutex")
    assert said.code == 1 and "'write' is not an operation of a lock" in said.err
    said = holdfast(capsys, "check", other, history, "--model", "mutx")
    assert said.code == 2 and said.err.count("\n") == 1 and not said.out


def test_a_budget_bounds_the_search_of_a_foreign_history_only(
    capsys: Capture, tmp_path: Path
) -> None:
    """Two writes of one value, which was read: no rule decides that without a search."""
    rows: list[tuple[int, str, str, int | None]]
    rows = [(n, "invoke", "write", n % 14) for n in range(15)]
    rows += [(n, "ok", "write", n % 14) for n in range(15)]
    for n, value in ((0, 0), (1, 1)):
        rows += [(n, "invoke", "read", None), (n, "ok", "read", value)]
    path = tmp_path / "history.jsonl"
    path.write_text(
        "".join(
            json.dumps({"process": p, "type": kind, "f": f, "value": v}) + "\n"
            for p, kind, f, v in rows
        )
    )
    said = holdfast(capsys, "check", path, "--model", "register", "--budget", "300")
    assert said.code == 3 and "stopped after 300 configurations" in said.out
    said = holdfast(capsys, "check", recorded(tmp_path).path, "--budget", "300")
    assert said.code == 2 and "--budget is for foreign histories" in said.err


def test_a_long_search_says_how_far_it_is(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("holdfast.reports.text.progress.time.monotonic", lambda: now[0])
    with Progress("search", "responses explained") as far:
        tell = judge_foreign.search_told(far)
        for now[0] in (101.0, 111.0, 112.0, 121.5):
            tell(int(now[0] * 1000), 3, 12)
    lines = [line.partition(",  ")[0] for line in capsys.readouterr().err.splitlines()]
    assert [line[: line.index(" visited")] for line in lines] == [
        "  search  25%  3 of 12 responses explained, 111,000 configurations",
        "  search  25%  3 of 12 responses explained, 121,500 configurations",
    ]


LEASED = """{"process": 0, "type": "invoke", "f": "acquire", "lease_ns": 5000000000}
{"process": 0, "type": "ok", "f": "acquire"}
{"process": 1, "type": "invoke", "f": "acquire", "lease_ns": 5000000000, "mode": "shared"}
{"process": 1, "type": "ok", "f": "acquire"}
"""


@pytest.mark.parametrize("model", ["mutex", "owner-mutex", "reentrant", "semaphore:1", "rw"])
def test_a_model_that_knows_no_lease_says_so_beside_its_verdict(
    capsys: Capture, tmp_path: Path, model: str
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(LEASED)
    said = holdfast(capsys, "check", path, "--model", model)
    assert said.code == 1
    text = " ".join(said.out.split())
    assert "not judged: leases: 2 of 2 acquires carry one" in text
    assert "use --model lease-mutex" in text
    assert ("not judged: modes: 1 of 2" in text) == (model != "rw")


@pytest.mark.parametrize("form", ["jsonl", "edn", "csv", "parquet"])
def test_what_lease_mutex_does_not_judge_stands_in_its_line(
    capsys: Capture, tmp_path: Path, form: str
) -> None:
    """The leases of a run stand in each of its exports."""
    run, out = recorded(tmp_path), tmp_path / f"history.{form}"
    rows = hf.Run(run.path).frame(raw=True)
    assert not rows["arg"].any()
    assert holdfast(capsys, "export", run.path, "--format", form, "--out", out).code == 0
    said = holdfast(capsys, "check", out, "--model", "lease-mutex")
    assert said.code == 0 and "leases:" not in said.out
    leased = recorded(tmp_path / "leased", lease_ns=7_000_000)
    assert holdfast(capsys, "export", leased.path, "--format", form, "--out", out).code == 0
    assert [op.lease_ns for op in read_history(out).ops if op.f == "acquire"] == [7_000_000] * 3
    said = holdfast(capsys, "check", out, "--model", "lease-mutex", "--json")
    told = json.loads(said.out)
    assert told["verdict"] == "HOLDS" and len(told["unjudged"]) == 2
    assert told["unjudged"][0].startswith("leases: 3 of 3 acquires carry one, but in this model a")


def store(folder: Path, results: str | None, text: str = TWO_HOLDERS) -> Path:
    """A folder as Jepsen leaves it."""
    folder.mkdir()
    (folder / "history.edn").write_text(text)
    (folder / "test.jepsen").write_bytes(b"JEPSEN\x00\x01")
    (folder / "jepsen.log").write_text("...")
    if results is not None:
        (folder / "results.edn").write_text(results)
    return folder


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ("{:valid? false}", ":valid? false (the whole test): Jepsen agrees"),
        ("{:valid? true}", ":valid? true (the whole test): Jepsen DISAGREES"),
        ("{:valid? :unknown}", "unknown (the whole test): one of the two verdicts is unknown"),
        ("{:stats {:valid? true, :count 4} :linear {:valid? false :op {:index 3}} :valid? false}",
         ":valid? false (linear): Jepsen agrees"),
        ("{:stats {:valid? false} :linear {:valid? true, :configs ({:model nil})} :valid? false}",
         ":valid? true (linear): Jepsen DISAGREES"),
        ("{:workload {:valid? false, :results {0 {:linear {:valid? true}, :timeline {:valid? true}}"
         ", 1 {:linear {:valid? false}}}, :failures [1]}, :valid? false}",
         ":valid? false (linear): Jepsen agrees"),
    ],
)  # fmt: skip
def test_a_store_folder_of_jepsen_is_read_as_it_is_and_compared_with_its_results(
    capsys: Capture, tmp_path: Path, results: str, said: str
) -> None:
    folder = store(tmp_path / "20260101T000000.000Z", results)
    told = holdfast(capsys, "check", folder, "--model", "owner-mutex")
    text = " ".join(told.out.split())
    assert told.code == 1 and text.startswith(f"VIOLATED {folder} as owner-mutex")
    assert said in text
    row = json.loads(holdfast(capsys, "check", folder, "--model", "owner-mutex", "--json").out)
    wanted = {"agrees": True, "DISAGREES": False, "unknown": None}[said.split()[-1]]
    assert row["jepsen"]["agrees"] is wanted
    page = tmp_path / "page.html"
    words = ("--model", "owner-mutex", "--html", page)
    assert holdfast(capsys, "check", folder, *words).code == 1 and page.exists()


def test_a_store_folder_without_history_or_with_damaged_results_says_so(
    capsys: Capture, tmp_path: Path
) -> None:
    folder = store(tmp_path / "none", None)
    said = holdfast(capsys, "check", folder, "--model", "owner-mutex")
    assert said.code == 1 and "results.edn" not in said.out
    (folder / "history.edn").unlink()
    said = holdfast(capsys, "check", folder, "--model", "owner-mutex")
    assert said.code == 2 and "without history.edn; test.jepsen is not read" in said.err
    for number, results in enumerate(("{:valid? ", "{:a 1}", "[1 2]", "")):
        folder = store(tmp_path / str(number), results)
        said = holdfast(capsys, "check", folder, "--model", "owner-mutex")
        assert said.code == 1 and "results.edn" in said.out and "Traceback" not in said.err
    said = holdfast(capsys, "check", folder)
    assert said.code == 2 and "needs --model" in said.err
