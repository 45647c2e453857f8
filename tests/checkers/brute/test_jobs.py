"""Jobs done twice or never against a resource that counts the effects of each job itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from holdfast.checkers.properties.exactly_once_job import check
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.job_keys import job_key, mark_key
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history, table
from tests.draws import Draws

_TOLD = history("1a?:db@0 1a+1@1 2a?:db@1.5 1r?@2 1r+@3 2a+2@4 2r?@5 2r+@6").rows
CONTENDED = [dict(zip(_TOLD.dtype.names or (), row.tolist(), strict=True)) for row in _TOLD]
MARKS = ("with", "with", "after", "before")
Step = Iterator[None]


@dataclass(slots=True)
class World:
    """Clients whose steps come in any order. effects: how often each job really happened; known:
    jobs that somebody was told are done; careful: who gets no answer does not go on to the next."""

    rng: random.Random
    mark: str
    fenced: bool
    versions: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    effects: Counter[int] = field(default_factory=Counter)
    known: set[int] = field(default_factory=set)
    careful: bool = True
    rows: list[dict[str, int]] = field(default_factory=list)
    strings: list[str] = field(default_factory=lambda: ["", "db"])

    def run(self, jobs: int) -> Case:
        """Two or three owners, as a lock that failed let them in, each at its own pace."""
        owners = [self._owner(p, jobs) for p in range(1, self.rng.randint(2, 3) + 1)]
        while owners:
            owner = self.rng.choice(owners)
            # One in a few dies between two of its steps.
            if self.rng.random() < 0.04 or next(owner, StopIteration) is StopIteration:
                owners.remove(owner)
        merged = History(
            rows=table([*CONTENDED, *self.rows]), strings=self.strings, writers=tuple("abcdefghij")
        )
        return case(merged)

    def _owner(self, process: int, jobs: int) -> Step:
        name = job_key if self.mark == "with" else mark_key
        for number in range(jobs):
            yield
            version = self._ask(process, Op.READ, name("db", number))
            if version < 0 and self.careful:
                return
            if version > 0:
                self.known.add(number)
            if version != 0:
                continue
            yield
            if self.mark == "before" and self._ask(process, Op.WRITE, mark_key("db", number)) < 0:
                return
            yield
            done = self._ask(process, Op.WRITE, job_key("db", number))
            if done > 0:
                self.known.add(number)
            elif self.careful:
                return
            yield
            if done > 0 and self.mark == "after":
                self._ask(process, Op.WRITE, mark_key("db", number))

    def _ask(self, process: int, op: Op, key: str) -> int:
        """One request; the version that its client is told, -1 for none."""
        at = 10**10 + 10 * len(self.rows)
        if key not in self.strings:
            self.strings.append(key)
        asked = {
            "f": op, "process": process, "attempt": process << 32 | 1, "token": process,
            "key": self.strings.index(key), "t_inv": at, "t_ret": at + 3, "writer": process,
            "row": len(self.rows), "arg": -1, "res": -1,
        }  # fmt: skip
        served = {**asked, "f": Op.SERVED_READ if op is Op.READ else Op.SERVED_WRITE}
        served |= {"op": process << 32 | asked["row"], "writer": 9, "t_inv": at + 1}
        self.rows.append(asked)
        if self.fenced and process < self.highest.get(key, NO_TOKEN):
            asked["status"] = served["status"] = Status.FAIL
            self.rows.append(served)
            return -1
        self.highest[key] = max(process, self.highest.get(key, NO_TOKEN))
        version = self.versions.get(key, 0)
        if op is Op.WRITE:
            version = self.versions[key] = version + 1
            if not key.endswith(" done"):
                self.effects[int(key.partition("#")[2])] += 1
        served |= {"res": version, "status": Status.OK}
        self.rows.append(served)
        if self.rng.random() < 0.08:
            asked |= {"status": Status.INFO}
            return -1
        asked |= {"status": Status.OK, "res": version}
        return version


def really(world: World) -> tuple[set[int], set[int]]:
    """Jobs that happened twice, and jobs that never did though they are taken for done."""
    last = max(world.effects, default=-1)
    twice = {number for number, times in world.effects.items() if times > 1}
    # A job that nobody ever asked for by itself is no job yet.
    taken = world.known | {n for n in range(last) if _asked(world, n)}
    return twice, {number for number in taken if not world.effects[number]}


def _asked(world: World, number: int) -> bool:
    return any(key("db", number) in world.strings for key in (job_key, mark_key))


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "jobs")
    verdicts: Counter[str] = Counter()
    for _ in range(n):
        fenced, careful = rng.random() < 0.5, rng.random() < 0.8
        world = World(rng=rng, mark=rng.choice(MARKS), fenced=fenced, careful=careful)
        judged = world.run(rng.randint(2, 4))
        found = check(judged)
        twice, never = really(world)
        said = {kind: {int(f.sentence.split()[1]) for f in found.findings if f.kind == kind}
                for kind in ("job-done-twice", "job-never-done")}  # fmt: skip
        assert said == {"job-done-twice": twice, "job-never-done": never}, world
        assert (found.verdict is Verdict.VIOLATED) == bool(twice or never)
        if fenced and careful and world.mark == "with":
            assert not twice and not never, "a fenced effect that tells of itself is there once"
        verdicts[found.verdict] += 1
        verdicts["twice"] += bool(twice)
        verdicts["never"] += bool(never)
    return verdicts


def test_a_job_is_accused_if_and_only_if_it_was_done_twice_or_never(draws: Draws) -> None:
    verdicts = compare(1, draws(800))
    assert min(verdicts[Verdict.VIOLATED], verdicts[Verdict.HOLDS]) >= draws(100), verdicts
    assert min(verdicts["twice"], verdicts["never"]) >= draws(20), verdicts


@pytest.mark.power
def test_a_job_is_accused_if_and_only_if_it_was_done_twice_or_never_in_very_many_runs() -> None:
    verdicts = compare(2, 20_000)
    assert verdicts[Verdict.VIOLATED] >= 4_000 and verdicts[Verdict.HOLDS] >= 2_000, verdicts
