"""Duplicates of a lock for efficiency are gated by their rate; of one for correctness by one."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from holdfast.harness.campaigns.baseline import Baseline
from holdfast.harness.campaigns.gate import Trouble, exit_code, judge, rules
from holdfast.harness.campaigns.results import Result, read, table
from holdfast.harness.core.errors import UsageError
from tests.harness.test_gate import run

ONE_PERCENT = rules(["duplicates:1%"])


def runs(*counts: tuple[int, int], purpose: str = "efficiency") -> list[Result]:
    """A run for each (duplicates, grants)."""
    return [
        replace(
            run(seed, "x" if duplicates else "+", exit_code=int(bool(duplicates))),
            purpose=purpose,
            duplicates=duplicates,
            grants=grants,
        )
        for seed, (duplicates, grants) in enumerate(counts, 1)
    ]


def judged(results: list[Result], rate: str = "duplicates:1%") -> tuple[int, list[Trouble]]:
    found = judge(results, Baseline(), rules([rate] if rate else []), date(2027, 1, 31))
    return exit_code(found), found


def test_few_duplicates_among_many_grants_pass_with_a_note() -> None:
    code, (note,) = judged(runs((1, 2000), (0, 2000)))
    assert (code, note.kind, note.code) == (0, "duplicates", 0)
    assert note.sentence == (
        "1 of 4000 grants were duplicates: 0.000633% to 0.139% (95% confidence), allowed 1%"
    )


def test_more_than_the_rate_fails_and_names_the_first_seed() -> None:
    code, (trouble,) = judged(runs((0, 500), (20, 500)))
    assert (code, trouble.kind, trouble.result and trouble.result.seed) == (1, "duplicates", 2)
    assert trouble.sentence.endswith("allowed 1%; first with seed 2")


@pytest.mark.parametrize("counts", [(0, 50), (1, 100), (0, 0)])
def test_too_few_grants_to_tell_are_inconclusive(counts: tuple[int, int]) -> None:
    code, (trouble,) = judged(runs(counts))
    assert (code, trouble.kind) == (3, "duplicates")
    assert trouble.sentence.endswith("more grants are needed")


def test_none_in_enough_grants_has_nothing_to_say() -> None:
    assert judged(runs((0, 4000))) == (0, [])


def test_of_a_lock_for_correctness_one_is_one_too_many() -> None:
    code, found = judged(runs((1, 4000), purpose="correctness"))
    assert (code, [one.kind for one in found]) == (1, ["violation"])


def test_without_a_rate_an_efficiency_lock_fails_by_its_promise_as_before() -> None:
    code, found = judged(runs((1, 4000)), rate="")
    assert (code, [one.kind for one in found]) == (1, ["violation"])


def test_other_broken_promises_of_such_a_lock_still_fail() -> None:
    broken = [replace(run(1, "x", prop="ownership", exit_code=1), purpose="efficiency")]
    code, found = judged([replace(one, grants=4000) for one in broken])
    assert (code, [one.kind for one in found]) == (1, ["violation"])


def test_an_allowed_rate_of_nothing_lets_no_duplicate_pass() -> None:
    assert judged(runs((1, 100_000)), "duplicates:0%")[0] == 1


def test_the_rate_is_written_like_any_other_measure() -> None:
    assert rules(["p99:25%,duplicates:0.5%"]).duplicates == 0.5
    with pytest.raises(UsageError, match="like duplicates:25%"):
        rules(["duplicates"])


def test_a_result_of_an_older_holdfast_is_read_and_judged_by_its_promise() -> None:
    row = table(run(1, "x", exit_code=1))
    for key in ("purpose", "duplicates", "grants"):
        del row[key]
    old = read(row, "x")
    assert (old.purpose, old.grants) == ("", 0)
    assert judged([old])[0] == 1
