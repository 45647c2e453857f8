"""However a run directory was damaged, judging it ends in a verdict or in one clear message."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.run_directory import Shape, write

from holdfast.engine.judging import judge_run
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.seeds import stream
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from tests.draws import Draws

SUITE, POWER = 150, 5000
SHAPE = Shape(ops=300, clients=3, writes=1, lapse=20)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """One to three injuries: cut, flipped, filled with the extremes of a number, moved."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(found)) if found else 0
        kind = rng.randrange(5)
        if kind == 0:
            del found[at:]
        elif kind == 1 and found:
            found[at] = rng.randrange(256)
        elif kind == 2:
            at -= at % 8
            found[at : at + 8] = rng.choice((b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 8))
        elif kind == 3:
            del found[at : at + rng.randrange(200)]
        else:
            found[at:at] = found[at : at + 96]
    return bytes(found)


def outcome(run: RunDir) -> Judged | UsageError:
    """The verdicts on a run, or the refusal that the user sees."""
    try:
        return judge_run(run)
    except UsageError as refusal:
        return refusal


def survive(tmp_path: Path, count: int) -> Counter[str]:
    """Judge so many damaged copies of one run; what became of them."""
    sound = write(SHAPE, tmp_path).path
    assert judge_run(RunDir(sound)).verdict == "HOLDS"
    said: Counter[str] = Counter()
    for n in range(count):
        rng = stream(3, "damaged", n)
        copy = tmp_path / "copy"
        shutil.copytree(sound, copy)
        file = rng.choice(sorted((copy / "history").iterdir()))
        file.write_bytes(damaged(rng, file.read_bytes()))
        came = outcome(RunDir(copy))
        if isinstance(came, UsageError):
            assert len(came.problems) == 1 and "\n" not in str(came), n
            assert file.stem.partition("+")[0] in str(came), (n, str(came))
            said["refused"] += 1
        else:
            crashed = [row for row in came.verdicts if "crashed" in row.reason]
            assert not crashed, (n, crashed[0].reason)
            said[came.verdict] += 1
        shutil.rmtree(copy)
    return said


def renamed(tmp_path: Path, key: str) -> RunDir:
    """A run whose manifest has a name that does not exist."""
    run = write(SHAPE, tmp_path)
    table = json.loads(run.manifest.read_text())
    table["plan"][key] = "nosuch"
    run.manifest.write_text(json.dumps(table))
    return run


@pytest.mark.parametrize("kind", ["resource", "workload", "backend"])
def test_what_does_not_exist_is_refused(tmp_path: Path, kind: str) -> None:
    run = renamed(tmp_path, kind)
    said = outcome(run)
    assert isinstance(said, UsageError) and len(said.problems) == 1
    assert str(said).startswith(f"{run.manifest}: unknown {kind} 'nosuch'")


def test_a_plug_in_that_made_a_run_need_not_be_installed(tmp_path: Path) -> None:
    for n, (kind, name) in enumerate((("workload", "nosuch"), ("backend", "nosuch"))):
        run = renamed(tmp_path / str(n), kind)
        table = json.loads(run.manifest.read_text())
        table["plug_ins"] = {f"{kind}s {name}": "other 1.0"}
        run.manifest.write_text(json.dumps(table))
        assert isinstance(outcome(run), Judged), kind
    run = renamed(tmp_path / "own", "workload")
    run.manifest.write_text(run.manifest.read_text().replace('"nosuch"', '"mine.py:Mine"'))
    assert isinstance(outcome(run), Judged)


def test_a_system_that_does_not_exist_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(outcome(renamed(tmp_path, "system")), Judged)
    assert "system 'nosuch' is not known here" in capsys.readouterr().err
    assert isinstance(outcome(write(SHAPE, tmp_path / "other")), Judged)
    assert "not known" not in capsys.readouterr().err


def test_half_a_surrogate_pair_in_a_manifest_is_damage(tmp_path: Path) -> None:
    run = write(SHAPE, tmp_path)
    text = run.manifest.read_text()
    run.manifest.write_text(text.replace('"run": "', '"run": "\\ud800', 1))
    said = outcome(run)
    assert isinstance(said, UsageError) and "a lone surrogate" in str(said)


def test_no_damaged_run_ends_in_a_traceback(tmp_path: Path, draws: Draws) -> None:
    said = survive(tmp_path, draws(SUITE, least=50))
    assert min(said["refused"], said.total() - said["refused"]) > 0.2 * said.total(), said


@pytest.mark.power
def test_no_damaged_run_of_many_ends_in_a_traceback(tmp_path: Path) -> None:
    assert survive(tmp_path, POWER)["refused"] > 0.3 * POWER
