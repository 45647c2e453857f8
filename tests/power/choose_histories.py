"""Chooses histories that tell mutants from the code as it is.

    python -m tests.power.choose_histories COUNT [MUTANTS [WORKERS]]

Of COUNT histories of each kind of `tests/checkers/chosen_histories.py`, those are added to
`chosen_histories.txt` that tell a mutant of the checkers or the verifier which no recorded history
tells: the fewest that tell them all. MUTANTS of them at random are asked (default: all). A mutant
is asked by the histories in which its changed expression has another value (`probes.py`), of the
recorded ones by KNOWN_TRIES at most, of the further ones by TRIES.

Afterwards `python -m tests.checkers.recorded_verdicts` writes what is said of them.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import Case
from tests.checkers.chosen_histories import CHOSEN, chosen, history_of, names
from tests.checkers.recorded_verdicts import CHECKERS, groups, said_of
from tests.power.mutate import Fork, Mutant, bound_cpu, mutants, put_in, put_probes_in

KNOWN_TRIES, TRIES, WANTED = 80, 300, 8
"""WANTED: histories of which one is enough."""
SECONDS = 20
"""CPU time in which one thing is said of a history; a mutant that takes longer runs in a loop."""
Histories = Sequence[tuple[str, Case]]
"""Per history a property about which the verifier is told falsehoods, or what is none."""
Unit = tuple[int, str]
"""One thing that is said of the n-th history: a property's verdict, or "" for the answers to
falsehoods."""
Told = dict[Unit, tuple[bytes, npt.NDArray[np.uint16]]]
"""Per unit a digest of what is said, and the mutants that could be told there."""


def in_parts(workers: int, work: Callable[[int], bytes]) -> list[bytes]:
    """What each worker came to."""
    found = []
    for fork in [Fork(partial(work, worker)) for worker in range(workers)]:
        code, data = fork.ended()
        assert code == 0, "a worker failed"
        found.append(data)
    return found


def watched(histories: Histories, every: Sequence[Mutant], workers: int) -> Told:
    """All units of these histories."""

    def work(worker: int) -> bytes:
        digests = {
            (n, unit): said_of(one, unit, prop)
            for n, (prop, one) in enumerate(histories)
            if n % workers == worker
            for unit in (*CHECKERS, *([""] if prop in CHECKERS else []))
        }
        probes, told = put_probes_in(every), Told()
        probes.taken()
        for (n, unit), digest in digests.items():
            prop, one = histories[n]
            said_of(one, unit, prop)
            told[n, unit] = digest, np.array(probes.taken(), np.uint16)
        return pickle.dumps(told)

    told = Told()
    for data in in_parts(workers, work):
        told |= pickle.loads(data)
    return told


def by_mutant(told: Told) -> dict[int, list[Unit]]:
    """Per mutant the units that could tell it, in any order."""
    found = defaultdict[int, list[Unit]](list)
    every = list(told)
    random.Random("order").shuffle(every)
    for unit in every:
        for mutant in told[unit][1].tolist():
            found[mutant].append(unit)
    return found


def tellers(units: Sequence[Unit], histories: Histories, told: Told, wanted: int) -> list[int]:
    """The histories among these units of which something else is said now, `wanted` at most."""
    found = list[int]()
    for n, unit in units:
        if n in found:
            continue
        prop, one = histories[n]
        bound_cpu(SECONDS)
        try:
            differs = said_of(one, unit, prop) != told[n, unit][0]
        except Exception:
            differs = True
        if differs:
            found.append(n)
            if len(found) == wanted:
                break
    return found


def fewest(telling: Mapping[int, Sequence[str]]) -> list[str]:
    """Names of histories that tell all these mutants: always the one that tells most of the rest.

    telling   mutant -> histories of which each tells it
    """
    by_name = defaultdict[str, set[int]](set)
    for mutant, found in telling.items():
        for name in found:
            by_name[name].add(mutant)
    left, enough = set(telling), list[str]()
    while left:
        enough.append(max(by_name, key=lambda name: (len(by_name[name] & left), name)))
        left -= by_name[enough[-1]]
    return enough


class Choice:
    """Mutants against the recorded histories, then against further ones."""

    def __init__(self, count: int, workers: int) -> None:
        self.every, self.workers = mutants(), workers
        self.names = [name for name in names(count) if name not in chosen()]
        self.known = [one for group in groups().values() for one in group]
        self.more = [history_of(name) for name in self.names]
        self.told_known = watched(self.known, self.every, workers)
        self.told_more = watched(self.more, self.every, workers)
        self.of_known, self.of_more = by_mutant(self.told_known), by_mutant(self.told_more)

    def telling(self, asked: Sequence[int]) -> dict[int, Sequence[str]]:
        """Mutants that no recorded history tells -> the further ones that do."""
        gc.collect()
        gc.freeze()  # the children's collections would copy all that the histories take
        found = dict[int, Sequence[str]]()
        for data in in_parts(self.workers, partial(self._judge, asked)):
            found |= pickle.loads(data)
        return found

    def _judge(self, asked: Sequence[int], worker: int) -> bytes:
        counts, found = Counter[str](), dict[int, list[str]]()
        for mutant in asked[worker :: self.workers]:
            code, data = Fork(partial(self._ask, mutant)).ended()
            came = "told by recorded ones"
            if code == 0:
                found[mutant] = [self.names[n] for n in pickle.loads(data)]
                came = "told" if found[mutant] else "not told"
            elif code != 1:
                came = "in a loop"
            counts[came] += 1
        sys.stderr.write(f"{dict(counts)}, {sum(os.times()[:4]):.0f} s of CPU\n")
        return pickle.dumps({mutant: told for mutant, told in found.items() if told})

    def _ask(self, mutant: int) -> bytes | None:
        put_in(self.every[mutant])
        if tellers(self.of_known[mutant][:KNOWN_TRIES], self.known, self.told_known, 1):
            return None
        more = self.of_more[mutant][:TRIES]
        return pickle.dumps(tellers(more, self.more, self.told_more, WANTED))


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    count, most, workers = [*given, *(0, 1)[len(given) - 1 :]]
    choice = Choice(count, workers)
    asked = list(range(len(choice.every)))
    asked = random.Random("choose").sample(asked, most or len(asked))
    more = fewest(choice.telling(asked))
    CHOSEN.write_text("".join(f"{name}\n" for name in (*chosen(), *more)))
    sys.stderr.write(f"{len(more)} of {len(choice.more)} histories chosen\n")


if __name__ == "__main__":
    main()
