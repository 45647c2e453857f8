"""Small histories whose verdicts are kept in `recorded_verdicts.txt`, and what is kept of them.

After a change that is meant, `python -m tests.checkers.recorded_verdicts` writes that file again.

They are variants of every violation that a rule is for, small histories at random, some of correct
services, and those that told mutants apart (`chosen_histories`).

One line per group of histories: how many of each verdict, and a digest per history of all that was
said of it: verdicts, findings, certificates, counts, evidence, and the verifier's answers, with
their reasons, to claims of which most are false.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from holdfast import catalogue
from holdfast.checkers.evidence.summary import evidence
from holdfast.checkers.facts import legal_orders
from holdfast.harness.core.case import Case
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict
from holdfast.harness.judging.certificates import certificate
from holdfast.harness.verification.derived import Run
from holdfast.harness.verification.verify import Verifier, verdict_on, verify
from tests.checkers.busy_histories import busy
from tests.checkers.certified import named, ordering, recorded, told
from tests.checkers.chosen_histories import chosen, history_of
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.world import Faults
from tests.checkers.small_histories import small
from tests.checkers.test_grid import claims, variants
from tests.checkers.test_near_misses import (
    claimed,
    forged,
    later,
    of_rules_drawn_from,
    of_rules_since,
    specimens,
)

RECORDED = Path(__file__).with_name("recorded_verdicts.txt")
CHECKERS = {prop: load(entry) for prop, entry in catalogue.CHECKERS.items()}
VARIANTS, CHANGES = 6, 5
"""Of each history with a violation, and how many changes one has at most."""
SMALL, BUSY, EACH = 15, 2, 12
"""Groups of small histories, of busy ones per property, and histories in each."""


def groups() -> dict[str, list[tuple[str, Case]]]:
    """Name of a group -> its histories, each with the property that claims to the verifier are
    about, or another word where none are made."""
    found = dict[str, list[tuple[str, Case]]]()

    def add(name: str, prop: str, cases: Iterable[Case]) -> None:
        found[name] = [(prop, one) for one in cases]

    violations = (*of_rules_drawn_from(), *specimens(), *of_rules_since())
    for n, (prop, one) in enumerate(violations):
        chance = random.Random(f"corpus {n} {prop}")
        add(f"{prop} {n}", prop, [one, *variants(one, chance, VARIANTS, CHANGES)])
    for n in range(SMALL):
        chance = random.Random(f"corpus {n}")
        add(f"small {n}", "", [later(small(chance)) for _ in range(EACH)])
    for prop in CHECKERS:
        for n in range(BUSY):
            chance = random.Random(f"corpus {prop} {n}")
            add(f"{prop} at random {n}", prop, [later(busy(chance)) for _ in range(EACH)])
    for service in SERVICES:
        worlds = [tell(service, f"corpus {n}", Faults(), 0) for n in range(3)]
        cases = [case_of(service, [one], Faults()) for one in worlds]
        add(f"correct {service.name}", "", cases)
    names = chosen()
    for n in range(0, len(names), EACH):
        found[f"chosen {n}"] = [history_of(name) for name in names[n : n + EACH]]
    return found


def said(one: Case, prop: str) -> tuple[Counter[str], str]:
    """How many of each verdict, and a digest of all that is said of a history of a group."""
    one = named(replace(one, memo={}))
    verdicts = {name: judge(one) for name, judge in CHECKERS.items()}
    parts = list[object]([plain(evidence(one))])
    for name, verdict in verdicts.items():
        parts += _said_of(one, name, verdict)
    if prop in verdicts:
        parts.append(_claims(one, verdicts[prop]))
    counts = Counter(str(verdict.verdict) for verdict in verdicts.values())
    return counts, _digest(parts).hex()[:8]


def said_of(one: Case, unit: str, prop: str) -> bytes:
    """A digest of what is said of one property; unit "": of the answers to claims about `prop`."""
    one = named(replace(one, memo={}))
    if not unit:
        return _digest(_claims(one, CHECKERS[prop](one)))
    return _digest(list(_said_of(one, unit, CHECKERS[unit](one))))


def _said_of(one: Case, prop: str, verdict: PropertyVerdict) -> Iterator[object]:
    """An order is derived of what is violated, too."""
    by = ordering(one, prop)
    order = by(one) if by is not None else None
    yield _judged(verdict) | {"order": order if verdict.verdict is Verdict.HOLDS else None}
    yield [certificate(one, each) for each in verdict.findings]
    if by is not None:
        yield _order(one, recorded(one), verdict, order)


def _judged(verdict: PropertyVerdict) -> dict[str, Any]:
    """A verdict without the changes of a plan, which say what to run next and not what holds; with
    opportunities where the table of them has a row."""
    table: dict[str, Any] = msgspec.to_builtins(verdict, enc_hook=_plain)
    del table["changes"]
    for under in table["under"].values():
        if not under["seen"]:
            del under["seen"]
        for seen in under.get("seen", {}).values():
            del seen["change"]
    return table


def _digest(parts: list[Any]) -> bytes:
    return hashlib.sha256(msgspec.json.encode(parts, enc_hook=_plain)).digest()


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else list(value)


def _order(
    one: Case, run: Run, verdict: PropertyVerdict, order: legal_orders.Order
) -> list[object]:
    """What the verifier says of the order of a property, as if it held, and of it with two places
    exchanged. Where there is no order: of that of the resource's log."""
    order = order or legal_orders.of_requests(one)
    table = told(one, replace(verdict, verdict=Verdict.HOLDS, findings=()), order)
    held = table["verdicts"][0]["certificate"]
    if held is None:
        return []
    orders, count = table["orders"], sum(number for _, number in held["locks"])
    answers: list[object] = [list(verify(run, table, orders))]
    for at in range(min(count - 1, 2)):
        answers.append(_exchanged(run, table, bytearray(orders), at, count))
    return answers


