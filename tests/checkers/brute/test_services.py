"""No correct service is ever accused, and a service with a bug in it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.checkers.holds.derive import attempts
from holdfast.checkers.properties import (
    bounded_bypass,
    bounded_wait,
    loss_notice,
    mutual_exclusion,
    ownership,
    token_order,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.brute.clients import crowd_of, run
from tests.checkers.brute.service import Kind
from tests.draws import Draws

CHECKERS: dict[str, Callable[[Case], PropertyVerdict]] = {
    "mutual-exclusion": mutual_exclusion.check,
    "token-order": token_order.check,
    "ownership": ownership.check,
    "loss-notice": loss_notice.check,
}
ORDER: dict[str, Callable[[Case], PropertyVerdict]] = {
    "bounded-bypass": bounded_bypass.check,
    "bounded-wait": bounded_wait.check,
}
"""Judged where the service has a queue."""


def checkers(kind: Kind) -> dict[str, Callable[[Case], PropertyVerdict]]:
    return CHECKERS | ORDER if kind.order == "fifo" else CHECKERS


LEASE = Kind(bound="lease")
KINDS = {
    "leases": LEASE,
    "leases whose clock runs ahead": replace(LEASE, slip=3),
    "leases without tokens": replace(LEASE, tokens=False),
    "leases that run while their owner waits": replace(LEASE, lease_from="asking"),
    "leases that a renewal takes anew": replace(LEASE, renew="upsert"),
    "leases whose releases say little": replace(LEASE, release="always"),
    "leases that are polled for": replace(LEASE, order="racing"),
    "leases polled for that say little": replace(LEASE, order="racing", release="always"),
    "leases that say little": replace(LEASE, release="always", renew="upsert", tokens=False),
    "sessions": Kind(bound="session", slip=1),
    "connections": Kind(bound="connection"),
    "connections without tokens": Kind(bound="connection", tokens=False, release="always"),
    "only a release frees": Kind(bound="none"),
    "sessions polled for": Kind(bound="session", order="racing"),
    "only a release frees, and says little": Kind(bound="none", release="always", tokens=False),
}
RENEWED = replace(LEASE, renewed=True, renew="upsert")
MUTANTS = {
    "double": (LEASE, "mutual-exclusion"),
    "early": (LEASE, "mutual-exclusion"),
    "reset": (LEASE, "token-order"),
    "revive": (LEASE, "ownership"),
    "anyone": (LEASE, "ownership"),
    "silent": (LEASE, "loss-notice"),
    "silent, renewed": (RENEWED, "loss-notice"),
}
ANEW = Kind(bound="lease", renew="upsert", fault="silent")
"""Its renewals take any free lock again, and nobody is notified."""


def accusations(kind: Kind, seeds: range) -> Counter[str]:
    """How many runs each property is accused in."""
    found: Counter[str] = Counter()
    for seed in seeds:
        told = run(seed, kind)
        for name, check in CHECKERS.items():
            verdict = check(told)
            found[name] += bool(verdict.findings)
            found["stale beliefs"] += bool(verdict.notes)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_correct_service_is_never_accused(name: str, draws: Draws) -> None:
    for seed in range(draws(100)):
        told = run(seed, KINDS[name])
        for prop, check in checkers(KINDS[name]).items():
            findings = check(told).findings
            assert not findings, f"seed {seed}: {prop}: {findings[0]}"


@pytest.mark.parametrize("kind", [RENEWED, replace(RENEWED, tokens=False, slip=3)])
def test_a_correct_library_that_renews_is_never_accused_of_a_missing_notice(
    kind: Kind, draws: Draws
) -> None:
    seen = Counter[bool]()
    for seed in range(draws(1_000)):
        verdict = loss_notice.check(run(seed, kind))
        assert not verdict.findings, f"seed {seed}: {verdict.findings[0]}"
        seen[verdict.exercised["holds lost to another"] > 0] += 1
    assert len(seen) == 2, seen


@pytest.mark.power
@pytest.mark.parametrize("name", KINDS)
def test_power_a_correct_service_is_never_accused(name: str) -> None:
    for seed in range(1_000, 11_000):
        told = run(seed, KINDS[name])
        for prop, check in checkers(KINDS[name]).items():
            findings = check(told).findings
            assert not findings, f"seed {seed}: {prop}: {findings[0]}"


def test_the_correct_services_give_the_checkers_something_to_judge() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        told = run(seed, LEASE)
        seen["holds"] += mutual_exclusion.check(told).verdict is Verdict.HOLDS
        for attempt in attempts(told):
            seen["unknown"] += attempt.status is Status.INFO
            seen["contracts"] += attempt.contract is not None
            seen[attempt.end_why] += 1
    assert seen["holds"] >= 36, seen
    assert min(seen[why] for why in ("release", "lost", "killed", "force-unlock")) >= 10, seen
    assert min(seen["unknown"], seen["contracts"]) >= 200, seen


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_mutant_is_caught(fault: str) -> None:
    kind, prop = MUTANTS[fault]
    found = accusations(replace(kind, fault=fault.partition(",")[0]), range(60))
    assert found[prop] >= 6, found


def test_who_is_said_to_have_regained_a_lost_lock_did(draws: Draws) -> None:
    """Of services that renew whatever is free; without tokens too, and where a release says little:
    the rows alone decide, and never against what the service did."""
    seen: Counter[str] = Counter()
    says_little = replace(ANEW, release="always", slip=3)
    for kind in (ANEW, replace(ANEW, tokens=False), says_little, replace(ANEW, renewed=True)):
        for seed in range(draws(1_500)):
            crowd = crowd_of(seed, kind)
            told = crowd.case()
            for finding in loss_notice.check(told).findings:
                seen[finding.kind] += 1
                if finding.kind == "silent-reacquire":
                    attempt = int(told.history.rows["attempt"][finding.witnesses[0]])
                    assert attempt in crowd.service.regained, f"seed {seed}: {finding.sentence}"
    assert min(seen["silent-reacquire"], seen["lost-without-notice"]) >= 10, seen
