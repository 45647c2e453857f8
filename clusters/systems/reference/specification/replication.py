"""Specification of the replicated log: what nodes may save, vote for, acknowledge and commit.

Rules (after Raft): one vote per term, on the disk before it is given; votes only for a log that is
not behind; one leader per term, by a majority of votes; only the leader of a term makes entries of
it, the first of them empty; a log that agrees in one entry agrees in all before; an acknowledged
entry is on the disk; a leader commits up to an entry of its own term that a majority has on disk;
all nodes commit the same entry at an index, in order; a new leader has all that is committed.

Not specified: when an election begins, what is sent to whom, and how much at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.clusters.systems.reference.specification.trace import Boot, Said, Save, Step, Torn

Command = Mapping[str, object] | None
TIME_SET = "the time is set by which that step should go"


class Departs(Exception):
    """A step that is not allowed: rule, state before, what is allowed, what happened.

    began     number of the event that set what the step goes by, such as a time; -1: none is known
    early_ns  by how much the step comes before that time; 0: it does not
    set_by    what was done in the event `began`, as "the time is set by which that step should go"
    """

    def __init__(
        self,
        rule: str,
        before: str,
        allows: str,
        happened: str,
        *,
        began: int = -1,
        early_ns: int = 0,
        set_by: str = TIME_SET,
    ) -> None:
        super().__init__(rule, before, allows, happened)
        self.rule, self.before, self.allows, self.happened = rule, before, allows, happened
        self.began, self.early_ns, self.set_by = began, early_ns, set_by


@dataclass(slots=True)
class Disk:
    """What a node has on disk, and how far it has committed since it started.

    votes   term -> the candidate that got this node's vote, on disk at some time; "" for none
    terms   terms of the entries after `base`
    ends    (term, index) of the last entry: before this step, and after each of its saves
    covers  up to where the snapshots go that this step saved: a node that was away may get several
    """

    term: int = 0
    votes: dict[int, str] = field(default_factory=lambda: {0: ""})
    base: int = 0
    base_term: int = 0
    terms: list[int] = field(default_factory=list)
    committed: int = 0
    ends: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    covers: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Index of the last entry."""
        return self.base + len(self.terms)

    @property
    def end(self) -> tuple[int, int]:
        """(term, index) of the last entry."""
        terms = self.terms
        return (terms[-1] if terms else self.base_term), self.base + len(terms)

    def at(self, index: int) -> int:
        """Term of an entry; -1: it is not there."""
        after = index - self.base
        if after == 0:
            return self.base_term
        return self.terms[after - 1] if 0 < after <= len(self.terms) else -1

    def __str__(self) -> str:
        vote = self.votes.get(self.term) or "none"
        return (
            f"term {self.term}, vote for {vote}, log to {self.last} (term {self.at(self.last)}),"
            f" committed to {self.committed}"
        )


