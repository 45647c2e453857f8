"""What to run next: what the command for an unanswered question changes in that of this run.

Of a run that holds: which usual faults it did not have.
"""

from __future__ import annotations

import shlex
from itertools import pairwise

from holdfast.harness.verdicts.judged import Judged, Outcome
from holdfast.reports.text.formatting import listed, plain

USUAL = ("pause", "kill", "partition", "clock")
"""Kinds of fault that every lock meets."""
LONGEST = 4000
"""Characters of a command that is read; a run directory may have any text for one."""
SHORT = 60
"""Characters of a value that is repeated beside the command that has it."""


def differences(run: Judged) -> str:
    """In which options the remedy differs from the command of the run, "" if it cannot be said.

    Only options that both state: what one leaves out may be its default.
    """
    before, after = _options(run.command), _options(run.remedy)
    changed = [
        f"{name} {plain(value, 200)} (here {plain(before[name], 200)})"
        if len(value) <= SHORT
        else f"the value of {name}"
        for name, value in after.items()
        if name in before and before[name] != value and name != "--seed"
    ]
    return f"The command differs from this run in {listed(changed)}." if changed else ""


def _options(command: str) -> dict[str, str]:
    """The options of a command and their values; {} if it is not of that form."""
    if len(command) > LONGEST:
        return {}
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    return {
        name: value
        for name, value in pairwise(words)
        if name.startswith("--") and not value.startswith("--")
    }


def untried(run: Judged) -> str:
    """The usual faults that a run that holds did not have, as a sentence; "" for none."""
    had = {fault.do for fault in run.faults}
    left = [kind for kind in USUAL if kind not in had]
    if run.outcome() is not Outcome.HOLDS or not left:
        return ""
    return f"Not tried in this run: {listed(left)} (--nemesis {','.join(left)})."
