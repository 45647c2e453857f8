"""Histories at random in which clients do everything, all at a few whole seconds.

Like `small_histories`, with queries, writes at the resource, tries and notices: answers are what
chance makes them, so that most histories break something, and nearly all moments meet another.
"""

from __future__ import annotations

import random
from dataclasses import replace

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE
from tests.checkers.shorthand import case
from tests.checkers.small_histories import promises

Words = list[tuple[float, str]]
HALF = SECOND // 2
ANSWERS = ("+", "+", "+", "+", "-", "~", "!", "")
"""Of a call; the last: none ever."""


class _Client:
    """The words of one client, whose calls come one after the other."""

    def __init__(self, chance: random.Random, number: int, locks: str) -> None:
        self.chance, self.number, self.locks = chance, number, locks
        self.now, self.words = float(chance.choice((1, 1, 2, 3))), Words()

    def say(self, word: str, at: float | None = None) -> None:
        self.words.append((self.now if at is None else at, f"{self.number}{word}"))

    def call(self, what: str, asks: str = "", answer: str = "+", tells: str = "") -> None:
        """One call, its answer, and the time that both take."""
        self.say(f"{what}?{asks}")
        self.now += self.chance.choice((0, 0, 1, 1, 2))
        if answer:
            self.say(f"{what}{answer}{tells}")
        self.now += self.chance.choice((0, 0, 1))

    def attempt(self) -> None:
        chance = self.chance
        lock, lease = chance.choice(self.locks), chance.choice((1, 2, 3, 5))
        token, answer = chance.choice((1, 2, 2, 3, 4)), chance.choice(ANSWERS)
        if chance.random() < 0.4:
            self.say(f"Q:{lock}", self.now + chance.choice((0, 0, 1)))
            self.words.insert(-1, (self.now, f"{self.number}a?:{lock}/{lease}"))
            self.now = max(self.now + chance.choice((0, 1, 2)), self.words[-1][0])
            if answer:
                self.say(f"a{answer}{token if answer == '+' else ''}:{lock}")
        else:
            kind = chance.choice("at")
            tells = f"{token}:{lock}" if answer == "+" else f":{lock}"
            self.call(kind, f":{lock}/{lease}", answer, tells)
        for _ in range(chance.choice((0, 1, 2, 3, 4))):
            self._then(lock, token)

    def _then(self, lock: str, token: int) -> None:
        chance, of = self.chance, f":{lock}"
        act = chance.choice("nnnrrrwwwwdqqkklcLChf")
        answer = chance.choice(ANSWERS)
        if act in "wd":
            self._request(act, of)
        elif act == "q":
            named = chance.choice(("", f"{token}{of}={chance.choice((0, 0, 1))}", f"1{of}=0"))
            self.call("q", of, "+", named or of)
        elif act in "kl":
            self.call(act, of, chance.choice("+++-"), f"{of}={chance.choice((0, 0, 1, 2))}")
        elif act == "c":
            self.call("c", of, chance.choice("+-"), of)
        elif act in "LC":
            self.say(f"{act}{of if act == 'L' else ''}")
        else:
            self.call(act, of, answer, of)

    def _request(self, what: str, of: str) -> None:
        """A write or read, with what the resource did of it."""
        chance = self.chance
        based = f"={chance.randrange(3)}" if what == "w" and chance.random() < 0.5 else ""
        self.say(f"{what}?{of}{based}")
        self.now += chance.choice((0, 0, 1, 2))
        decided = chance.choice("+++-")
        self.say(f"{'S' if what == 'w' else 'D'}{decided}{of}")
        self.now += chance.choice((0, 1))
        if chance.random() < 0.9:
            self.say(f"{what}{decided}{of}")


def busy(chance: random.Random) -> Case:
    """One of them, under promises at random."""
    count, words = chance.choice((2, 2, 3)), Words()
    locks = chance.choice(("x", "x", "x", "xy"))
    for number in range(count):
        client = _Client(chance, number, locks)
        for _ in range(chance.choice((1, 1, 2))):
            client.attempt()
        words += client.words
    text = " ".join(f"{word}@{at}" for at, word in sorted(words, key=lambda one: one[0]))
    windows = []
    for n in range(chance.choice((0, 0, 1, 1, 2))):
        begin, do = chance.randrange(1, 9), chance.choice(("kill", "kill", "pause", "partition"))
        nodes = tuple(chance.sample(("c0", "c1", "n1", "n2", "n3"), chance.choice((1, 2))))
        windows.append(
            Window(
                id=f"w{n}", do=do, target="some", nodes=nodes, from_ns=begin * SECOND,
                to_ns=(begin + chance.randrange(4)) * SECOND, effective=chance.random() < 0.9,
                evidence={}, traits=BEFORE[do],
            )
        )  # fmt: skip
    options = {"resource": "fenced", "servers": chance.choice(("1", "2", "3", "4"))}
    error_ns = chance.choice((0, 0, 0, HALF, SECOND))
    given = case(text, windows=tuple(windows), options=options, error_ns=error_ns)
    said = replace(promises(chance), subtrees=False, reasons=chance.random() < 0.5)
    kinds = ("kill", "pause", "partition")[: chance.randrange(4)]
    return replace(given, promises=said, lease_ns=3 * SECOND, kinds=kinds)
