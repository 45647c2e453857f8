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
SETS = "--set "
SHORT = 60
"""Characters of a value that is repeated beside the command that has it."""


def differences(run: Judged) -> str:
    """In which options the remedy differs from the command of the run, "" if it cannot be said.

    Of options that only the remedy states, its settings (--set): of another one what the run left
    out may be its default.
    """
    before, after = _options(run.command), _options(run.remedy)
    changed = [
        f"{_stated(name, value)} (here {plain(before[name], 200)})"
        if len(value) <= SHORT
        else f"the value of {name}"
        for name, value in after.items()
        if name in before and before[name] != value and name != "--seed"
    ]
    added = [
        _stated(name, value).removeprefix(SETS)
        for name, value in after.items()
        if name.startswith(SETS) and before and name not in before
    ]
    sentences = [
        f"The command differs from this run in {listed(changed)}." if changed else "",
        f"It also sets {listed(added)}." if added and changed else "",
        f"The command also sets {listed(added)}." if added and not changed else "",
    ]
    return " ".join(filter(None, sentences))


def _stated(name: str, value: str) -> str:
    between = "=" if name.startswith(SETS) else " "
    return f"{plain(name, 60)}{between}{plain(value, 200)}"


def _options(command: str) -> dict[str, str]:
    """The options of a command and their values, each setting by itself ("--set wait_ms"); {} if it
    is not of that form."""
    if len(command) > LONGEST:
        return {}
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    options = {}
    for name, value in pairwise(words):
        if name == "--set" and "=" in value:
            key, _, value = value.partition("=")
            options[SETS + key] = value
        elif name.startswith("--") and not value.startswith("--"):
            options[name] = value
    return options


def untried(run: Judged) -> str:
    """The usual faults that a run that holds did not have, as a sentence; "" for none."""
    had = {fault.do for fault in run.faults}
    left = [kind for kind in USUAL if kind not in had]
    if run.outcome() is not Outcome.HOLDS or not left:
        return ""
    return f"Not tried in this run: {listed(left)} (--nemesis {','.join(left)})."
