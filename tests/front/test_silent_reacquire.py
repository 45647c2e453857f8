"""A lock class whose renewal takes a lost lock again: by its client, and by its server."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.harness.verification.verify import verify_run

LOCK = '''
HOLDS = {}


class Regained:
    """A lease lock in memory, by the clock that it is given."""

    proves = False
    promises = {"mutual-exclusion": "any"%s}

    def __init__(self, servers, options, now):
        self.now = now

    def held(self, lock):
        owner, ends = HOLDS.get(lock, ("", 0))
        return owner if self.now() < ends else ""

    def acquire(self, lock, owner, lease_s):
        if self.held(lock) not in ("", owner):
            return False
        HOLDS[lock] = (owner, self.now() + lease_s)
        return True

    def renew(self, lock, owner, lease_s):
%s

    def release(self, lock, owner):
        mine = self.held(lock) == owner
        if mine:
            del HOLDS[lock]
        return mine
'''
RENEW = """\
        mine = self.held(lock) == owner
        if mine:
            HOLDS[lock] = (owner, self.now() + lease_s)
        return mine
"""
CLIENT = """\
        if self.held(lock) == owner:
            HOLDS[lock] = (owner, self.now() + lease_s)
            return True
        return self.acquire(lock, owner, lease_s)
"""
SERVER = """\
        if self.held(lock) in ("", owner):
            HOLDS[lock] = (owner, self.now() + lease_s)
            return True
        return False
"""
ROW = "loss-notice/silent-reacquire/clients"
NOTICE = ', "loss-notice": "any"'


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def paused(tmp_path: Path, renew: str, promised: str, seed: int) -> hf.Run:
    """A run in which holders are stopped for longer than their lease, and renew afterwards."""
    (tmp_path / "regained.py").write_text(LOCK % (promised, renew))
    return hf.simulate(
        system=f"{tmp_path}/regained.py:Regained",
        workload="renewal",
        nemesis="pause:target=holder,every=2s,for=1200ms",
        lease="500ms",
        time="20s",
        clients=2,
        options={"hold_leases": "1", "think_ms": "800"},
        seed=seed,
    )


def kinds(run: hf.Run) -> set[str]:
    """The kinds of findings about notices."""
    found = run.findings()
    return set(found[found["property"] == "loss-notice"]["kind"])


@pytest.mark.parametrize("renew", [CLIENT, SERVER], ids=["client", "server"])
def test_a_renewal_that_takes_the_lock_again_is_found_and_proved(
    tmp_path: Path, renew: str
) -> None:
    run = paused(tmp_path, renew, NOTICE, 3)
    assert "silent-reacquire" in kinds(run) and run.judgement["exit_code"] == 1
    assert run.path is not None
    outcome = verify_run(run.path)
    assert not outcome.refused and not outcome.bare and "loss-notice" in outcome.whole


def test_what_was_never_promised_is_a_risk(tmp_path: Path) -> None:
    run = paused(tmp_path, SERVER, "", 3)
    assert "silent-reacquire" in kinds(run)
    assert run.verdicts["loss-notice"] == hf.Verdict.VIOLATED
    assert run.judgement["exit_code"] != 1


def test_one_that_refuses_holds_where_it_could_have_taken_the_lock_again(tmp_path: Path) -> None:
    for seed in (3, 4):
        run = paused(tmp_path, RENEW, NOTICE, seed)
        assert run.verdicts["loss-notice"] == hf.Verdict.HOLDS and not kinds(run)
        seen = {one.row: one.count for one in run.opportunities["loss-notice"]["pause"]}
        assert seen[ROW] > 0, seed
