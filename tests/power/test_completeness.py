"""Every finding of a planted bug lies at an opportunity, so that no lock with the bug is said to
hold where it could not have been seen."""

from __future__ import annotations

import pytest

from holdfast.checkers.opportunities.table import every_row
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.verdicts.judged import Judgement, Opportunities, UnderKind
from tests.power import completeness
from tests.power.completeness import Bug, count, planted

EVERY = planted()
SAMPLE = (
    "single",
    "redlock",
    "token-reset",
    "small-quorum",
    "release-by-lock",
    "unchecked-tokens",
    "reversed-queue",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_findings_of_some_planted_bugs_lie_at_opportunities(name: str) -> None:
    counted = count(EVERY[name], range(1, 41), 3)
    assert counted.met and not counted.misses


@pytest.mark.power
@pytest.mark.parametrize("name", list(EVERY))
def test_findings_of_every_planted_bug_lie_at_opportunities(name: str) -> None:
    assert not count(EVERY[name], range(1, 201), 10).misses


def test_what_is_counted_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding at a row, one of a bug that needs no fault, one that is missed, one without row."""

    def under(number: int) -> UnderKind:
        row = Opportunities(row="row", count=number, sentence="it was so")
        return UnderKind(verdict=Verdict.VIOLATED, opportunities=(row,) if number >= 0 else ())

    def judged(prop: str, number: int, kind: str = "kill") -> Judgement:
        counts = dict.fromkeys(completeness.WITHOUT_FAULTS.values(), 1)
        return Judgement(
            property=prop,
            verdict=Verdict.VIOLATED,
            promised=True,
            severity=Severity.HIGH,
            exercised=counts,
            under={kind: under(number)},
        )

    made = [
        judged("mutual-exclusion", 3),
        judged("mutual-exclusion", 0),
        judged("token-order", 0),
        judged("token-order", -1),
        judged("ownership", 0),
        judged("ownership", 0, "none"),
    ]
    monkeypatch.setattr(Bug, "judged", lambda self, seed, faults=True: made)
    monkeypatch.setattr(
        Bug, "shows_without_faults", lambda self, prop, seeds=0: prop == "mutual-exclusion"
    )
    counted = count(Bug("reference", {}), range(1, 9), 1)
    assert (counted.seeds, counted.finds, counted.met, counted.calm) == (1, 1, 1, 1)
    assert counted.misses == {"token-order under kill": [1], "ownership under kill": [1]}
    assert counted.bare == {"token-order under kill": 1}


def test_each_property_with_rows_has_a_planted_bug() -> None:
    shown = {row.property for row in every_row()}
    assert {"unheard-loss", "release-by-lock", "unchecked-tokens", "single"} <= set(EVERY)
    assert shown == completeness.WITH_ROWS