def _exchanged(
    run: Run, table: Mapping[str, Any], orders: bytearray, at: int, count: int
) -> object:
    for begin in (4 * at, 4 * (count + at)):  # the places' writers, then their rows
        pair = orders[begin : begin + 8]
        orders[begin : begin + 8] = pair[4:] + pair[:4]
    row = table["verdicts"][0]
    held = {**row["certificate"], "sha256": hashlib.sha256(orders).hexdigest()}
    changed = {"verdicts": [{**row, "certificate": held}]}
    return list(verify(run, changed, bytes(orders)))


def _claims(one: Case, verdict: PropertyVerdict) -> list[str]:
    """The verifier's answers to its own findings by other rows, and to claims by any rows."""
    chance, verifier = random.Random(verdict.property), Verifier(recorded(one))
    made = list(claims(verdict.property, one, verdict.findings, chance))
    made += [forged(one, each, chance) for each in verdict.findings if each.proof for _ in "123"]
    return [_answer(one, verifier, each) for each in made]


def _answer(one: Case, verifier: Verifier, claim: Finding) -> str:
    try:
        return verdict_on(claimed(one, verifier, claim), verifier)
    except (ArithmeticError, KeyError, ValueError) as error:
        return repr(error)


def line(name: str, histories: list[tuple[str, Case]]) -> str:
    """The line of a group."""
    counts, digests = Counter[str](), list[str]()
    for prop, one in histories:
        more, digest = said(one, prop)
        counts += more
        digests.append(digest)
    verdicts = " ".join(f"{counts[each]} {each}" for each in ("VIOLATED", "HOLDS", "UNKNOWN"))
    return f"{name}: {verdicts}: {' '.join(digests)}"


def lines() -> Iterator[str]:
    for name, histories in groups().items():
        yield line(name, histories)


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{each}\n" for each in lines()))
