"""Answers about the holder against every execution that the calls allow."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, product

import pytest

from holdfast.checkers.properties.truthful_queries import check
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, attempt_id, carried, spent
from holdfast.harness.core.seeds import stream
from tests.checkers.certified import told as proved
from tests.checkers.certified import verified
from tests.checkers.shorthand import case, history
from tests.draws import Draws

NOBODY = 0


@dataclass(frozen=True, slots=True)
class Held:
    """One attempt in steps: its acquire and its release, both answered ok, by their calls and
    returns."""

    process: int
    token: int
    inv: int
    ret: int
    freed: int
    out: int


def holds(rng: random.Random) -> list[Held]:
    """Two or three attempts as a lock that does right lets them in; their calls overlap."""
    made, at = [], 2
    for token in range(1, rng.randint(2, 3) + 1):
        grant = at + rng.randint(0, 2)
        end = grant + rng.randint(1, 4)
        inv, ret = max(0, grant - rng.randint(0, 3)), grant + rng.randint(0, min(2, end - grant))
        freed = rng.randint(ret, end)
        made.append(Held(token, token, inv, ret, freed, end + rng.randint(0, 2)))
        at = end
    return made


def executions(made: list[Held]) -> list[tuple[tuple[int, int], ...]]:
    """Every choice of the steps at which grants and releases took effect, in order of tokens."""
    spans = [
        [(g, f) for g in range(h.inv, h.ret + 1) for f in range(h.freed, h.out + 1) if g <= f]
        for h in made
    ]
    return [
        one
        for one in product(*spans)
        if all(before[1] <= after[0] for before, after in pairwise(one))
    ]


def possible(made: list[Held], answer: int, inv: int, ret: int) -> bool:
    """Whether in some execution the answer is true at some moment of the query."""
    for one in executions(made):
        if answer == NOBODY:
            ends = (0, *(freed for _, freed in one)), (*(g for g, _ in one), 1 << 30)
            if any(max(low, inv) <= min(high, ret) for low, high in zip(*ends, strict=True)):
                return True
        elif answer <= len(one):
            grant, freed = one[answer - 1]
            if max(grant, inv) <= min(freed, ret):
                return True
    return False


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "queries")
    seen: Counter[str] = Counter()
    for _ in range(n):
        made = holds(rng)
        inv = rng.randint(0, max(h.out for h in made) + 2)
        ret, answer = inv + rng.randint(0, 4), rng.randint(0, len(made) + (rng.random() < 0.2))
        # Within a step calls come first and answers last, so that touching spans meet.
        words = [(10 * inv + 1, "9q?"), (10 * ret + 8, f"9q+{answer or ''}=0")]
        for h in made:
            words += [
                (10 * h.inv + 2, f"{h.process}a?"),
                (10 * h.ret + 6, f"{h.process}a+{h.token}"),
            ]
            words += [(10 * h.freed + 7, f"{h.process}r?"), (10 * h.out + 9, f"{h.process}r+")]
        text = " ".join(f"{word}@{at}" for at, word in sorted(words))
        told = history(text, lease=10_000)
        whose = rng.choice([answer, answer, *(h.token for h in made)])
        told.strings.append(carried(attempt_id(whose, 1)))  # type: ignore[attr-defined]
        told.rows["err"][told.rows["f"] == Op.HOLDER] = len(told.strings) - 1
        found = check(case(told)).findings
        true = possible(made, answer, inv, ret) and (answer == NOBODY or whose == answer)
        assert bool(found) != true, (text, whose, found)
        seen["another's text"] += whose != answer
        seen["false" if found else "true"] += 1
        seen["nobody"] += answer == NOBODY
    return seen


EXCLUDES = {"keeps": {"token-order": ("any",), "mutual-exclusion": ("any",)}}


def compare_unknown(seed: int, n: int) -> Counter[str]:
    """The same beside an acquire without a response, which may be granted once all others are over
    and is then held for good: a response that names its token."""
    rng = stream(seed, "unknown")
    seen: Counter[str] = Counter()
    for _ in range(n):
        made = holds(rng)
        token, asked = len(made) + 1, rng.randint(0, 8)
        inv = rng.randint(0, max(h.out for h in made) + 2)
        ret = inv + rng.randint(0, 4)
        if rng.random() < 0.6:
            held = rng.choice(made)
            inv = rng.randint(held.ret, held.freed)
            ret = rng.randint(inv, max(inv, held.freed - 1))
        words = [(10 * inv + 9, "9q?"), (10 * ret + 9.5, f"9q+{token}=0"), (10 * asked + 3, "8a?")]
        for h in made:
            words += [
                (10 * h.inv + 2, f"{h.process}a?"),
                (10 * h.ret + 6, f"{h.process}a+{h.token}"),
                (10 * h.freed + 7, f"{h.process}r?"),
                (10 * h.out + 9, f"{h.process}r+"),
            ]
        text = " ".join(f"{word}@{at}" for at, word in sorted(words))
        rows = history(text, lease=10_000)
        rows.strings.append("")  # type: ignore[attr-defined]
        rows.rows["err"][rows.rows["f"] == Op.HOLDER] = len(rows.strings) - 1
        given = case(rows, promises=EXCLUDES)
        found = check(given).findings
        true = any(max(asked, one[-1][1]) <= ret for one in executions(made))
        assert not (found and true), (text, found)
        if found:
            assert verified(given, proved(given, check(given))).accepted == len(found)
        else:
            # A hold that none of its rows shows throughout the query proves nothing.
            shown = any(h.ret <= inv and ret < h.freed for h in made)
            assert true or asked > ret or not shown, text
        beside = any("two held at once" in finding.sentence for finding in found)
        seen["beside" if beside else "false" if found else "true" if true else "missed"] += 1
    return seen


def test_a_name_that_is_not_known_is_false_only_where_no_execution_makes_it_true(
    draws: Draws,
) -> None:
    seen = compare_unknown(5, draws(600))
    assert min(seen["beside"], seen["true"]) >= draws(60), seen


@pytest.mark.power
def test_a_name_that_is_not_known_is_false_only_where_none_does_in_very_many_histories() -> None:
    seen = compare_unknown(6, 20_000)
    assert min(seen["beside"], seen["true"]) >= 2_000, seen


def told_for(
    made: list[Held], answer: int, age: int, query: tuple[int, int]
) -> tuple[History, str]:
    """The history of holds and of one question, answered with a hold and its age in steps."""
    inv, ret = query
    # Within a step calls come first and answers last, so that touching spans meet.
    words = [(10 * inv + 1, "9q?"), (10 * ret + 8, f"9q+{answer}=0")]
    for h in made:
        words += [(10 * h.inv + 2, f"{h.process}a?"), (10 * h.ret + 6, f"{h.process}a+{h.token}")]
        words += [(10 * h.freed + 7, f"{h.process}r?"), (10 * h.out + 9, f"{h.process}r+")]
    text = " ".join(f"{word}@{at}" for at, word in sorted(words))
    found = history(text, lease=10_000)
    found.rows["spent"][found.rows["f"] == Op.HOLDER] = spent(10 * age * SECOND, None)
    return found, text


def compare_ages(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "ages")
    seen: Counter[str] = Counter()
    for _ in range(n):
        made = holds(rng)
        answer = min(rng.randint(1, len(made)) for _ in range(2))
        held = made[answer - 1]
        inv = rng.randint(held.inv, held.freed)
        query, age = (inv, inv + rng.randint(0, 3)), rng.randint(0, 9)
        true = any(
            max(query[0], grant) <= grant + age <= min(query[1], freed)
            for grant, freed in (one[answer - 1] for one in executions(made))
        )
        told, text = told_for(made, answer, age, query)
        found = check(case(told)).findings
        assert not (found and true), (text, age, found)
        alone = answer == 1 and held.freed >= query[1]
        # Of a hold between others, or given back meanwhile, the checker looks at less than all.
        assert found or true or not alone, (text, age)
        seen["false" if found else "true" if true else "missed"] += 1
        seen["exact"] += alone
    return seen


def test_an_age_is_false_only_where_no_execution_makes_it_true(draws: Draws) -> None:
    seen = compare_ages(3, draws(600))
    assert min(seen["false"], seen["true"], seen["exact"]) >= draws(120), seen


@pytest.mark.power
def test_an_age_is_false_only_where_no_execution_does_in_very_many_histories() -> None:
    seen = compare_ages(4, 20_000)
    assert min(seen["false"], seen["true"], seen["exact"]) >= 4_000, seen


def test_an_answer_is_false_if_and_only_if_no_execution_makes_it_true(draws: Draws) -> None:
    seen = compare(1, draws(600))
    least = min(seen["false"], seen["true"], seen["nobody"], seen["another's text"])
    assert least >= draws(120), seen


@pytest.mark.power
def test_an_answer_is_false_if_and_only_if_no_execution_does_in_very_many_histories() -> None:
    seen = compare(2, 20_000)
    assert min(seen["false"], seen["true"], seen["nobody"]) >= 4_000, seen
