"""`holdfast verify` reads a run directory by itself, and refuses what its rows do not bear out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.commands import cli
from holdfast.harness.verification import verify
from holdfast.harness.verification.orders import Orders
from holdfast.harness.verification.rules import RULES
from tests.clusters.sim.longer import one_longer
from tests.front.said import holdfast

RUN = ("run", "--backend", "sim", "--system", "majority", "--time", "8s", "--seed", "3")


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


# A certificate that the verifier refuses is a mistake of ours: exit code 4, and no verdict.


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier has a rule that no rows meet, where the checkers go by the true one."""
    name = "token-inversion"
    damaged = replace(RULES[name], where=(*RULES[name].where, "order == 'never'"))
    monkeypatch.setattr(verify, "RULES", {**RULES, name: damaged})


def test_a_run_whose_certificate_is_refused_ends_in_4_and_is_kept(
    stubborn: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = holdfast(capsys, *RUN, "--nemesis", "kill", "--out", str(tmp_path))
    assert told.code == 4
    run = (tmp_path / "latest").resolve()
    assert f"{run}: internal error: the verifier rejects" in told.err
    assert "it does not hold that order == 'never'" in told.err
    assert "VIOLATED" not in told.out + told.err
    assert (run / "history").is_dir() and not (run / "verdicts.json").exists()


def test_check_of_it_ends_in_4_and_leaves_the_verdict_that_was_there(
    violated: Path, stubborn: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    before = (run / "verdicts.json").read_bytes()
    told = holdfast(capsys, "check", str(run))
    assert told.code == 4
    (line,) = [line for line in told.err.splitlines() if line]
    assert (
        "internal error: the verifier rejects" in line
        and "(token-inversion): it does not hold" in line
    )
    assert (run / "verdicts.json").read_bytes() == before


def test_sim_of_a_seed_whose_certificate_is_refused_ends_in_4(
    stubborn: None, capsys: pytest.CaptureFixture[str]
) -> None:
    told = holdfast(
        capsys, "sim", "--system", "majority", "--seeds", "4", "-j", "1", "--twice-every", "0"
    )
    assert (told.code, "the verifier rejects a certificate" in told.err) == (4, True)


def test_a_lock_that_was_held_twice_on_one_chain_says_nothing_about_tokens_on_another() -> None:
    """/lock-1 overlaps with /lock-1/a/a, so its holds do not show which of two grants came first,
    on the chain of /lock-1/a/b either."""
    ran = one_longer(135, 4, {"mutant": "early-expiry"})
    assert ran.verdicts["mutual-exclusion"] == "VIOLATED"
    assert "token-order" not in [prop for prop, _, _ in ran.shown]


def test_who_may_be_let_in_as_the_owner_of_another_path_overtakes_nobody(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its acquire below the path that others wait for was cancelled, so it may hold that: on the
    chain of another path nothing is to be seen of it, and both programs have to look there."""
    lines = """
        run --system reference --backend sim --workload hierarchy --resource strict --nodes 3
        --clients 6 --locks 1 --time 2s --lease 200ms
        --nemesis cancel:for=200ms,every=600ms,count=1,after=1ms --set writes=4 --set gap_ms=10
        --set think_ms=40 --set wait_ms=1000 --set hold_leases=1 --set renew_pct=33
        --set renew_spread_pct=0 --set sim_slow_us=2000 --set sim_spike_us=0 --set sim_sync_us=0
        --set sim_drift_ppm=0 --set sim_loss_ppm=100000 --set sim_double_ppm=1000
        --set queue=racing --set election_ms=100 --set snapshot_every=10 --set session_ms=300
        --seed 32
    """
    told = holdfast(capsys, *lines.split(), "--out", str(tmp_path / "runs"), "--json")
    verdicts = {row["property"]: row for row in json.loads(told.out)["verdicts"]}
    assert told.code != 4 and verdicts["starvation-freedom"]["verdict"] == "VIOLATED"


def test_an_order_that_is_refused_ends_in_4_too(
    violated: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    monkeypatch.setattr(Orders, "wrong", lambda *_: "a stand-in")
    told = holdfast(capsys, "check", str(run))
    assert told.code == 4 and "its order: a stand-in" in told.err


def test_a_property_that_holds_without_an_order_is_counted(violated: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    verdicts = json.loads((run / "verdicts.json").read_text())
    held = [row for row in verdicts["verdicts"] if row["certificate"] is not None]
    for row in held:
        row["certificate"] = None
    (run / "verdicts.json").write_text(json.dumps(verdicts))
    told = call("verify", str(run))
    assert told.return_value == 0
    assert f"{len(held)} properties hold without an order to verify" in told.output
