"""The run directory: made once, read with the reason of each damage, packed for the nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.runs import directory, files
from holdfast.harness.runs.directory import READABLE, RunDir
from tests.manifests import manifest


def test_a_new_run_has_its_folders_and_is_the_latest(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "runs"
    for name in ("first", "second"):
        run = directory.create(root, name)
        assert run.path == root / name and run.history.is_dir() and (run.path / "workers").is_dir()
        assert (root / "latest").readlink() == Path(name), "the folder may be moved with its link"
    assert sorted(path.name for path in root.iterdir()) == ["first", "latest", "second"]


def test_a_link_that_an_aborted_process_of_the_same_pid_left_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 77)
    (tmp_path / ".latest-77").symlink_to("gone")
    directory.create(tmp_path, "run")
    assert (tmp_path / "latest").readlink() == Path("run")
    assert not (tmp_path / ".latest-77").is_symlink()


def test_a_run_directory_is_never_made_over_another(tmp_path: Path) -> None:
    directory.create(tmp_path, "run").plan.write_text("seed = 1")
    with pytest.raises(UsageError) as told:
        directory.create(tmp_path, "run")
    assert told.value.problems == (
        f"{tmp_path}: a run directory cannot be created there: File exists;"
        " choose another folder with --out",
    )
    assert (tmp_path / "run" / "plan.toml").read_text() == "seed = 1"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Not a directory; choose another folder"):
        directory.create(tmp_path / "file", "run")


def test_logs_of_a_node_have_a_folder_of_their_own(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    for name in ("server", "server", "agent"):
        run.log("n1", name).write_text(name)
    assert list(files.walked(tmp_path)) == ["logs/n1/agent.log", "logs/n1/server.log"]


def test_a_file_of_a_run_is_there_only_as_a_regular_file(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert not run.has(run.plan)
    run.plan.mkdir()
    run.verdicts.symlink_to("manifest.json")
    run.manifest.write_text("{}")
    assert [run.has(path) for path in (run.plan, run.verdicts, run.manifest)] == [
        False, False, True,
    ]  # fmt: skip


KNOWN = ("holdfast-x/1", "holdfast-x/2")
READS = "this version reads holdfast-x/2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file; is this a run directory of Holdfast?"),
        ("{", "cannot be read: Expecting property name"),
        ('{"schema": Infinity}', "cannot be read: invalid number Infinity"),
        ("[" * 70 + "]" * 70, "cannot be read: nested deeper than 64"),
        ("[]", f"unsupported schema None; {READS}"),
        ("{}", f"unsupported schema None; {READS}"),
        ('{"schema": 2}', f"unsupported schema 2; {READS}"),
        ('{"schema": "other/9"}', f"unsupported schema 'other/9'; {READS}"),
        ('{"schema": "holdfast-xyz/9"}', f"unsupported schema 'holdfast-xyz/9'; {READS}"),
        ('{"schema": "holdfast-x/3"}',
         f"unsupported schema 'holdfast-x/3'; {READS}; the file is from a newer version"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told_after_its_path(
    tmp_path: Path, text: str | None, said: str
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as told:
        directory.read_json(path, *KNOWN)
    (problem,) = told.value.problems
    assert problem.startswith(f"{path}: {said}")
    assert problem.endswith("version") == said.endswith("version")


@pytest.mark.parametrize("schema", KNOWN)
def test_what_was_written_is_read_whatever_was_there_before(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "x.json"
    path.symlink_to("elsewhere")
    directory.write_json(path, {"schema": schema, "é": [1, None, {"a": 0.5}]})
    assert directory.read_json(path, *KNOWN) == {"schema": schema, "é": [1, None, {"a": 0.5}]}
    assert not (tmp_path / "elsewhere").exists() and path.read_bytes().endswith(b"}\n")


def test_each_problem_of_a_manifest_is_told_with_its_file(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    table = {**to_table(manifest()), "longest_hold_ns": -1, "ready_ns": -1, "schema": READABLE[-1]}
    directory.write_json(run.manifest, table)
    with pytest.raises(UsageError) as told:
        run.read_manifest()
    assert len(told.value.problems) == 2
    assert all(one.startswith(f"{run.manifest}: invalid ") for one in told.value.problems)
    directory.write_json(run.manifest, {**table, "longest_hold_ns": 0, "ready_ns": 0})
    assert run.read_manifest().run == "made"


def test_a_line_that_a_killed_writer_left_half_written_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert list(directory.read_lines(path, files.table)) == []
    for n in range(3):
        directory.append(path, {"n": n})
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        found = [row["n"] for row in directory.read_lines(path, files.table)]
        assert found == list(range(whole[:cut].count(b"\n")))


def test_lines_before_a_damaged_one_are_given_and_its_number_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 0}\n{"n": 1}\n[2]\n{"n": 3}\n')
    rows = directory.read_lines(path, files.table)
    assert [next(rows)["n"], next(rows)["n"]] == [0, 1]
    with pytest.raises(UsageError) as told:
        next(rows)
    assert told.value.problems == (f"{path}, line 3: damaged: not a JSON object",)
    with pytest.raises(UsageError, match="31 bytes, more than the limit of 30"):
        list(directory.read_lines(path, files.table, most=30))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("plan"), "'plan' is missing"),
        (TypeError("no number"), "no number"),
        (ValueError("x" * 400), "x" * 300),
        (IndexError("out of range"), "out of range"),
    ],
)
def test_an_unexpected_shape_of_a_file_is_its_damage(
    tmp_path: Path, error: Exception, said: str
) -> None:
    with pytest.raises(UsageError) as told, files.shaped(tmp_path):
        raise error
    assert told.value.problems == (f"{tmp_path}: damaged: {said}; copy the run directory again",)


def test_an_error_of_the_machine_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(MemoryError), files.shaped(tmp_path):
        raise MemoryError
    with pytest.raises(UsageError, match=r"^plain$"), files.shaped(tmp_path):
        raise UsageError("plain")


def rejected(row: dict[str, object]) -> str:
    with pytest.raises(ValueError, match=r" is [\"']") as told:
        files.row(json.dumps(row).encode())
    return str(told.value)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("reason", [7, None, ["a"], True]),
        ("t_ns", ["7", 7.5, True, None, 1 << 63]),
        ("nodes", ["n1", [1], {"a": 1}, None]),
        ("evidence", [[], "x", 1, None]),
        ("effective", [0, 1, "true", None]),
    ],
)
def test_each_type_of_field_refuses_the_others(field: str, wrong: list[object]) -> None:
    for value in wrong:
        assert rejected({"id": "f1", field: value}).startswith(f"{field} is ")
    assert len(rejected({field: ["x" * 100, 1]})) < 80
