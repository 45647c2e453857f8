"""The verifier accepts what the rows bear out, and refuses whatever differs from it in anything."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.harness.core import operations
from holdfast.harness.core.loading import load
from holdfast.harness.verification import recorded, rules
from holdfast.harness.verification.verify import Outcome
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case

NOBODY = {"renew_proves": False, "release_proves": False, "release_once": False}
SPECIMENS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8 0n? 0n+", {}),
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8", {}),
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8 0r? 0r+", {"bound": "none", **NOBODY}),
    ("mutual-exclusion", "0a? 1a? 1a+8 0n? 0n+7 1n? 1n+ 0n? 0n+7", {}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+5", {}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7", {}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7", {"tokens_unique": False}),
    ("token-order", "0a? 1a? 1a+8 1r? 1r+ 0a+7 0n? 0n+", {}),
    ("no-stale-write", "0a? 0a+1 0w? 1a? 1a+2 1w? 1S+ 1w+ 0S+ 0w+", {}),
    ("no-stale-write", "0a? 1a? 0a+1 1a+2 0w? 1w? 1S+ 1w+ 0S+ 0w+", {}),
)
"""property, history, what the promises differ in"""


def judged(prop: str, text: str, promises: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    given = case(text, promises=promises, asked=(prop,))
    return given, told(given, load(catalogue.CHECKERS[prop])(given))


def findings(verdicts: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for row in verdicts["verdicts"] for finding in row["findings"]]


def test_the_layout_of_a_row_is_written_down_twice_and_is_the_same() -> None:
    assert recorded.FORMAT == operations.ROW_FORMAT
    assert struct.calcsize(recorded.FORMAT) == recorded.ROW == operations.ROW_BYTES
    sizes = {"q": 8, "I": 4, "B": 1}
    places = {name: sizes[kind] * first for name, (kind, first) in recorded.FIELDS.items()}
    at = 0
    for name, kind in operations.ROW_FIELDS:
        assert places.pop(name) == at, name
        at += int(kind[-1])
    assert not places
    assert {op.name.lower().replace("_", "-"): int(op) for op in operations.Op} == rules.OPS


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: f"{one[0]}: {one[1]}")
def test_what_the_rows_bear_out_is_accepted(specimen: tuple[str, str, dict[str, Any]]) -> None:
    given, verdicts = judged(*specimen)
    assert findings(verdicts)
    assert verified(given, verdicts) == Outcome(len(findings(verdicts)), [], whole=[specimen[0]])


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
    specimens = [judged(*specimen) for specimen in SPECIMENS]
    while refused < count:
        given, verdicts = chance.choice(specimens)
        verdicts = deepcopy(verdicts)
        finding = chance.choice(findings(verdicts))
        before = json.dumps(finding["certificate"], sort_keys=True)
        finding["certificate"] = mutated(finding["certificate"], chance)
        if json.dumps(finding["certificate"], sort_keys=True) == before:
            continue
        outcome = verified(given, verdicts)
        assert len(outcome.refused) == 1, (before, finding)
        refused += 1
    return refused


def test_a_certificate_that_differs_in_anything_is_refused() -> None:
    assert refuses(2000, seed=1) == 2000
