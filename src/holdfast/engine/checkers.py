"""The checkers of a run: built-in ones, installed plug-ins, and those of the user that were named.

Judging executes no code only because a run directory contains it: a checker from a file of the user
has to be named on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holdfast import catalogue
from holdfast.catalogue import plug_ins
from holdfast.checkers.user_checker import UserChecker
from holdfast.harness.core.case import Case, Checker
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load, module_of
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.judging.judge import OWNERS_ADMITTED
from holdfast.harness.plans.manifest import Manifest, RecordedChecker
from holdfast.harness.plans.plan import FILE, suggest


def named(names: Sequence[str]) -> dict[str, tuple[str, UserChecker]]:
    """Checkers by the property that each judges, with their names. UsageError for unknown names and
    for two checkers of one property."""
    found: dict[str, tuple[str, UserChecker]] = {}
    for name in names:
        if name not in plug_ins.installed("checkers") and not FILE.fullmatch(name):
            raise UsageError(suggest(name, list(plug_ins.installed("checkers")), "checker"))
        made: UserChecker = load(catalogue.CHECKERS[name])
        if made.property in found:
            raise UsageError(f"{found[made.property][0]} and {name} both judge {made.property}")
        found[made.property] = (name, made)
    return found


def with_named(
    manifest: Manifest, names: Sequence[str], own: Path | None = None
) -> tuple[Manifest, dict[str, Checker]]:
    """The manifest with the properties of further checkers, and a checker for each that it asks,
    and for the one that is judged wherever a resource refused an owner.

    A checker that is neither built in nor named nor installed is replaced by one that says so;
    own: the run's folder of copies, which that reason names.
    """
    given = named(names)
    recorded = {
        **{prop: made.recorded(name) for prop, (name, made) in given.items()},
        **manifest.checkers,
    }
    asks = list(dict.fromkeys((*manifest.asks, *given)))
    checkers: dict[str, Checker] = {}
    for prop in asks:
        if prop in catalogue.CHECKERS:
            checkers[prop] = load(catalogue.CHECKERS[prop])
        elif prop in given:
            checkers[prop] = given[prop][1]
        elif prop in recorded:
            checkers[prop] = _installed(prop, recorded[prop]) or _absent(prop, recorded[prop], own)
        else:
            raise UsageError(f"manifest.json: no checker for {prop} in this version")
    checkers.setdefault(OWNERS_ADMITTED, load(catalogue.CHECKERS[OWNERS_ADMITTED]))
    return replace(manifest, asks=asks, checkers=recorded), checkers


def _installed(prop: str, recorded: RecordedChecker) -> Checker | None:
    name = recorded.name
    if name not in plug_ins.installed("checkers"):
        return None
    made: UserChecker = load(catalogue.CHECKERS[name])
    return made if made.property == prop else None


def _absent(prop: str, recorded: RecordedChecker, own: Path | None) -> Checker:
    name = again = recorded.name
    if own is not None and FILE.fullmatch(name):
        path, _, attr = name.rpartition(":")
        copy = own / f"{module_of(Path(path))}.py"
        again = f"{copy}:{attr}" if copy.is_file() else name

    def check(case: Case) -> PropertyVerdict:
        reason = f"its checker {name} was not named; judge with --checker {again}"
        return PropertyVerdict(property=prop, verdict=Verdict.UNKNOWN, reason=reason)

    return check
