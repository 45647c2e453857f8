"""The verifier accepts what the rows bear out, and refuses whatever differs from it in anything."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import permutations
from typing import Any

import pytest
from benchmarks import verifying

from holdfast import catalogue
from holdfast.checkers.facts import legal_orders
from holdfast.harness.core import operations
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verification import recorded_rows as rows_of
from holdfast.harness.verification import rule, rules
from holdfast.harness.verification.verify import (
    Outcome,
    Verifier,
    _times,
    run_of,
    verdict_on,
    verify,
)
from tests.checkers.certified import recorded, told, verified, writers
from tests.checkers.examples import Specimen
from tests.checkers.shorthand import case
from tests.harness.verification.specimens import SPECIMENS
from tests.house.test_house import ROOT, imports


def findings(verdicts: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for row in verdicts["verdicts"] for finding in row["findings"]]


def test_the_layout_of_a_row_is_written_down_twice_and_is_the_same() -> None:
    assert rows_of.FORMAT == operations.ROW_FORMAT
    assert struct.calcsize(rows_of.FORMAT) == rows_of.ROW == operations.ROW_BYTES
    sizes = {"q": 8, "I": 4, "B": 1}
    places = {name: sizes[kind] * first for name, (kind, first) in rows_of.FIELDS.items()}
    at = 0
    for name, kind in operations.ROW_FIELDS:
        assert places.pop(name) == at, name
        at += int(kind[-1])
    assert not places
    assert {op.name.lower().replace("_", "-"): int(op) for op in operations.Op} == rule.OPS


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: f"{one.rule}: {one.text:.60}")
def test_what_the_rows_bear_out_is_accepted(specimen: Specimen) -> None:
    given, verdicts = specimen.judged()
    used = [finding["certificate"]["rule"] for finding in findings(verdicts)]
    assert specimen.rule in used
    assert verified(given, verdicts) == Outcome(len(used), [], whole=[specimen.prop])


def test_every_rule_has_a_history_that_it_proves_something_of() -> None:
    assert {specimen.rule for specimen in SPECIMENS} == set(rules.RULES)


def changed(value: Any, chance: random.Random) -> Any:
    """Another value of the same or another kind."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return 7
    if isinstance(value, str):
        return chance.choice((value + "x", "", value.upper(), None, 1))
    near = value + chance.choice((-1, 1, 1 << 40, -value or 5, -2 * value or -1))
    return chance.choice((near, near, near, float(value), str(value), value == 1))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*path, key)
            yield from leaves(value[key], (*path, key))


