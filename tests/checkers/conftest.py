"""Every verdict that a test of the checkers comes to is verified too, from rows in memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.coverage import requirements
from holdfast.checkers.facts import orders
from holdfast.harness.core.loading import load
from tests.checkers.certified import told, verified

_conclude, _ordered = requirements.conclude, orders.ordered


def _verified_too(case: Any, *given: Any) -> Any:
    verdict = _conclude(case, *given)
    return _checked(case, verdict) if verdict.findings else verdict


def _ordered_too(case: Any, verdict: Any, order: Any) -> Any:
    found = _ordered(case, verdict, order)
    return found if found.order is None else _checked(case, found)


def _checked(case: Any, verdict: Any) -> Any:
    writers = case.history.writers
    if len(set(writers)) < len(writers):
        writers = tuple(f"w{n:03}" for n in range(len(writers)))
        case = replace(case, history=replace(case.history, writers=writers))
    names = case.history.rows[["writer", "row"]]
    if len(np.unique(names)) < len(names):
        return verdict  # rows of a foreign history have no names to verify them by
    outcome = verified(case, told(case, verdict))
    assert not outcome.refused, outcome.refused
    return verdict


@pytest.fixture(autouse=True)
def _verifies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name in ("test_growth.py", "test_near_misses.py"):
        return  # one counts the calls of the checkers alone, the other verifies by itself
    for entry in catalogue.CHECKERS.values():
        load(entry)
    for name, module in list(sys.modules.items()):
        if name.startswith("holdfast.checkers.") and hasattr(module, "conclude"):
            monkeypatch.setattr(module, "conclude", _verified_too)
    monkeypatch.setattr(orders, "ordered", _ordered_too)
