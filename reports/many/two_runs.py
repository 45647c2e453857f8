"""What two judged runs have in common and in what they differ, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.harness.campaigns.results import MEASURES, RATES, Outcome, Result
from holdfast.harness.campaigns.trend import state_of
from holdfast.reports.text.formatting import NONE, span


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row. kind: "fact", "property" or "measure"; of measures none is called different: they
    vary from run to run."""

    kind: str
    name: str
    left: str
    right: str
    differs: bool


def compared(left: Result, right: Result) -> list[Row]:
    """The state of both first, then their plans, properties and measures."""
    rows = [_row("fact", "state", state_of(left), state_of(right))]
    rows += [_row("fact", name, one, _facts(right)[name]) for name, one in _facts(left).items()]
    for name in dict.fromkeys([*left.properties, *right.properties]):
        one, other = left.properties.get(name), right.properties.get(name)
        row = _row("property", name.replace("-", " "), _outcome(one), _outcome(other))
        same = one and other and (one.verdict, one.promised) == (other.verdict, other.promised)
        rows.append(Row(kind="property", name=row.name, left=row.left, right=row.right,
                        differs=not same))  # fmt: skip
    for name, words in MEASURES.items():
        if name in left.measures or name in right.measures:
            values = (measure(name, one.measures.get(name)) for one in (left, right))
            rows.append(Row(kind="measure", name=words, left=next(values), right=next(values),
                            differs=False))  # fmt: skip
    return rows


def _facts(one: Result) -> dict[str, str]:
    """What was run."""
    return {
        "system": one.system,
        "backend": one.backend,
        "workload": one.workload,
        "nemesis": one.nemesis,
        "seed": str(one.seed),
        "command": one.command,
    }


def _row(kind: str, name: str, left: str, right: str) -> Row:
    return Row(kind=kind, name=name, left=left, right=right, differs=left != right)


def _outcome(one: Outcome | None) -> str:
    """Verdict of a property, and why."""
    if one is None:
        return "not judged"
    never = "" if one.promised else " (never promised)"
    why = one.cause or one.sentence or one.reason
    return f"{one.verdict}{never}{f': {why}' if why else ''}"


def measure(name: str, value: float | None) -> str:
    """A measure as text."""
    if value is None:
        return NONE
    return f"{value:,.3g} /s" if name in RATES else span(value)
