"""Which runs of a folder may go: a rule of retention over families of runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.harness.campaigns.run_families import Family
from holdfast.harness.campaigns.run_index import Entry
from holdfast.harness.core.verdict import Verdict

DAY_S = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """keep   number of the newest runs that stay, None for no limit by number
    days     runs that are younger stay, None for no limit by age; with both, one is enough to stay
    found    whether runs with a violation or a name may go too
    """

    keep: int | None = None
    days: int | None = None
    found: bool = False


def outdated(
    families: Sequence[Family], rule: Rule, now_s: float, busy: Collection[str]
) -> list[Family]:
    """The families that the rule does not keep, in their order, the newest first.

    A family, a run with its attempts, stays or goes as a whole. busy: paths of registered runs.
    """
    gone = []
    for number, family in enumerate(families):
        newest_s = max(entry.started for entry in family.all)
        few = rule.keep is not None and number < rule.keep
        young = rule.days is not None and now_s - newest_s < rule.days * DAY_S
        if not (few or young or any(_needed(entry, rule, busy) for entry in family.all)):
            gone.append(family)
    return gone


def _needed(entry: Entry, rule: Rule, busy: Collection[str]) -> bool:
    """Whether a run stays whatever its age: it goes on, or is to be healed, or shows something."""
    if entry.state == "running" or str(entry.dir.path) in busy:
        return True
    properties = entry.result.properties.values() if entry.result else ()
    # Attempts repeat what their run shows: by themselves they keep nothing.
    shows = not entry.origin.of and any(one.verdict is Verdict.VIOLATED for one in properties)
    return not rule.found and (bool(entry.origin.name) or shows)
