"""Which runs a hunt makes, in which order: each generic situation once, then further ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.harness.core import seeds
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan
from holdfast.hunting.situations import SITUATIONS, Situation
from holdfast.hunting.subject import Subject, Variant
from holdfast.planning import prepare

FIRST_LOOK = 2
"""Ways of use with at most this number of options apart from the default get a run of their own."""
OTHER_RELEASE_IN = 3
"""After the first pass one run of this number has another release than the one under test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One run of a hunt: its plan, with the situation, the way of use and the release of it.

    turn   how often all situations had been tried before: 0 in the first pass
    """

    number: int
    turn: int
    situation: str
    variant: Variant
    release: str
    plan: Plan


class Agenda:
    """The runs of a hunt, in order; deterministic from the seed and from what was dropped."""

    def __init__(
        self,
        subject: Subject,
        seed: int,
        situations: Mapping[str, Situation] = SITUATIONS,
    ) -> None:
        self._subject, self._seed, self._situations = subject, seed, situations
        self._dropped: list[Variant] = []
        self._number = 0

    def drop(self, variant: Variant) -> None:
        """No further run with this way of use: the library does not grant with it."""
        if variant not in self._dropped:
            self._dropped.append(variant)

    def settled(self, variant: Variant) -> None:
        """No further run with this way of use, unless it is the last one: two clients held
        one lock even without faults, so that every other run with it would show the same."""
        if len(self.left()) > 1:
            self.drop(variant)

    def left(self) -> list[Variant]:
        """The ways of use that were not dropped."""
        return [one for one in self._subject.variants if one not in self._dropped]

    def runs(self) -> Iterator[Trial]:
        """Without end, unless every way of use is dropped."""
        under_test = self._subject.release
        first = next(iter(self._situations))
        for variant in self._subject.variants:
            if len(variant.options) < FIRST_LOOK:
                yield self._trial(first, variant, under_test, 0)
        rng = seeds.stream(self._seed, "hunt", "order")
        others = [name for name in self._subject.releases if name != under_test] or [under_test]
        bounds = {variant.bound for variant in self._subject.variants}
        ordered = sorted(
            self._situations,
            key=lambda name: bounds.isdisjoint(self._situations[name].first_for),
        )
        turn = 0
        while self.left():
            for name in ordered:
                fitting = self._fitting(name)
                if not fitting or (name == first and turn == 0):
                    continue
                other = turn > 0 and rng.randrange(OTHER_RELEASE_IN) == 0
                release = rng.choice(others) if other else under_test
                yield self._trial(name, fitting[turn % len(fitting)], release, turn)
            turn += 1

    def _fitting(self, name: str) -> list[Variant]:
        """The ways of use for a situation, those that it prefers first."""
        situation = self._situations[name]
        fitting = [one for one in self.left() if one.suits(situation, python=self._subject.python)]
        # A stable sort: among equals the one nearest to the default comes first.
        return sorted(fitting, key=lambda one: _preferred(one, situation.prefers), reverse=True)

    def _trial(self, name: str, variant: Variant, release: str, turn: int) -> Trial:
        self._number += 1
        rng = seeds.stream(self._seed, "hunt", "run", self._number)
        options = {**self._subject.options(release), **variant.given()}
        plan = self._situations[name].plan(rng, variant.system, options)
        return Trial(
            number=self._number,
            turn=turn,
            situation=name,
            variant=variant,
            release=release,
            plan=plan,
        )


def runnable(
    subject: Subject,
    situations: Mapping[str, Situation] = SITUATIONS,
    complete: Callable[[Plan], object] = prepare.complete,
) -> tuple[dict[str, Situation], dict[str, str]]:
    """The situations that this machine can run, and why it cannot run each of the others: without
    network namespaces there are no faults on the links of one client. UsageError if none is left.
    """
    kept, refused = dict[str, Situation](), dict[str, str]()
    for name, situation in situations.items():
        suits = (one for one in subject.variants if one.suits(situation, python=subject.python))
        variant = next(suits, None)
        if variant is None:
            continue
        options = {**subject.options(subject.release), **variant.given()}
        try:
            complete(situation.plan(seeds.stream(0, "hunt", name), variant.system, options))
        except UsageError as error:
            refused[name] = str(error).splitlines()[0]
        else:
            kept[name] = situation
    if not kept:
        raise UsageError(*dict.fromkeys(refused.values()))
    return kept, refused


def _preferred(variant: Variant, prefers: Mapping[str, str]) -> tuple[int, int]:
    """The number of preferred values that it has, and whether its fencing tokens can be judged."""
    return len(prefers.items() & variant.options.items()), variant.tokens


def at_release(plan: Plan, library: str) -> Plan:
    """The same plan with another release of its library."""
    return replace(plan, options={**plan.options, "library": library})


def releases_of(trials: Sequence[Trial]) -> list[str]:
    """The releases that runs had, each once."""
    return list(dict.fromkeys(trial.release for trial in trials))
