"""The counts of a matrix as data, so that the next edition of the lock atlas adds to them.

Runs of one plan that differ in their seeds alone are a group; counts of two groups are added only
if the same checkers judged them and the system's code is the same. A seed counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace

import msgspec

from holdfast.harness.campaigns.results import Outcome, Result, failed
from holdfast.harness.campaigns.sums import FaultSum
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Verdict
from holdfast.reports.many.matrix import Matrix, Square, matrix, of_squares

SCHEMA = "holdfast-counts/1"
MOST_SEEDS = 10_000_000
"""of one pair in a file; more would fill the memory"""
SEED = re.compile(r" --seed \d+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ViolatingRun:
    """A run that violated a property: its command, what happened."""

    key: str
    command: str
    sentence: str


@dataclass(kw_only=True, slots=True)
class Count:
    """One square of the matrix, by its counts; proofs: the first violations."""

    property: str
    fault: str
    enough: int
    runs: int
    unknown: int
    early: int
    promised: int
    sum: FaultSum
    several: dict[str, int] = field(default_factory=dict)
    proofs: list[ViolatingRun] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Runs of one plan.

    system     the row of the matrix; version: fingerprint of its code, "" if unknown
    plan       the command of its runs without the seed
    checkers   fingerprint of the checkers that judged them
    """

    system: str
    version: str
    plan: str
    checkers: str
    seeds: list[int]
    counts: list[Count]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What two groups have in common that are added up."""
        return self.system, self.version, self.plan, self.checkers


@dataclass(frozen=True, kw_only=True, slots=True)
class Edition:
    """All groups, as the file has them."""

    schema: str = SCHEMA
    groups: list[Group] = field(default_factory=list)

    def with_results(self, results: Iterable[Result], simulated: Collection[str]) -> Edition:
        """With the runs of campaigns that are not in it yet. Runs that could not be executed, and
        those of which it is not known who judged them, are left out."""
        known = {group.key: group for group in self.groups}
        new: dict[tuple[str, str, str, str], dict[int, Result]] = {}
        for result in results:
            if failed(result) or not result.checkers:
                continue
            plan = SEED.sub("", result.command)
            key = (result.system, result.version, plan, result.checkers)
            if key not in known or result.seed not in known[key].seeds:
                new.setdefault(key, {})[result.seed] = result
        for key, runs in new.items():
            made = _group(key, list(runs.values()), simulated)
            known[key] = _added(known[key], made) if key in known else made
        return Edition(groups=[known[key] for key in sorted(known)])

    def matrix(self, checkers: str) -> Matrix:
        """The matrix of the groups that these checkers judged; `stale` has the cells of others."""
        squares: dict[tuple[str, str, str], Square] = {}
        stale: Counter[tuple[str, str, str]] = Counter()
        runs = 0
        for group in self.groups:
            current = group.checkers == checkers
            runs += len(group.seeds) * current
            for one in group.counts:
                place = (group.system, one.property, one.fault)
                if not current:
                    stale[place] += one.runs
                    continue
                square = squares.setdefault(place, Square(one.enough))
                square.include(_square(group.system, one))
        left = {place: n for place, n in stale.items() if place not in squares}
        return of_squares(squares, runs, left)


def read(text: bytes, where: str) -> Edition:
    """The edition of a file. UsageError if it is not one."""
    try:
        content = msgspec.json.decode(text)
        for group in _groups_of(content):
            group["seeds"] = _numbers(group.get("seeds"))
        edition = msgspec.convert(content, type=Edition)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{where}: not counts of a matrix: {error}") from error
    if edition.schema != SCHEMA:
        raise UsageError(f"{where}: unsupported schema {edition.schema!r}: expected {SCHEMA!r}")
    return edition


def text_of(edition: Edition) -> bytes:
    """The text of a file, a line per group; the same groups give the same text. Seeds that follow
    each other are a pair of the first and the last one."""
    lines = []
    for group in edition.groups:
        content = asdict(group)
        lines.append(msgspec.json.encode(content | {"seeds": _paired(content["seeds"])}))
    head = b'{"schema": ' + msgspec.json.encode(edition.schema) + b', "groups": [\n'
    return head + b",\n".join(lines) + b"\n]}\n"


def _groups_of(content: object) -> list[dict[str, object]]:
    groups = content.get("groups") if isinstance(content, dict) else None
    return [one for one in groups if isinstance(one, dict)] if isinstance(groups, list) else []


def _paired(seeds: Sequence[int]) -> list[list[int]]:
    """[1, 2, 3, 7] -> [[1, 3], [7, 7]]."""
    pairs: list[list[int]] = []
    for seed in seeds:
        if pairs and pairs[-1][1] == seed - 1:
            pairs[-1][1] = seed
        else:
            pairs.append([seed, seed])
    return pairs


def _numbers(seeds: object) -> object:
    """Seeds of a file as numbers: pairs of the first and the last one, or numbers. What is neither
    stays, to be refused."""
    try:
        pairs = msgspec.convert(seeds, type=list[int | tuple[int, int]])
    except msgspec.ValidationError:
        return seeds
    numbers: list[int] = []
    for one in pairs:
        first, last = (one, one) if isinstance(one, int) else one
        if not first <= last <= first + MOST_SEEDS:
            return seeds
        numbers.extend(range(first, last + 1))
    return numbers


def _group(
    key: tuple[str, str, str, str], runs: Sequence[Result], simulated: Collection[str]
) -> Group:
    system, version, plan, checkers = key
    table = matrix(runs, simulated)
    counts = [_count(prop, fault, one) for (_, prop, fault), one in table.squares.items()]
    seeds = sorted(run.seed for run in runs)
    return Group(
        system=system, version=version, plan=plan, checkers=checkers, seeds=seeds, counts=counts
    )


def _count(prop: str, fault: str, square: Square) -> Count:
    broken = square.proof.get(Verdict.VIOLATED, [])[:1]
    return Count(
        property=prop,
        fault=fault,
        enough=square.enough,
        runs=square.runs,
        unknown=square.unknown,
        early=square.early,
        promised=square.promised,
        sum=square.sum,
        several=dict(square.several),
        proofs=[
            ViolatingRun(
                key=run.key,
                command=run.command,
                sentence=run.properties[prop].sentence or run.properties[prop].reason,
            )
            for run in broken
        ],
    )


def _added(group: Group, more: Group) -> Group:
    """One group of the runs of two."""
    places = {(one.property, one.fault): one for one in group.counts}
    for one in more.counts:
        place = (one.property, one.fault)
        if place not in places:
            places[place] = one
            continue
        square = _square(group.system, places[place])
        square.include(_square(group.system, one))
        places[place] = replace(
            _count(*place, square), proofs=(places[place].proofs or one.proofs)[:1]
        )
    return replace(group, seeds=sorted({*group.seeds, *more.seeds}), counts=list(places.values()))


def _square(system: str, one: Count) -> Square:
    """The square of counts, with its proofs as results."""
    square = Square(
        enough=one.enough,
        sum=FaultSum().plus(one.sum),
        unknown=one.unknown,
        early=one.early,
        promised=one.promised,
        runs=one.runs,
        several=Counter(one.several),
    )
    for proof in one.proofs:
        outcome = Outcome(
            verdict=Verdict.VIOLATED, promised=one.promised > 0, sentence=proof.sentence
        )
        square.proof.setdefault(Verdict.VIOLATED, []).append(
            Result(
                key=proof.key, system=system, backend="", workload="", nemesis="", seed=0,
                verdict="VIOLATED", exit_code=1, command=proof.command,
                properties={one.property: outcome},
            )
        )  # fmt: skip
    return square
