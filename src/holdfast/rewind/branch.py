"""A branch: the same run in which some messages are lost, as data that can be repeated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.clusters.backends.sim.observed.steps import Fate, Kind, Step
from holdfast.engine.trials import of_verdicts
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.history.diff import first_difference
from holdfast.rewind.execution import Execution, execute

SCHEMA = "holdfast-branch/1"
MOST_BYTES, MOST_LOST = 1 << 20, 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """An execution in which some messages were lost, compared with the run.

    lost      the steps at which they would have arrived
    differs   the first difference of its history, "" if it is the same
    before    findings of the run as it was, in words; after: those of the branch
    """

    done: Execution
    lost: tuple[int, ...]
    differs: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def table(self) -> dict[str, Json]:
        """The branch as data: `lost` is all that is needed to repeat it."""
        return {
            "schema": SCHEMA,
            "lost": list(self.lost),
            "history": self.done.digest,
            "first_difference": self.differs,
            "findings": list(self.after),
            "findings_of_run": list(self.before),
        }


def branch(base: Execution, lost: Sequence[int], *, states: bool = False) -> Branch:
    """Execute a run again with messages lost. UsageError where a step delivers no message."""
    for number in lost:
        must_deliver(base.steps, number)
    together = tuple(sorted({*base.lost, *lost}))
    done = execute(base.plan, together, states=states)
    missed = [one for one in lost if done.steps[one].fate is not Fate.CHOSEN]
    if missed:
        raise UsageError(f"step {missed[0]}: no message arrives there once an earlier one is lost")
    return Branch(
        done=done,
        lost=together,
        differs=first_difference(base.history, done.history),
        before=_findings(base),
        after=_findings(done),
    )


def must_deliver(steps: Sequence[Step], number: int) -> None:
    """UsageError where a step is not the delivery of a message."""
    if not 0 <= number < len(steps):
        raise UsageError(f"no step {number}: the run has steps 0 to {len(steps) - 1}")
    step = steps[number]
    if step.kind is not Kind.MESSAGE or step.fate is not Fate.DELIVERED:
        raise UsageError(f"step {number} delivers no message: it cannot be lost")


def _findings(done: Execution) -> tuple[str, ...]:
    names = [one.name for one in of_verdicts(done.judged)]
    return (*names, *(["departure"] if done.departure is not None else []))


def read(file: Path) -> list[int]:
    """The lost messages of a branch file. UsageError where it is none."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file}: larger than {MOST_BYTES} bytes: not a branch")
        table: object = json.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON: {error}") from error
    fields = table if isinstance(table, dict) else {}
    lost = fields.get("lost")
    if not isinstance(lost, list) or fields.get("schema") != SCHEMA:
        raise UsageError(f"{file}: not a branch: expected schema {SCHEMA} and a list of lost steps")
    whole = [one for one in lost if isinstance(one, int) and not isinstance(one, bool)]
    if whole != lost or not 0 < len(lost) <= MOST_LOST:
        raise UsageError(f"{file}: expected 1 to {MOST_LOST} step numbers under lost")
    return whole


def write(made: Branch, file: Path) -> None:
    """Write a branch file. UsageError where that is not possible."""
    try:
        file.write_text(json.dumps(made.table(), indent=1) + "\n")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
