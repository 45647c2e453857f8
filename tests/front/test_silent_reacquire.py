"""A lock class whose renewal takes a lost lock again: by its client, its server, its library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast as hf
from holdfast.harness.verification.opportunities import WitnessCheck, witnessed
from holdfast.harness.verification.verify import Outcome, verify_run

LOCK = '''
HOLDS = {}


class Regained:
    """A lease lock in memory, by the clock that it is given."""

    proves = False
    promises = {%s}

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
BY_LIBRARY = """\
        HOLDS[lock] = HOLDS[lock] if self.held(lock) != "" else (owner, self.now() + lease_s)
        return True
"""
RENEWS_ITSELF = '\n    bound, lapse_ms = "none", 100\n'
ENDLESS = '\n    bound = "none"\n'
ROW = "loss-notice/silent-reacquire/clients"
EXCLUSION = '"mutual-exclusion": "any"'
NOTICE = f'{EXCLUSION}, "loss-notice": "any"'
RENEWED = '"loss-notice": "any"'


class Use(NamedTuple):
    """How clients use the lock, and how long their holders are stopped."""

    options: Mapping[str, str]
    clients: int
    pause: str


OF_LEASES = Use({"hold_leases": "1", "think_ms": "800"}, 2, "1200ms")
BY_ITSELF = Use({"hold_leases": "8", "think_ms": "300", "brief_pct": "60"}, 3, "1s")
"""An owner goes on for longer than a notice may take; most others are done with the lock soon."""


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def paused(
    tmp_path: Path,
    renew: str,
    promised: str,
    seed: int,
    *,
    declared: str = "",
    use: Use = OF_LEASES,
) -> hf.Run:
    """A run in which holders are stopped for longer than their lease, and renew afterwards."""
    (tmp_path / "regained.py").write_text(LOCK % (promised, renew) + declared)
    return hf.simulate(
        system=f"{tmp_path}/regained.py:Regained",
        workload="renewal",
        nemesis=f"pause:target=holder,every=2s,for={use.pause}",
        lease="500ms",
        time="20s",
        clients=use.clients,
        options=use.options,
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
    run = paused(tmp_path, SERVER, EXCLUSION, 3)
    assert "silent-reacquire" in kinds(run)
    assert run.verdicts["loss-notice"] == hf.Verdict.VIOLATED
    assert run.judgement["exit_code"] != 1


@pytest.mark.parametrize("renew", [CLIENT, SERVER, BY_LIBRARY], ids=["client", "server", "library"])
def test_one_that_renews_by_itself_is_found_where_its_service_has_leases(
    tmp_path: Path, renew: str
) -> None:
    run = paused(tmp_path, renew, RENEWED, 5, declared=RENEWS_ITSELF, use=BY_ITSELF)
    assert "silent-reacquire" in kinds(run) and run.judgement["exit_code"] == 1
    assert run.path is not None
    outcome = verify_run(run.path)
    assert not outcome.refused and not outcome.bare and "loss-notice" in outcome.whole
    assert not kinds(paused(tmp_path, renew, RENEWED, 5, declared=ENDLESS, use=BY_ITSELF))


def test_one_that_renews_by_itself_and_refuses_holds(tmp_path: Path) -> None:
    for seed in (4, 5):
        run = paused(tmp_path, RENEW, RENEWED, seed, declared=RENEWS_ITSELF, use=BY_ITSELF)
        assert run.verdicts["loss-notice"] == hf.Verdict.HOLDS and not kinds(run)
        seen = {one.row: one.count for one in run.opportunities["loss-notice"]["pause"]}
        assert seen[ROW] > 0, seed
        assert run.path is not None
        outcome = verify_run(run.path)
        assert outcome.refused == [] and outcome.unruled == () and outcome.opportunities


def test_one_that_refuses_holds_where_it_could_have_taken_the_lock_again(tmp_path: Path) -> None:
    for seed in (3, 4):
        run = paused(tmp_path, RENEW, NOTICE, seed)
        assert run.verdicts["loss-notice"] == hf.Verdict.HOLDS and not kinds(run)
        seen = {one.row: one.count for one in run.opportunities["loss-notice"]["pause"]}
        assert seen[ROW] > 0, seed


@pytest.mark.parametrize("renew", [RENEW, SERVER], ids=["refuses", "takes"])
def test_the_second_program_accepts_the_opportunity_and_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renew: str
) -> None:
    run = paused(tmp_path, renew, NOTICE, 4)
    assert run.path is not None
    kept = json.loads((run.path / "verdicts.json").read_text())
    every = [(f, dict(e)) for row in kept["verdicts"] for f, e in witnessed(row)]
    ((fault, entry),) = [(f, e) for f, e in every if e["row"] == ROW]
    places, outcome = asked_again(run.path, monkeypatch)
    assert outcome.refused == [] and outcome.unruled == ()
    assert outcome.opportunities == len(every)
    assert places.wrong(fault, entry) == ""
    roles = entry["witnesses"]
    assert set(roles) == {"hold", "other", "renewal"}
    others = {one["id"] for one in kept["faults"]} - {entry["fault"]}
    early = sorted(others)[0] if sorted(others)[0] < entry["fault"] else "f99"
    known = [w for _, e in every for w in e["witnesses"].values()]
    for wrong in (
        {**entry, "fault": early},
        {**entry, "witnesses": {**roles, "other": roles["hold"]}},
        {**entry, "witnesses": {**roles, "hold": roles["other"], "other": roles["hold"]}},
        {**entry, "witnesses": {**roles, "renewal": roles["hold"]}},
        {**entry, "witnesses": {name: roles[name] for name in ("hold", "renewal")}},
        *({**entry, "witnesses": {**roles, "renewal": w}} for w in known if w != roles["renewal"]),
        *({**entry, "witnesses": {**roles, "hold": w}} for w in known if w != roles["hold"]),
    ):
        assert places.wrong(fault, wrong), wrong
    for role, name in product(roles, ("t_inv_ns", "t_ret_ns", "process", "status", "token")):
        value = {**roles[role], name: "x" if name == "status" else roles[role][name] + 1}
        assert places.wrong(fault, {**entry, "witnesses": {**roles, role: value}}), (role, name)


def asked_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[WitnessCheck, Outcome]:
    """The verifier's own opportunities of a run, and what it said of all."""
    made: list[WitnessCheck] = []
    own = WitnessCheck.__init__

    def noted(self: WitnessCheck, *given: Any, **named: Any) -> None:
        own(self, *given, **named)
        made.append(self)

    monkeypatch.setattr(WitnessCheck, "__init__", noted)
    outcome = verify_run(path)
    return made[0], outcome
