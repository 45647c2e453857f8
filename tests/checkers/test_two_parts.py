"""Two parts of a run that have nothing in common are judged together as each is judged alone.

A history with a violation, and a neighbour of it by other clients on other locks, are put into one
run: the findings are those of both, with the same witnesses, numbers and sentences; what was
exercised is the sum, or the larger of the two. So no checker stops after the first lock, the first
wait or the first violation, prefers the wrong one of several, or takes row 0 for no row.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Finding, PropertyVerdict
from tests.checkers.certified import told, verified
from tests.checkers.neighbours import SERVED, left_out, moved, renamed, unanswered
from tests.checkers.small_histories import small
from tests.checkers.test_near_misses import compare, later, of_every_rule, specimens

CHECKERS = {prop: load(entry) for prop, entry in catalogue.CHECKERS.items()}
MORE = 20
"""What is added to the number of a client of the other part."""
LARGEST = (
    "overtakes of one wait",
    "grants beyond a queue",
    "slowest grant notice ms",
    "slowest notice ms",
    "mutual waits",
    "power losses of a majority",
    "operations on servers",
)
"""Counts that are the largest of their kind, or of what strikes both parts."""


def other_name(text: str) -> str:
    """The same text about the other part: its locks and clients have other names."""
    if found := re.match(r"process (\d+), acquire", text):
        return text.replace(found[1], str(int(found[1]) + MORE), 1)
    return f"/o{text[1:]}" if text.startswith("/") else f"o{text}" if text else text


def other_node(name: str) -> str:
    """A client of the other part; a server is the same."""
    return f"c{int(name[1:]) + MORE}" if re.fullmatch(r"c\d+", name) else name


def other_writer(name: str) -> str:
    """A writer of the other part: of a client, or of its own resource."""
    return other_node(name) if other_node(name) != name else f"other {name}"


def renumbered(near: Case, by_ns: int) -> Any:
    """The rows of the other part, so much later, and its strings after those of the first."""
    rows, count = near.history.rows.copy(), len(near.history.strings)
    for column in ("t_inv", "t_ret"):
        rows[column][rows[column] > 0] += by_ns
    client = ~np.isin(rows["f"], SERVED)
    rows["process"][client] += MORE
    rows["attempt"][rows["attempt"] > 0] += MORE << 32
    rows["op"][~client] += MORE << 32
    rows["key"][rows["key"] > 0] += count
    rows["err"][rows["err"] > 0] += count
    rows["res"][(rows["f"] == Op.LOST) & (rows["res"] > 0)] += count
    rows["writer"] += len(near.history.writers)
    return rows


class Both:
    """A case and a neighbour of it in one run, and either part alone in the same run."""

    def __init__(self, one: Case, near: Case, by_ns: int) -> None:
        history = near.history
        rows = np.concatenate((one.history.rows, renumbered(near, by_ns)))
        self.first = np.arange(len(rows)) < len(one.history.rows)
        order = np.lexsort((rows["row"], rows["writer"], rows["t_inv"]))
        self.first, rows = self.first[order], rows[order]
        last = int(max(rows["t_inv"].max(), rows["t_ret"].max(), one.stop_ns))
        nodes = {process + MORE: other_node(node) for process, node in near.nodes.items()}
        windows = [
            replace(window, nodes=(*window.nodes, *map(other_node, window.nodes)))
            for window in one.windows
        ]
        self.whole = replace(
            one,
            history=replace(
                one.history,
                rows=rows,
                strings=[*one.history.strings, *map(other_name, history.strings)],
                writers=(*one.history.writers, *map(other_writer, history.writers)),
            ),
            nodes={**one.nodes, **nodes},
            windows=tuple(windows),
            start_ns=min(one.start_ns, int(rows["t_inv"].min())),
            stop_ns=last,
            end_ns=max(last, one.end_ns + max(by_ns, 0)),
            memo={},
        )

    def alone(self, first: bool) -> Case:
        rows = self.whole.history.rows[self.first == first]
        return replace(self.whole, history=replace(self.whole.history, rows=rows), memo={})


def findings(case: Case, verdict: PropertyVerdict) -> Counter[Any]:
    """What was found, by writers and rows and not by places in the history."""

    def named(row: int) -> tuple[int, int]:
        return int(case.history.rows["writer"][row]), int(case.history.rows["row"][row])

    def one(f: Finding) -> Any:
        proof = f.proof and (
            f.proof.rule,
            tuple((role, named(row)) for role, row in sorted(f.proof.roles.items())),
            tuple(sorted(f.proof.values.items())),
        )
        return f.kind, f.lock, f.t_ns, f.sentence, tuple(map(named, f.witnesses)), proof

    return Counter(one(f) for f in (*verdict.findings, *verdict.notes))


def pairs(chance: random.Random) -> Iterator[tuple[str, Both]]:
    every = [*of_every_rule(), *specimens()] * 2
    every += [("", later(small(chance))) for _ in range(100)]
    for prop, one in every:
        near = None
        while near is None or not len(near.history.rows):
            near = chance.choice((moved, moved, renamed, unanswered, left_out))(one, chance)
        yield prop, Both(one, near, chance.choice((0, 1, -1, 60 * SECOND, -60 * SECOND)))


@pytest.mark.slow
def test_two_parts_of_a_run_are_judged_together_as_each_alone() -> None:
    seen = Counter[str]()
    for prop, both in pairs(random.Random("two parts")):
        parts = both.alone(True), both.alone(False)
        for other in CHECKERS:
            together = CHECKERS[other](both.whole)
            apart = [CHECKERS[other](part) for part in parts]
            expected = findings(parts[0], apart[0]) + findings(parts[1], apart[1])
            assert findings(both.whole, together) == expected, (prop, other)
            if together.findings:
                outcome = verified(both.whole, told(both.whole, together))
                assert not outcome.refused, outcome.refused
            seen[other] += len(together.findings)
            for name, count in together.exercised.items():
                each = [verdict.exercised.get(name, 0) for verdict in apart]
                assert count == (max(each) if name in LARGEST else sum(each)), (other, name)
    assert {*seen} == {*CHECKERS}


def test_of_two_parts_as_of_one_checkers_and_verifier_say_the_same() -> None:
    chance, every = random.Random("verified parts"), list[tuple[str, Case]]()
    for prop, both in pairs(chance):
        # With more clients a wait may be overtaken more often. Of two paths that exclude each
        # other, either may be the one that a finding names.
        one = both.whole
        if not prop or one.promises.subtrees or chance.random() < 0.75:
            continue
        if CHECKERS[prop](one).findings:
            every.append((prop, one))
    outcome = compare(iter(every), 3, "two parts")
    assert min(outcome["accepted"], outcome["refused"]) > 100
