"""Every verdict that a test of the checkers comes to is verified too, from rows in memory."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.checkers.coverage import requirements
from holdfast.harness.core.loading import load
from tests.checkers.certified import told, verified

_conclude = requirements.conclude


def _verified_too(case: Any, *given: Any) -> Any:
    verdict = _conclude(case, *given)
    if verdict.findings:
        outcome = verified(case, told(case, verdict))
        assert not outcome.refused, outcome.refused
    return verdict


@pytest.fixture(autouse=True)
def _verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in catalogue.CHECKERS.values():
        load(entry)
    for name, module in list(sys.modules.items()):
        if name.startswith("holdfast.checkers.") and hasattr(module, "conclude"):
            monkeypatch.setattr(module, "conclude", _verified_too)
