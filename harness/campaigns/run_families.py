"""Runs with the attempts of shrink, replay, hunt and sweep below the run that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.harness.campaigns.run_index import Entry

REPEATS = ("shrink", "replay")
"""Commands whose attempts repeat a run: they are no runs of their own in a rate."""


@dataclass(kw_only=True, slots=True)
class Family:
    """A run and its attempts, the newest first. head: None if the run is not listed (any more), as
    for a hunt or a sweep; title: then what the attempts have in common."""

    title: str
    head: Entry | None = None
    attempts: list[Entry] = field(default_factory=list)

    @property
    def all(self) -> Sequence[Entry]:
        """Every run of the family."""
        return [*([self.head] if self.head else ()), *self.attempts]

    @property
    def id(self) -> str:
        """The id of its run, "" if that is not listed."""
        return self.head.id if self.head else ""


def families(entries: Sequence[Entry]) -> list[Family]:
    """Each run in one family, in the order of the entries: that of the first of its runs."""
    named = {entry.dir.path.name: entry for entry in reversed(entries)}
    by_head: dict[str, Family] = {}
    for entry in entries:
        head = _head(entry, named)
        key, title = (head.id, "") if isinstance(head, Entry) else (f" {head}", head)
        family = by_head.setdefault(key, Family(title=title))
        if isinstance(head, Entry) and head.id == entry.id:
            family.head = entry
        else:
            family.attempts.append(entry)
    return list(by_head.values())


def _head(entry: Entry, named: Mapping[str, Entry]) -> Entry | str:
    """The run that an entry belongs to, through attempts of attempts; a text if that is no listed
    run. A run that says it belongs to itself, also by a detour, is one of its own."""
    seen, at = {entry.id}, entry
    while at.origin.of:
        above = named.get(at.origin.of)
        if above is None:
            return at.origin.of
        if above.id in seen:
            return entry
        seen.add(above.id)
        at = above
    return at


def independent(entries: Iterable[Entry]) -> list[Entry]:
    """The runs without those that repeat another one."""
    return [entry for entry in entries if entry.origin.by not in REPEATS]


def by_command(entries: Iterable[Entry]) -> dict[str, int]:
    """Command that made them -> number of attempts."""
    attempts: dict[str, int] = {}
    for entry in entries:
        name = entry.origin.by or "run"
        attempts[name] = attempts.get(name, 0) + 1
    return attempts
