"""The compiled pass says "clean" of nothing in which the exact pass finds a contradiction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.checking import drawn

from holdfast.checkers.linearizability.exact import compiled
from holdfast.checkers.linearizability.exact.pairing import LockColumns, paired
from holdfast.checkers.linearizability.exact.rules import Rule, conflicts
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.seeds import stream
from tests import needs
from tests.checkers.models import histories
from tests.checkers.models.test_brute_force import BENCHES, NAMES

RULES = {
    "owner-mutex": Rule(),
    "fenced": Rule(tokens=True),
    "lease-mutex": Rule(leases=True),
}
SUITE, POWER = 600, 20_000


@pytest.fixture
def nothing_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The exact pass by numpy alone, whatever this user has built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled._loaded.cache_clear()
    yield
    compiled._loaded.cache_clear()


def clean(columns: LockColumns, rule: Rule) -> bool:
    return compiled.clean(columns, leases=rule.leases, tokens=rule.tokens)


def small(name: str, count: int) -> Iterator[LockColumns]:
    bench = BENCHES[name]
    for n in range(count):
        ops = histories.drawn(stream(17, name, n), bench.play, NAMES[n % 3], bench.harm)
        yield paired(ops).columns


def compare(name: str, count: int) -> Counter[tuple[bool, bool]]:
    """How often (nothing contradicts, clean) was said; without the pass first, then with it."""
    rule = RULES[name]
    right = [not conflicts(columns, rule) for columns in small(name, count)]
    needs.binary("cc")
    compiled.build()
    quick = [clean(columns, rule) for columns in small(name, count)]
    return Counter(zip(right, quick, strict=True))


@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("name", RULES)
def test_what_the_compiled_pass_calls_clean_has_no_contradiction(name: str) -> None:
    said = compare(name, SUITE)
    assert not said[False, True], said
    assert said[False, False] >= 0.2 * SUITE, said
    assert said[True, True] >= 0.2 * SUITE, said


@pytest.mark.power
@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("name", RULES)
def test_the_same_of_many_more(name: str) -> None:
    assert not compare(name, POWER)[False, True]


@pytest.mark.usefixtures("nothing_built")
@pytest.mark.parametrize("locks", [1, 7])
def test_a_big_history_is_clean_until_something_is_planted(locks: int) -> None:
    needs.binary("cc")
    compiled.build()
    for violation in (False, True):
        columns = drawn(20_000, clients=5, locks=locks, unknown=0.2, violation=violation, seed=3)
        for rule in RULES.values():
            assert clean(columns, rule) is not violation
            assert bool(conflicts(columns, rule)) is violation


@pytest.mark.usefixtures("nothing_built")
def test_without_the_compiled_pass_numpy_says_it_all() -> None:
    columns = drawn(2_000, clients=5, locks=2, unknown=0.2, violation=True, seed=3)
    assert not clean(columns, Rule())
    assert [found.kind for found in conflicts(columns, Rule())] == ["double-hold"]


@pytest.mark.usefixtures("nothing_built")
def test_without_a_compiler_building_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(EnvironmentFailed, match="install gcc"):
        compiled.build()
