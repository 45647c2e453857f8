"""What it costs to look for opportunities: by calls, which no other work on the machine changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.checkers.opportunities.row import FaultClass, OpportunityRow
from holdfast.checkers.opportunities.table import every_row
from holdfast.harness.core.case import Case, Window
from tests.checkers.faults import window
from tests.checkers.test_growth import MOST, SHAPES, SMALL, TIMES, calls

KINDS = {FaultClass.CRASH: "kill", FaultClass.STOP: "pause", FaultClass.CUT: "partition"}
FEW = 200
"""So many calls are looked over at first: what is done once, such as sorting by columns."""
HOSTILE = ("all_at_once", "overtaken", "lost", "refused", "renewed")
PAIRS = [(row.id, shape) for row in every_row() for shape in HOSTILE]


def struck(case: Case, row: OpportunityRow, faults: int) -> tuple[Case, list[Window]]:
    """The case with so many faults of the leader, of a kind that the row is about, all over it."""
    kind = KINDS.get(row.faults, "kill")
    step_s = (case.end_ns - case.start_ns) / 1e9 / (faults + 1)
    times = [case.start_ns / 1e9 + n * step_s for n in range(1, faults + 1)]
    every = [replace(window(kind, "n1", t, t + step_s / 3), leader="n1") for t in times]
    read = {"offset_ns": {"n1": 10**9}}
    every = [replace(one, id=f"f{n}", evidence=read) for n, one in enumerate(every)]
    options = {**case.options, "servers": "3"}
    return replace(case, windows=tuple(every), options=options, memo={}), every


def cost(row: OpportunityRow, case: Case, faults: int) -> int:
    one, every = struck(case, row, faults)
    return calls(lambda run: row.look(run, every), one)


@pytest.mark.parametrize(("name", "shape"), PAIRS)
def test_a_row_calls_no_more_than_in_proportion_to_the_history(name: str, shape: str) -> None:
    row = next(one for one in every_row() if one.id == name)
    cost(row, SHAPES[shape](4), 3)
    few, many = (cost(row, SHAPES[shape](n), 3) for n in (SMALL, TIMES * SMALL))
    assert many <= MOST * few + FEW, f"{few} calls for {SMALL}, {many} for {TIMES * SMALL}"


@pytest.mark.parametrize("row", every_row(), ids=lambda row: row.id)
def test_a_row_calls_no_more_than_in_proportion_to_the_faults(row: OpportunityRow) -> None:
    shape = SHAPES["in_turn"]
    few, many = (cost(row, shape(SMALL), faults) for faults in (5, 5 * TIMES))
    assert many <= MOST * few + FEW, f"{few} calls for 5 faults, {many} for {5 * TIMES}"
