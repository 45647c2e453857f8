"""Manifests of runs that a test makes up: complete, with what the test says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.harness.plans.manifest import Manifest, RecordedChecker
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare


def manifest(
    asks: Sequence[str] = (), checkers: dict[str, RecordedChecker] | None = None
) -> Manifest:
    """Of a run of the reference service that asks for these properties."""
    made = prepare.manifest(prepare.prepared(Plan(system="reference", backend="sim")), "made", "")
    return replace(made, asks=asks, checkers=checkers or {})
