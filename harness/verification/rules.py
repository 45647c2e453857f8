"""The rules by which a certificate proves a finding: data, read by the judge and by the verifier.

A rule names its witnesses (roles), what kind of row each has to be, the conditions between them
that the verifier evaluates on the recorded rows (`where`), and the inequalities (`facts`) whose two
sides are numbers in the certificate. `values` are numbers that one row alone does not show: the
checker states them, the verifier derives them again. A role that ends in "*" stands for several,
numbered from 1; each fact or condition about it applies to every one of them.

The rules and patterns of a property are in the module of its name in `properties`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from holdfast.harness.verification.owner_opportunities import OwnerPattern
from holdfast.harness.verification.rule import Rule
from holdfast.harness.verification.stroke_opportunities import StrokePattern

FOLDER = "properties"
RULES: dict[str, Rule] = {}
"""Name -> rule, of all properties."""
PATTERNS: dict[str, StrokePattern | OwnerPattern] = {}
"""Row of the table of opportunities -> its pattern, of all properties."""
for _module in pkgutil.iter_modules([str(Path(__file__).with_name(FOLDER))]):
    _property = import_module(f"{__package__}.{FOLDER}.{_module.name}")
    RULES |= _property.RULES
    PATTERNS |= _property.PATTERNS
