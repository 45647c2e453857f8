"""`holdfast verify` reads a run directory by itself, and refuses what its rows do not bear out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.commands import cli

RUN = ("run", "--backend", "sim", "--system", "majority", "--time", "8s", "--seed", "1")


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args), standalone_mode=False)


@pytest.fixture(scope="module")
def violated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    call(*RUN, "--nemesis", "kill", "--out", str(out))
    return (out / "latest").resolve()


def test_a_run_is_verified_when_it_is_judged_and_again_by_the_command(violated: Path) -> None:
    verdicts = json.loads((violated / "verdicts.json").read_text())
    findings = sum(len(row["findings"]) for row in verdicts["verdicts"])
    assert findings
    held = sum(row["certificate"] is not None for row in verdicts["verdicts"])
    assert held
    assert verdicts["verified"]["accepted"] == findings + held
    assert "token-order" in verdicts["verified"]["properties"]
    told = call("verify", str(violated))
    assert told.return_value == 0
    assert f"{findings + held} certificates accepted, 0 refused" in told.output


def test_one_changed_byte_of_a_witness_is_refused(violated: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    verdicts = json.loads((run / "verdicts.json").read_text())
    (finding, *_) = (f for row in verdicts["verdicts"] for f in row["findings"])
    row = finding["certificate"]["rows"]["second"]
    segment = run / "history" / f"{row['writer']}.seg"
    data = bytearray(segment.read_bytes())
    data[4096 + 96 * row["row"] + 24] ^= 1
    segment.write_bytes(bytes(data))
    told = call("verify", str(run))
    assert told.return_value == 4
    assert "refused: token-order, finding 1" in told.output


@pytest.mark.parametrize("name", ["manifest.json", "verdicts.json", "history/c1.seg"])
def test_what_cannot_be_read_is_told_as_that(violated: Path, tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    (run / name).write_text("{")
    told = call("verify", str(run))
    assert getattr(told.exception, "exit_code", None) == 2, told
