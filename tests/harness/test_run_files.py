"""Files of a run directory are hostile: links, FIFOs, sizes and nesting are bounded."""

from __future__ import annotations

import ast
import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs import files
from holdfast.harness.runs.journal import FaultRow, Mark
from tests.house.test_house import ROOT


def test_no_link_is_followed_at_any_level(tmp_path: Path) -> None:
    run, away = tmp_path / "run", tmp_path / "away"
    (run / "logs").mkdir(parents=True)
    (away / "n1").mkdir(parents=True)
    (away / "n1" / "secret.log").write_text("secret")
    (run / "manifest.json").symlink_to(away / "n1" / "secret.log")
    (run / "logs" / "n1").symlink_to(away / "n1")
    (run / "history").symlink_to(away)
    for name in ("manifest.json", "logs/n1/secret.log", "history/n1/secret.log", "../away/n1"):
        assert not files.is_file(run, name)
        with pytest.raises(UsageError, match="cannot be read"):
            files.read(run, name)
    assert list(files.walked(run)) == []
    assert files.listed(run, "history") == []


def test_the_directory_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.toml").write_text("seed = 1")
    (tmp_path / "latest").symlink_to("run")
    assert files.read(tmp_path / "latest", "plan.toml") == b"seed = 1"


def test_a_fifo_is_no_file_and_nobody_waits_at_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(UsageError, match="not a regular file"):
        files.read(tmp_path, "manifest.json")
    with pytest.raises(OSError, match="No such device"):
        files.append(tmp_path, "manifest.json", b"line\n")


def test_a_sparse_terabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "faults.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="damaged"):
        files.read(tmp_path, "faults.jsonl")


def test_what_is_written_replaces_a_link_and_leaves_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    for name in ("verdicts.json", "verdicts.json.part", ".verdicts.json.part"):
        (run / name).symlink_to(tmp_path / "target")
    files.write(run, "verdicts.json", b"{}")
    assert (tmp_path / "target").read_text() == "mine"
    assert not (run / "verdicts.json").is_symlink()
    assert (run / "verdicts.json").read_bytes() == b"{}"
    (run / "faults.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        files.append(run, "faults.jsonl", b"line\n")
    assert (tmp_path / "target").read_text() == "mine"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "verdicts.json").mkdir()
    (tmp_path / "verdicts.json" / "full").touch()
    with pytest.raises(OSError, match="directory"):
        files.write(tmp_path, "verdicts.json", b"{}")
    assert os.listdir(tmp_path) == ["verdicts.json"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100 + "]" * 100,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 65 + "1" + "}" * 65,
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": ' + "9" * 5000 + "}",
        "{",
    ],
    ids=["deep", "very deep", "deep objects", "nan", "infinity", "digits", "cut"],
)
def test_json_that_is_absurd_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nested|invalid number|digits|Expecting"):
        files.decoded(text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "\\ud800"}',
        b'{"a": ["x\\uDFFFy"]}',
        b'{"\\udc00": 1}',
        b'"\xed\xa0\x80"',
        b'{"a": "\\ud83d \\ude00"}',
    ],
)
def test_half_a_surrogate_pair_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a lone surrogate in"):
        files.decoded(data)


def test_a_whole_surrogate_pair_is_read() -> None:
    assert files.decoded(b'["\\ud83d\\ude00", "\\\\ud800"]') == ["\U0001f600", "\\ud800"]


def test_json_that_is_not_absurd_is_read() -> None:
    deep = "[" * 60 + "]" * 60
    assert files.decoded(deep.encode()) == json.loads(deep)


def test_descriptors_are_closed_on_every_way_out(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("b")
    (tmp_path / "a" / "link").symlink_to("b")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a/b", "a/link", "a/none", "a", "none/b", ".."):
        files.is_file(tmp_path, name)
        files.listed(tmp_path, name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_type_of_every_field_of_a_journal_is_checked() -> None:
    named = {one.name for kind in (FaultRow, Mark) for one in fields(kind)}
    assert sorted(named - set(files.LINE_FIELDS)) == []


OPENS_BY_ITSELF = {
    "harness/runs/files.py": "is the place",
    "harness/recording/segments.py": "writes a run while it goes on",
    "harness/recording/phase.py": "the same",
    "harness/client/self_faults.py": "the same",
    "harness/client/worker.py": "the same",
    "harness/driver/cluster.py": "the same",
    "harness/client/agent_link.py": "the same",
    "harness/campaigns/journal.py": "a journal of the user's campaign",
    "harness/recording/starvation.py": "the kernel's own file",
    "harness/runs/registry.py": "notes of this user",
    "harness/runs/node_code.py": "our own code",
    "harness/campaigns/baseline.py": "a file of the user's",
    "harness/core/loading.py": "code",
    "harness/foreign/jepsen_store.py": "a folder of the user's",
    "harness/foreign/read.py": "a file of the user's",
    "reports/pictures/svg.py": "our own templates",
    "reports/text/templates.py": "our own templates",
    "reports/many/claims.py": "our own table",
    "reports/outputs/gate.py": "writes where the user says",
    "reports/outputs/junit.py": "the same",
}
CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "fromfile", "memmap"}


def test_in_harness_and_reports_nobody_else_opens_files() -> None:
    """A new reader of run directories is found here."""
    for path in [*(ROOT / "harness").rglob("*.py"), *(ROOT / "reports").rglob("*.py")]:
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or name in OPENS_BY_ITSELF:
                continue
            called = ast.unparse(node.func)
            ours = called in ("cluster.open", "ctx.open", "os.open")
            assert ours or called.rpartition(".")[2] not in CALLS, f"{name}:{node.lineno} {called}"


def test_a_line_that_the_disk_cannot_take_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fills a disk writes what fits, without an error."""
    files.append(tmp_path, "faults.jsonl", b"whole\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]))
    with pytest.raises(OSError, match=r"No space left on device: .*faults.jsonl"):
        files.append(tmp_path, "faults.jsonl", b"half of it\n")
    monkeypatch.undo()
    files.append(tmp_path, "faults.jsonl", b"next\n")
    assert (tmp_path / "faults.jsonl").read_bytes() == b"whole\nnext\n"
