"""Statistics: confidence bounds of a rate, and a rank test for "worse than"."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

CONFIDENCE = 0.95
EXACT_UP_TO = 2_000_000
"""Maximum steps of the exact rank test; beyond, the normal approximation is used."""
EXACT_EVENTS = 1000
_Z = 1.959964


def none_in(runs: int) -> float:
    """Upper bound of a rate after 0 events in `runs` runs (95%): 1 - 0.05 ** (1 / runs)."""
    return 1.0 if runs <= 0 else 1.0 - (1.0 - CONFIDENCE) ** (1.0 / runs)


def clopper_pearson(events: int, runs: int) -> tuple[float, float]:
    """The exact 95% confidence interval of a rate; one-sided if no run or every run has the event.

    Clopper and Pearson (1934), solved by bisection: the tails of a binomial are monotone. Beyond
    EXACT_EVENTS of both kinds the score interval of Wilson (1927), which is as good there.
    """
    if runs <= 0:
        return 0.0, 1.0
    if 2 * events > runs:
        low, high = clopper_pearson(runs - events, runs)
        return 1.0 - high, 1.0 - low
    if events > EXACT_EVENTS:
        return _wilson(events, runs)
    tail = (1.0 - CONFIDENCE) if events in (0, runs) else (1.0 - CONFIDENCE) / 2
    low = 0.0 if events == 0 else _solve(lambda p: 1.0 - at_most(events - 1, runs, p), tail)
    high = 1.0 if events == runs else _solve(lambda p: 1.0 - at_most(events, runs, p), 1.0 - tail)
    return low, high


def _wilson(events: int, runs: int) -> tuple[float, float]:
    share, spread = events / runs, _Z * _Z / runs
    middle = (share + spread / 2) / (1 + spread)
    reach = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    return middle - reach, middle + reach


def at_most(events: int, runs: int, rate: float) -> float:
    """Probability of at most `events` events in `runs` runs."""
    if rate <= 0.0:
        return 1.0
    if rate >= 1.0:
        return 1.0 if events >= runs else 0.0
    log_p, log_q = math.log(rate), math.log1p(-rate)
    whole = math.lgamma(runs + 1)
    terms = (
        whole - math.lgamma(k + 1) - math.lgamma(runs - k + 1) + k * log_p + (runs - k) * log_q
        for k in range(events + 1)
    )
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def _solve(rising: Callable[[float], float], goal: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < goal else (low, middle)
    return (low + high) / 2


def chance_of_greater(new: Sequence[float], old: Sequence[float]) -> float:
    """One-sided rank test of Mann and Whitney (1947): p-value of `new` ranking this high.

    1.0 if a side is empty. Exact for few values, also with ties, which count half; otherwise
    the normal approximation.
    """
    n, m = len(new), len(old)
    if not n or not m:
        return 1.0
    ranks = _doubled_ranks([*new, *old])
    seen = sum(ranks[:n])
    if n * len(ranks) * (sum(ranks) + 1) <= EXACT_UP_TO:
        return _exact(ranks, n, seen)
    mean = n * (n + m + 1)
    ties = sum((ranks.count(rank)) ** 2 - 1 for rank in ranks) / ((n + m) * (n + m - 1))
    spread = 2 * math.sqrt(n * m / 12 * ((n + m + 1) - ties))
    return 1.0 if not spread else 0.5 * math.erfc((seen - 1 - mean) / spread / math.sqrt(2))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the mean rank of each value, so that ties stay whole numbers."""
    order = sorted(values)
    first = {value: n for n, value in reversed(list(enumerate(order, 1)))}
    last = {value: n for n, value in enumerate(order, 1)}
    return [first[value] + last[value] for value in values]


def _exact(ranks: Sequence[int], n: int, seen: int) -> float:
    """Fraction of all choices of n ranks whose sum is at least `seen`."""
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(n)]
    for rank in ranks:
        for size in range(n, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + count
    reached = sum(count for total, count in ways[n].items() if total >= seen)
    return reached / math.comb(len(ranks), n)


def least_chance(new: int, old: int) -> float:
    """The smallest p-value that the rank test can give for these numbers of values."""
    return 1.0 / math.comb(new + old, new)
