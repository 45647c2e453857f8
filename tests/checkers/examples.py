"""Histories that the test file of one property brings for the tests of all properties.

A file `test_NAME.py` beside this one has `EXAMPLES = Examples(...)`: what a property needs here is
in one file. The histories of older properties are in the tests that judge them
(`test_not_exercised`, `test_sentences`) and in `tests.harness.verification.specimens`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status, Terms
from tests.checkers.certified import told
from tests.checkers.shorthand import case, history, on

Row = tuple[str, dict[str, Any], str]
"""A history, what is changed about its case, and words of the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Specimen:
    """A history, and how the service and its rows differ from what shorthand makes of it.

    err      error of refusals, text of holders that are named; spent: of those, as `spent` packs it
    reason   of notices; wait_s: how long acquires wait at most
    """

    rule: str
    prop: str
    text: str
    promises: dict[str, Any] = field(default_factory=dict)
    terms: tuple[Terms, ...] = ()
    err: str = ""
    reason: str = ""
    spent: int = 0
    wait_s: float = -1
    changes: dict[str, Any] = field(default_factory=dict)

    def case(self) -> Case:
        """What the checkers are given of it."""
        made = on(history(self.text), *self.terms)
        rows, strings = made.rows, [*made.strings, self.err, self.reason]
        object.__setattr__(made, "strings", strings)
        if self.err:
            refused = (rows["status"] == Status.FAIL) | (rows["f"] == Op.HOLDER)
            rows["err"][refused] = len(strings) - 2
        if self.reason:
            rows["res"][rows["f"] == Op.LOST] = len(strings) - 1
        if self.spent:
            rows["spent"][rows["f"] == Op.HOLDER] = self.spent
        if self.wait_s >= 0:
            asks = np.isin(rows["f"], (Op.ACQUIRE, Op.TRY, Op.PROBE))
            rows["aux"][asks] = round(self.wait_s * SECOND)
        return case(made, promises=self.promises, asked=(self.prop,), **self.changes)

    def judged(self) -> tuple[Case, dict[str, Any]]:
        """The case, and what its checker says of it as verdicts.json has it."""
        given = self.case()
        return given, told(given, load(catalogue.CHECKERS[self.prop])(given))


def specimen(rule: str, prop: str, text: str, *terms: Terms, **more: Any) -> Specimen:
    """A specimen; `more`: its other fields, and promises of the service."""
    fields = ("err", "reason", "spent", "wait_s", "changes")
    given = {name: more.pop(name) for name in fields if name in more}
    return Specimen(rule=rule, prop=prop, text=text, terms=terms, promises=more, **given)


@dataclass(frozen=True, kw_only=True, slots=True)
class Examples:
    """Histories of one property.

    not_exercised   what lacks -> a history without a violation that must not pass
    holds           a history that passes
    found           "a late notice" -> a history with such a finding, whose sentence is checked
    specimens       per rule of the verifier a history whose finding it proves
    plans           per row of its opportunities the options of a run that stages it, for its twin
    """

    prop: str
    not_exercised: Mapping[str, Row] = field(default_factory=dict)
    holds: Row | None = None
    found: Mapping[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    specimens: Sequence[Specimen] = ()
    plans: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def every() -> tuple[Examples, ...]:
    """Those of all test files of this folder, by name."""
    named = [
        path.stem
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if "\nEXAMPLES = Examples(" in path.read_text()
    ]
    return tuple(importlib.import_module(f"tests.checkers.{name}").EXAMPLES for name in named)