def mutated(certificate: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """One entry changed, dropped, added or swapped with another of its kind."""
    found = deepcopy(certificate)
    path = chance.choice(list(leaves(found)))
    inside: Any = found
    for key in path[:-1]:
        inside = inside[key]
    what = chance.choice(("change", "drop", "swap", "rule", "add"))
    if what == "rule":
        found["rule"] = chance.choice([*rules.RULES, "", "no such rule"])
    elif what == "drop":
        del inside[path[-1]]
    elif what == "add" and isinstance(inside, dict):
        inside[f"{path[-1]}2"] = deepcopy(inside[path[-1]])
    elif what == "add":
        inside.append(deepcopy(inside[path[-1]]))
    elif what == "swap":
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        other = chance.choice(keys)
        inside[path[-1]], inside[other] = inside[other], inside[path[-1]]
    elif not isinstance(inside[path[-1]], dict | list):
        inside[path[-1]] = changed(inside[path[-1]], chance)
    return found


def refuses(count: int, seed: int) -> int:
    """How many certificates that differ from a true one were refused; all have to be."""
    chance, refused = random.Random(seed), 0
    specimens = []
    for given, verdicts in (specimen.judged() for specimen in SPECIMENS):
        for finding in findings(verdicts):
            before = json.dumps(finding["certificate"], sort_keys=True)
            specimens.append((Verifier(recorded(given)), finding, before))
    while refused < count:
        verifier, finding, before = specimens[refused % len(specimens)]
        changed = mutated(finding["certificate"], chance)
        if json.dumps(changed, sort_keys=True) == before:
            continue
        told = verdict_on({**finding, "certificate": changed}, verifier)
        assert told, (before, changed)
        refused += 1
    return refused


def test_a_certificate_that_differs_in_anything_is_refused() -> None:
    assert refuses(2000, seed=1) == 2000


@pytest.mark.power
def test_a_million_certificates_that_differ_in_anything_are_refused() -> None:
    assert refuses(1_000_000, seed=2) == 1_000_000


HELD = "0a? 0a+1 1a? 0n? 0n+1 0r? 0r+ 1a+2 1n? 1n+2 1r? 1r+ 0a? 0a+3 0r? 0r+"


def held(prop: str, order: Any) -> tuple[Any, dict[str, Any]]:
    """A history in which a property holds, and the verdict with this order, exercised or not."""
    given = case(HELD, asked=(prop,))
    verdict = load(catalogue.CHECKERS[prop])(given)
    assert not verdict.findings
    found = replace(verdict, verdict=Verdict.HOLDS)
    return given, told(given, found, order(given))


@pytest.mark.parametrize(
    ("prop", "order"),
    [("mutual-exclusion", legal_orders.of_grants), ("token-order", legal_orders.of_tokens)],
)
def test_an_order_is_accepted_and_no_other_permutation_of_it(prop: str, order: Any) -> None:
    given, verdicts = held(prop, order)
    assert verified(given, verdicts) == Outcome(1, [], whole=[prop])
    ((name, rows),) = order(given)
    for other in permutations(rows):
        _, changed = held(prop, lambda _, rows=other: ((name, tuple(rows)),))
        assert bool(verified(given, changed).refused) == (other != rows), other


@pytest.mark.parametrize(
    "rows", [lambda r: r[:-1], lambda r: (*r, r[-1]), lambda r: (*r[:-1], r[0]), lambda r: ()]
)
def test_an_order_has_every_grant_once(rows: Any) -> None:
    given, _ = held("mutual-exclusion", legal_orders.of_grants)
    ((name, whole),) = legal_orders.of_grants(given) or ()
    _, changed = held("mutual-exclusion", lambda _: ((name, tuple(rows(whole))),))
    assert len(verified(given, changed).refused) == 1


def test_whatever_differs_from_an_order_that_was_stored_is_refused() -> None:
    chance = random.Random(3)
    given, verdicts = held("mutual-exclusion", legal_orders.of_grants)
    before = json.dumps(verdicts["verdicts"][0]["certificate"], sort_keys=True)
    for _ in range(500):
        changed = deepcopy(verdicts)
        (row,) = changed["verdicts"]
        row["certificate"] = mutated(row["certificate"], chance)
        if json.dumps(row["certificate"], sort_keys=True) != before:
            assert len(verified(given, changed).refused) == 1, row
    for at in range(len(verdicts["orders"])):
        data = bytearray(verdicts["orders"])
        data[at] ^= 1
        assert verified(given, {**verdicts, "orders": bytes(data)}).refused


def test_what_a_verdict_leans_on_is_counted_again() -> None:
    given, verdicts = held("mutual-exclusion", legal_orders.of_grants)
    for name in ("acquires", "grants"):
        changed = deepcopy(verdicts)
        changed["verdicts"][0]["exercised"][name] += 1
        assert "were recorded" in verified(given, changed).refused[0]


def test_every_kind_of_finding_has_a_rule() -> None:
    kinds = set()
    for path in (ROOT / "checkers" / "properties").glob("*.py"):
        kinds |= set(re.findall(r'\bkind="([a-z-]+)",\n', path.read_text()))
    kinds |= {"double-grant", "broken-lease", "double-holder", "over-admission"}
    kinds |= {"foreign-release", "foreign-renewal"}
    assert kinds == {kind for rule in rules.RULES.values() for kind in rule.kinds}


def test_a_finding_without_a_certificate_is_counted_and_no_whole_property_is_claimed() -> None:
    given, verdicts = SPECIMENS[0].judged()
    for finding in findings(verdicts):
        finding["certificate"] = None
    assert verified(given, verdicts) == Outcome(0, [], bare=1, whole=[])


def test_the_verifier_imports_nothing_that_the_checkers_derive_by() -> None:
    core = {"holdfast.harness.core"}
    allowed = {
        "verification": core
        | {f"holdfast.harness.{one}" for one in ("verification", "runs", "properties")},
        # Words alone: what a property is called, not how it is judged.
        "properties": core,
    }
    for folder, may in allowed.items():
        for path in (ROOT / "harness" / folder).rglob("*.py"):
            for name in imports(path):
                inside = name.split(".")[0] == "holdfast"
                assert (".".join(name.split(".")[:3]) in may) == inside, (path, name)
            assert inside or name.split(".")[0] in sys.stdlib_module_names, (path, name)
            assert name != "holdfast.harness.core.operations", path


def test_a_row_that_was_never_whole_says_nothing() -> None:
    given, verdicts = SPECIMENS[0].judged()
    junk = bytes((255,)) * 91 + b"\0" + bytes((255,)) * 4
    torn = [w._replace(rows=bytes(w.rows) + junk) for w in writers(given)]
    rows = rows_of.Rows(torn)
    assert (rows.f[-1], rows.t_inv[-1], rows.key[-1]) == (0, 0, 0)
    plan = {"lease_ns": given.lease_ns, "resource": "fenced"}
    run = run_of(rows, {"promises": asdict(given.promises), "plan": plan}, (), ())
    assert verify(run, verdicts).accepted == 1


@pytest.mark.parametrize("steps", [(Op.RENEW, Op.RELEASE), (Op.WRITE, Op.RELEASE)])
def test_the_benchmark_verifies_what_it_times(steps: tuple[Op, ...]) -> None:
    orders, _ = verifying.measure(4_000, *steps)
    assert orders == (6 if Op.WRITE in steps else 2)


def test_a_writer_without_rows_takes_no_row_of_another() -> None:
    given, verdicts = SPECIMENS[0].judged()
    every = [
        one for w in writers(given) for one in (w, w._replace(name=f"{w.name}.1", rows=NOTHING))
    ]
    rows = rows_of.Rows(every)
    assert [rows.named(rows.place("c0", n)) for n in range(2)] == [("c0", 0), ("c0", 1)]
    plan = {"lease_ns": given.lease_ns, "resource": "fenced"}
    run = run_of(rows, {"promises": asdict(given.promises), "plan": plan}, (), ())
    assert verify(run, verdicts).accepted == 1


NOTHING = b""


@pytest.mark.parametrize(
    ("told", "times"),
    [([1, 2], (1, 2)), ([1], ()), ([1, 2, 3], ()), ([1, "2"], ()), ([1, True], ()), (None, ()),
     (3, ()), ("ab", ()), ({"a": 1}, ())],
)  # fmt: skip
def test_times_of_a_fault_are_two_numbers_or_none(told: Any, times: tuple[int, ...]) -> None:
    assert _times({"cut_ns": told}, "cut_ns") == times
    assert _times({}, "cut_ns") == ()
