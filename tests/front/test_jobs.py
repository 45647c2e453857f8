"""One of many does each job: what a lock, a fence, a mark and a key of the command buy for that."""

from __future__ import annotations

import pytest

from holdfast.commands.scenario_command import plan_of
from holdfast.engine import seed_search
from holdfast.harness.core.json_value import plain
from holdfast.planning import prepare

NAME = "singleton-job"


def simulated(system: str, *options: str, **given: object) -> tuple[str, bool, set[str]]:
    """Verdict on exactly-once-job, whether it was promised, the kinds of finding."""
    chosen = dict(option.split("=") for option in options)
    if "mutant" in given:
        chosen["mutant"] = str(given.pop("mutant"))
    plan = plan_of(NAME, {"backend": "sim", "system": system, **given, "options": chosen})
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(plan), NAME, ""))
    rows = {row["property"]: row for row in plain(ran.verdicts)["verdicts"]}
    row = rows["exactly-once-job"]
    return row["verdict"], row["promised"], {finding["kind"] for finding in row["findings"]}


@pytest.mark.parametrize("system", ["cas", "idempotent"])
def test_without_a_lock_a_job_is_done_once_where_the_resource_sees_to_it(system: str) -> None:
    assert simulated(system) == ("HOLDS", True, set())


def test_without_a_lock_jobs_are_done_twice_and_nothing_was_promised() -> None:
    assert simulated("none") == ("VIOLATED", False, {"job-done-twice"})


def test_without_a_fence_a_late_owner_does_a_job_again() -> None:
    assert simulated("reference", resource="unfenced") == ("VIOLATED", False, {"job-done-twice"})


def test_a_mark_before_the_effect_is_at_most_once() -> None:
    verdict, promised, kinds = simulated("reference", "mark=2")
    assert (verdict, promised) == ("VIOLATED", False) and kinds == {"job-never-done"}


def test_a_mark_after_the_effect_is_at_least_once() -> None:
    found = [simulated("reference", "mark=1", "writes=1", seed=seed) for seed in range(1, 9)]
    assert {"job-done-twice"} in [kinds for _, _, kinds in found]
    assert not any(promised or "job-never-done" in kinds for _, promised, kinds in found)


@pytest.mark.parametrize("mutant", ["forgotten-jobs", "unchecked-tokens"])
def test_a_resource_that_forgets_or_does_not_look_lets_a_job_be_done_twice(mutant: str) -> None:
    found = simulated("reference", mutant=mutant)
    assert found == ("VIOLATED", True, {"job-done-twice"})
