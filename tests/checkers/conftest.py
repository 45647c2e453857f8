"""Every verdict that a test of the checkers comes to is verified too, from rows in memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.coverage import requirements
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from tests.checkers.certified import named, ordering, told, verified

VERIFY_BY_THEMSELVES = (
    "test_growth.py",  # counts the calls of the checkers alone
    "test_near_misses.py", "test_exact_edges.py", "test_two_parts.py", "test_recorded_verdicts.py",
)  # fmt: skip

_conclude = requirements.conclude


def _verified_too(case: Any, *given: Any) -> Any:
    verdict = _conclude(case, *given)
    if verdict.findings:
        return _checked(case, verdict)
    # Where nothing was found an order has to be right, whether or not enough was exercised.
    by = ordering(case, verdict.property)
    order = by(case) if by is not None else None
    if order is not None:
        _checked(case, replace(verdict, verdict=Verdict.HOLDS), order)
    return verdict


def _checked(case: Any, verdict: Any, order: Any = None) -> Any:
    case = named(case)
    names = case.history.rows[["writer", "row"]]
    if len(np.unique(names)) < len(names):
        return verdict  # rows of a foreign history have no names to verify them by
    outcome = verified(case, told(case, verdict, order))
    assert not outcome.refused, outcome.refused
    assert not outcome.bare, [finding.kind for finding in verdict.findings]
    return verdict


@cache
def _concluding() -> list[ModuleType]:
    """The modules of the checkers that make verdicts."""
    for entry in catalogue.CHECKERS.values():
        load(entry)
    checkers = [each for name, each in sys.modules.items() if name.startswith("holdfast.checkers.")]
    return [module for module in checkers if hasattr(module, "conclude")]


@pytest.fixture(autouse=True)
def _verifies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name in VERIFY_BY_THEMSELVES:
        return
    for module in _concluding():
        monkeypatch.setattr(module, "conclude", _verified_too)
