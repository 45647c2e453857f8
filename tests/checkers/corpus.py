"""Small histories whose verdicts are kept in `recorded_verdicts.txt`, and what is kept of them.

    python -m tests.checkers.corpus    writes that file anew: after a change that is meant

One line per group of histories: how many of each verdict, and a digest per history of all that was
said of it: verdicts, findings, certificates, counts, evidence, and the verifier's answers, with
their reasons, to claims of which most are false.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from holdfast import catalogue
from holdfast.checkers.evidence.summary import evidence
from holdfast.harness.core.case import Case
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Finding, PropertyVerdict
from holdfast.harness.judging.certificates import certificate
from holdfast.harness.verification.verify import Verifier, verdict_on, verify
from tests.checkers.certified import named, recorded, told
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.world import Faults
from tests.checkers.small_histories import small
from tests.checkers.test_grid import claims, variants
from tests.checkers.test_near_misses import claimed, forged, later, of_every_rule, specimens

RECORDED = Path(__file__).with_name("recorded_verdicts.txt")
CHECKERS = {prop: load(entry) for prop, entry in catalogue.CHECKERS.items()}
VARIANTS, CHANGES = 12, 5
"""Of each history with a violation, and how many changes one has at most."""
SMALL, EACH = 45, 20
"""Groups of small histories, and histories in each."""


def groups() -> dict[str, list[Case]]:
    """Name of a group -> its histories."""
    found = dict[str, list[Case]]()
    for n, (prop, one) in enumerate((*of_every_rule(), *specimens())):
        chance = random.Random(f"corpus {n} {prop}")
        found[f"{prop} {n}"] = [one, *variants(one, chance, VARIANTS, CHANGES)]
    for n in range(SMALL):
        chance = random.Random(f"corpus {n}")
        found[f"small {n}"] = [later(small(chance)) for _ in range(EACH)]
    for service in SERVICES:
        worlds = [tell(service, f"corpus {n}", Faults(), 0) for n in range(3)]
        found[f"correct {service.name}"] = [case_of(service, [one], Faults()) for one in worlds]
    return found


def said(one: Case, prop: str) -> tuple[Counter[str], str]:
    """How many of each verdict, and a digest of all that is said of a history of a group."""
    one = named(replace(one, memo={}))
    verdicts = {name: judge(one) for name, judge in CHECKERS.items()}
    parts: list[object] = [plain(evidence(one))]
    for verdict in verdicts.values():
        row = asdict(verdict)
        row["certificates"] = [certificate(one, each) for each in verdict.findings]
        parts += [row, _order(one, verdict)]
    own = verdicts.get(prop.split(" ")[0])
    if own is not None:
        parts.append(_claims(one, own))
    counts = Counter(str(verdict.verdict) for verdict in verdicts.values())
    return counts, hashlib.sha256(json.dumps(parts, default=_plain).encode()).hexdigest()[:8]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value)


def _order(one: Case, verdict: PropertyVerdict) -> list[object]:
    """What the verifier says of the order of a property that holds, and of it with two places
    exchanged."""
    table = told(one, verdict)
    held = table["verdicts"][0]["certificate"]
    if held is None:
        return []
    orders, count = table["orders"], sum(number for _, number in held["locks"])
    answers: list[object] = [list(verify(recorded(one), table, orders))]
    for at in range(min(count - 1, 6)):
        answers.append(_exchanged(one, table, bytearray(orders), at, count))
    return answers


def _exchanged(
    one: Case, table: Mapping[str, Any], orders: bytearray, at: int, count: int
) -> object:
    for begin in (4 * at, 4 * (count + at)):  # the places' writers, then their rows
        pair = orders[begin : begin + 8]
        orders[begin : begin + 8] = pair[4:] + pair[:4]
    row = table["verdicts"][0]
    held = {**row["certificate"], "sha256": hashlib.sha256(orders).hexdigest()}
    changed = {"verdicts": [{**row, "certificate": held}]}
    return list(verify(recorded(one), changed, bytes(orders)))


def _claims(one: Case, verdict: PropertyVerdict) -> list[str]:
    """The verifier's answers to its own findings by other rows, and to claims by any rows."""
    chance, verifier = random.Random(verdict.property), Verifier(recorded(one))
    made = [each for _ in "12" for each in claims(verdict.property, one, verdict.findings, chance)]
    made += [forged(one, each, chance) for each in verdict.findings if each.proof for _ in "123"]
    return [_answer(one, verifier, each) for each in made]


def _answer(one: Case, verifier: Verifier, claim: Finding) -> str:
    try:
        return verdict_on(claimed(one, verifier, claim), verifier)
    except (ArithmeticError, KeyError, ValueError) as error:
        return repr(error)


def line(name: str, cases: list[Case]) -> str:
    """The line of a group."""
    counts, digests = Counter[str](), list[str]()
    for one in cases:
        more, digest = said(one, name)
        counts += more
        digests.append(digest)
    verdicts = " ".join(f"{counts[each]} {each}" for each in ("VIOLATED", "HOLDS", "UNKNOWN"))
    return f"{name}: {verdicts}: {' '.join(digests)}"


def lines() -> Iterator[str]:
    for name, cases in groups().items():
        yield line(name, cases)


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{each}\n" for each in lines()))
