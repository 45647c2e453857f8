"""Options of a workload, and workloads of the user."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load_file
from holdfast.harness.core.ports import ABILITIES
from holdfast.workloads import user_workload
from holdfast.workloads.shape import DEFAULTS, TURNS, Shape
from holdfast.workloads.user_workload import UserWorkload


def test_every_option_sets_its_own_field_and_nothing_else() -> None:
    usual = Shape.of({})
    names = {one.name for one in fields(Shape)}
    for option in DEFAULTS:
        name = option.removesuffix("_ms") + "_ns" if option.endswith("_ms") else option
        if option == "workers":
            assert Shape.of({option: "7"}) == usual and name not in names
            continue
        made = Shape.of({option: "7"})
        changed = {one for one in names if getattr(made, one) != getattr(usual, one)}
        assert changed == {name}
        value = getattr(made, name)
        assert value in (True, 7, 7 * MILLISECOND) and (value != 7 * MILLISECOND or name != option)
    assert (usual.gap_ns, usual.writes, usual.wait_ns) == (8 * MILLISECOND, 4, 5000 * MILLISECOND)


@pytest.mark.parametrize("option", ["permits", "renew_pct"])
def test_counts_that_cannot_be_zero_are_one(option: str) -> None:
    assert [getattr(Shape.of({option: text}), option) for text in ("0", "1", "2")] == [1, 1, 2]


def test_a_pause_of_zero_can_be_sampled_by_every_workload() -> None:
    think_ns = Shape.of({"think_ms": "0"}).think_ns
    rng = random.Random(1)
    assert 0 < rng.randrange(1, think_ns) < 1000 and 0 < rng.randrange(1, 2 * think_ns) < 1000


def test_spread_renewals_are_as_many_as_turns_within_their_bounds() -> None:
    shape = Shape.of({"renew_pct": "50", "renew_spread_pct": "20"})
    found = shape.renewals_ns(random.Random(3), 1000)
    assert len(found) == TURNS and len(set(found)) > 4
    assert 300 <= min(found) < 400 and 600 < max(found) <= 700
    twice = shape.renewals_ns(random.Random(3), 1000)
    assert twice == found


@pytest.mark.parametrize(
    ("look", "renewed", "passed_ns", "gives_up"),
    [("0", False, 99, False), ("1", False, 0, True), ("1", True, 9, False),
     ("1", True, 10, True), ("1", True, 11, True), ("0", True, 11, False)],
)  # fmt: skip
def test_an_owner_that_looks_gives_up_when_its_lease_is_over(
    look: str, renewed: bool, passed_ns: int, gives_up: bool
) -> None:
    assert Shape.of({"look": look}).gives_up(renewed, passed_ns, 10) is gives_up


async def client(ctx: list[str]) -> None:
    ctx.append("called")


def test_a_workload_of_the_user_is_called_and_has_what_it_asks_for() -> None:
    made = UserWorkload("Mine", SimpleNamespace(client=client, ASKS="ownership"))
    assert (made.ASKS, made.NEEDS) == (("ownership",), ())
    able = sorted(ABILITIES)[:2]
    more = UserWorkload("Mine", SimpleNamespace(client=client, ASKS=["a", "b"], NEEDS=able))
    assert more.ASKS == ("a", "b") and [*more.NEEDS] == able
    seen: list[str] = []
    asyncio.run(made(seen))
    assert seen == ["called"]


def test_all_mistakes_of_a_workload_are_told_at_once() -> None:
    with pytest.raises(UsageError) as told:
        UserWorkload("Mine", SimpleNamespace(client=print, NEEDS=["fly", *sorted(ABILITIES)[:1]]))
    assert told.value.problems == (
        "workload Mine: missing `client`, a coroutine function with one argument",
        "workload Mine: missing ASKS, the properties that it requests",
        "workload Mine: NEEDS: unknown ability 'fly'",
    )
    with pytest.raises(UsageError) as told:
        UserWorkload("Mine", SimpleNamespace(ASKS=["a"]))
    assert len(told.value.problems) == 1


def test_a_workload_is_found_by_its_module_and_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n ASKS = ('a',)\n async def client(ctx): ...\n")
    load_file("mine_of_a_test", path)
    try:
        assert user_workload.__getattr__("mine_of_a_test.Mine").ASKS == ("a",)
        with pytest.raises(AttributeError, match="Mine"):
            user_workload.__getattr__("Mine")
        with pytest.raises(UsageError, match="has no 'Yours'"):
            user_workload.__getattr__("mine_of_a_test.Yours")
    finally:
        del sys.modules["mine_of_a_test"]