class Replication:
    """All disks, votes and the committed log of one cluster.

    given     (term, voter) -> the candidate that was answered yes
    asked     (term, candidate) -> (term, index) of its last entry, as it said
    leaders   term -> its leader
    made      (index, term) -> (term of the entry before it, command), of every entry ever made
    longest   term -> index of the last entry made in it
    fresh     (index, term, command) of the entries made in the present step
    agreed    terms of the committed entries; index 0 is before the first
    decided   terms of the leaders that committed them: an entry of term 4 may be committed in 6
    makers    index of a snapshot -> the node that saved one of that index first
    """

    def __init__(self, nodes: int) -> None:
        self.majority = nodes // 2 + 1
        self.disks: dict[str, Disk] = {}
        self.given: dict[tuple[int, str], str] = {}
        self.asked: dict[tuple[int, str], tuple[int, int]] = {}
        self.leaders: dict[int, str] = {}
        self.made: dict[tuple[int, int], tuple[int, Command]] = {}
        self.longest: dict[int, int] = {}
        self.agreed = [0]
        self.decided = [0]
        self.fresh: list[tuple[int, int, Command]] = []
        self.makers: dict[int, str] = {}

    def disk(self, node: str) -> Disk:
        """A node's disk, empty at first."""
        disk = self.disks.get(node)
        if disk is None:
            disk = self.disks[node] = Disk()
        return disk

    # A node starts, saves, or dies in a write

    def boot(self, event: Boot) -> None:
        """It starts from what is on its disk, no less and no more; only a snapshot is committed."""
        disk, reported = self.disk(event.node), event.disk
        if event.quorum not in (0, self.majority):
            raise Departs(
                "a quorum is a majority of the servers",
                str(disk),
                f"a quorum of {self.majority}",
                f"starts with a quorum of {event.quorum}",
            )
        vote = disk.votes.get(disk.term, "")
        terms = [term for term, _ in reported.entries]
        there = (disk.term, vote, disk.base, disk.base_term, disk.terms)
        if there != (reported.term, reported.vote, reported.base, reported.base_term, terms):
            log = f"log {reported.base} to {reported.base + len(terms)}"
            raise Departs(
                "a node starts from its disk",
                str(disk),
                "the same ballot and the same log",
                f"term {reported.term}, vote for {reported.vote or 'none'}, {log}",
            )
        disk.committed = disk.base

    def torn(self, event: Torn) -> None:
        """It died in a write; a part is on its disk, and nothing was said about it."""
        self._saves(event.node, event.saves)

    def step(self, event: Step) -> None:
        """Its saves, then what it says about them, then what it takes as committed."""
        self._saves(event.node, event.saves)
        for statement in event.said:
            self._said(event.node, statement)
        if event.committed:
            self._commits(event.node, event.committed)

    def _saves(self, node: str, saves: tuple[Save, ...]) -> None:
        disk = self.disk(node)
        if len(disk.ends) > 1:
            del disk.ends[:-1]
            disk.covers.clear()
        self.fresh = []
        for save in saves:
            if save.what != "entries":
                self._ballot(node, disk, save)
            if save.what == "entries":
                self._extend(node, disk, save)
            elif save.what == "all":
                self._replace(disk, save)
                self.makers.setdefault(save.base, node)
            disk.ends.append(disk.end)

    def _ballot(self, node: str, disk: Disk, save: Save) -> None:
        before = disk.votes.get(save.term, "")
        if save.term < disk.term or (before and before != save.vote):
            raise Departs(
                "one vote per term, and no way back to an older term",
                str(disk),
                f"a later term, or a first vote in term {disk.term}",
                f"saves term {save.term} with a vote for {save.vote or 'none'}",
            )
        disk.term = save.term
        disk.votes[save.term] = save.vote
        if save.vote == node:
            self.given[save.term, node] = node

    def _extend(self, node: str, disk: Disk, save: Save) -> None:
        last = disk.last
        if not disk.base < save.first <= last + 1:
            allows = f"entries from {disk.base + 1} to {last + 1} on"
            raise Departs("a log has no gaps", str(disk), allows, f"entries from {save.first} on")
        before = disk.at(save.first - 1)
        for index, (term, command) in enumerate(save.entries, save.first):
            known = self.made.get((index, term))
            if known is None:
                self._makes(node, disk, index, term, before, command)
            elif known[0] != before or (known[1] is not command and known[1] != command):
                raise Departs(
                    "logs that agree in one entry agree in all before it",
                    str(disk),
                    f"entry {index} of term {term} is {known[1]}, after one of term {known[0]}",
                    f"saves {command} there, after one of term {before}",
                )
            before = term
        new = [term for term, _ in save.entries]
        if save.first > last:
            disk.terms += new
            return
        for index in range(save.first, min(last, len(self.agreed) - 1) + 1):
            at = index - save.first
            agreed = self.agreed[index]
            if disk.at(index) == agreed and (at >= len(new) or new[at] != agreed):
                raise Departs(
                    "a committed entry stays",
                    f"{disk}; entry {index} of term {agreed} is committed",
                    f"entries after {index}",
                    f"replaces its entries from {save.first} on",
                )
        disk.terms[save.first - disk.base - 1 :] = new

    def _makes(
        self, node: str, disk: Disk, index: int, term: int, before: int, command: Command
    ) -> None:
        """A new entry: only the leader of its term makes one, at the end of its log."""
        leader = self.leaders.get(term)
        if leader is None:
            self._leads(node, disk, index, term, before, command)
        elif leader != node:
            allows = f"{leader} leads term {term}: only it makes entries of that term"
            happened = f"saves entry {index} of term {term}, which {leader} has not made"
            raise Departs("one leader per term", str(disk), allows, happened)
        self.made[index, term] = before, command
        self.longest[term] = index
        self.fresh.append((index, term, command))

    def _leads(
        self, node: str, disk: Disk, index: int, term: int, before: int, command: Command
    ) -> None:
        voters = [name for (at, name), to in self.given.items() if at == term and to == node]
        if term != disk.term or len(voters) < self.majority:
            raise Departs(
                "a leader has the votes of a majority",
                f"{disk}; votes for it in term {term}: {', '.join(sorted(voters)) or 'none'}",
                f"to lead term {term} with {self.majority} votes",
                "leads, and makes the first entry of the term",
            )
        if command is not None:
            allows = "an empty entry, which opens the term"
            raise Departs("a term begins with an empty entry", str(disk), allows, f"{command}")
        self.leaders[term] = node
        self.made[index, term] = before, command
        # Its first entry may come long after its votes: it need not have what a leader of a later
        # term committed meanwhile, be it of an earlier term.
        last = bisect_left(self.decided, term) - 1
        if self._term_in(term, index, last) != self.agreed[last]:
            raise Departs(
                "a new leader has all that is committed",
                f"{disk}; committed is entry {last} of term {self.agreed[last]}",
                "a leader with that entry",
                f"leads term {term} without it",
            )

    def _term_in(self, term: int, index: int, wanted: int) -> int:
        """Term of the entry `wanted` in the log that ends with (index, term); -1: beyond it."""
        while index > wanted:
            term, index = self.made[index, term][0], index - 1
        return term if index == wanted else -1

    def _replace(self, disk: Disk, save: Save) -> None:
        new = [term for term, _ in save.entries]
        if save.base >= len(self.agreed) or self.agreed[save.base] != save.base_term:
            raise Departs(
                "a snapshot covers committed entries",
                str(disk),
                f"a snapshot up to {len(self.agreed) - 1}",
                f"a snapshot up to {save.base} of term {save.base_term}",
            )
        if disk.at(save.base) == save.base_term and disk.terms[save.base - disk.base :] != new:
            raise Departs(
                "a snapshot drops no entry after it",
                str(disk),
                f"the entries after {save.base} as they are",
                f"{len(new)} entries",
            )
        disk.base, disk.base_term, disk.terms = save.base, save.base_term, new
        disk.covers.append(save.base)

    # Messages

    def _said(self, node: str, said: Said) -> None:
        disk = self.disks[node]
        if said.what == "ask-vote":
            self._votes(disk, said, node, f"asks for votes in term {said.term}")
            if (said.at_term, said.at) not in disk.ends:
                allows = f"to say that its log ends at {disk.last} of term {disk.at(disk.last)}"
                happened = f"says {said.at} of term {said.at_term}"
                raise Departs("a candidate tells where its log ends", str(disk), allows, happened)
            self.asked[said.term, node] = said.at_term, said.at
        elif said.what == "give-vote":
            self._votes(disk, said, said.to, f"votes for {said.to} in term {said.term}")
            ends = self.asked.get((said.term, said.to), (-1, -1))
            if ends < min(disk.ends):
                raise Departs(
                    "a vote goes to a log that is not behind",
                    str(disk),
                    f"no vote for {said.to}, whose log ends at {ends[1]} of term {ends[0]}",
                    f"votes for {said.to} in term {said.term}",
                )
            self.given[said.term, node] = said.to
        elif said.term == disk.term and said.at > disk.base and disk.at(said.at) != said.term:
            self._has(node, disk, said)

    def _votes(self, disk: Disk, said: Said, candidate: str, happened: str) -> None:
        if disk.votes.get(said.term) != candidate:
            allows = f"only what is saved: {disk.votes.get(said.term) or 'no vote'} in {said.term}"
            raise Departs("a vote is saved before it is given", str(disk), allows, happened)

    def _has(self, node: str, disk: Disk, said: Said) -> None:
        """An acknowledgement: up to there it has the log of the leader of this term, on disk."""
        own, last = disk.at(said.at), self.longest.get(said.term, 0)
        if own == -1 or own != self._term_in(said.term, last, said.at):
            raise Departs(
                "an acknowledged entry is on the disk",
                str(disk),
                f"to acknowledge what it has of the leader's log, at most up to {disk.last}",
                f"acknowledges entry {said.at} in term {said.term}",
            )

    # Commitment

    def _commits(self, node: str, committed: tuple[tuple[int, int], ...]) -> None:
        disk = self.disks[node]
        top = committed[-1][0]
        if top >= len(self.agreed):
            self._agrees(node, disk, top)
        for index, term in committed:
            covered = index in disk.covers and index > disk.committed
            if index != disk.committed + 1 and not covered:
                allows, happened = f"entry {disk.committed + 1}", f"takes {index} as committed"
                raise Departs("entries are applied in order", str(disk), allows, happened)
            if self.agreed[index] != term:
                raise Departs(
                    "the same entry is committed at an index everywhere",
                    str(disk),
                    f"entry {index} of term {self.agreed[index]}",
                    f"entry {index} of term {term}",
                )
            disk.committed = index

    def _agrees(self, node: str, disk: Disk, top: int) -> None:
        """A leader commits entries that no node had committed."""
        term = disk.at(top)
        having = [name for name, other in self.disks.items() if other.at(top) == term != -1]
        if len(having) < self.majority:
            there = ", ".join(sorted(having)) or "none"
            raise Departs(
                "an entry is committed once a majority has it on disk",
                f"{disk}; entry {top} of term {term} is on disk at {there}",
                f"to commit what {self.majority} nodes have",
                f"commits up to {top}",
            )
        if term != disk.term or self.leaders.get(term) != node:
            raise Departs(
                "a leader counts copies of entries of its own term only",
                f"{disk}; leader of term {disk.term}: {self.leaders.get(disk.term, 'none')}",
                f"to commit an entry of term {disk.term} by the leader of that term",
                f"commits up to {top} of term {term}",
            )
        self.agreed += [disk.at(index) for index in range(len(self.agreed), top + 1)]
        self.decided += [term] * (len(self.agreed) - len(self.decided))
