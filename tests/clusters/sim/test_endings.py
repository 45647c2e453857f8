"""A simulated run that is ended at any step leaves no coroutine that Python reports."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.clusters.backends.sim import endings
from tests.clusters.sim.ended_at_each_step import all_said
from tests.clusters.sim.small import SECOND, Small

KILLS = "kill:target=all,every=2s,for=1500ms"
SYSTEMS = {"reference": 41, "chubby": 83, "majority": 307, "redlock": 701, "single": 67}
"""With the steps of a run between two at which it is ended."""


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.power)])
def test_a_run_that_is_ended_at_a_step_prints_nothing(system: str, each: bool) -> None:
    """Of a cluster whose servers are killed: the driver starts them again while it tears down."""
    words = (system, KILLS, "3", "1" if each else str(SYSTEMS[system]), "3")
    done = subprocess.run(
        [sys.executable, "-m", "tests.clusters.sim.ended_at_each_step", *words],
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    tried = json.loads(done.stdout)
    assert tried["steps"] > 30
    assert tried["left"] == {}


class Ways:
    """Coroutines that are suspended, and what they do on their way out."""

    def __init__(self) -> None:
        self.out: list[str] = []

    async def awaits(self) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(1)
            self.out.append("awaits")

    async def begins_others(self) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            self.out.append("begins others")
            await asyncio.gather(self.awaits(), self.awaits())

    async def goes_on(self) -> None:
        for _ in range(5):
            try:
                await asyncio.sleep(9)
            except BaseException:
                continue
        self.out.append("goes on")

    async def fails(self) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            raise ValueError("nobody is left to learn of it")

    async def ends_its_process(self) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            raise SystemExit


@pytest.mark.parametrize(
    "way", [Ways.awaits, Ways.begins_others, Ways.goes_on, Ways.fails, Ways.ends_its_process]
)
@pytest.mark.parametrize("begun", [True, False])
def test_whatever_a_coroutine_does_on_its_way_out_nothing_is_reported(
    way: Callable[[Ways], Coroutine[Any, Any, None]], begun: bool
) -> None:
    ways = Ways()
    with all_said() as said:
        world = Small()
        tasks = world.start("a", way(ways))
        if begun:
            world.run(SECOND)
            assert len(tasks) == 1
        else:
            tasks.append(world.loops["a"].create_task(way(ways)))
            world.engine.ready.popleft().callback()  # The other one: its task begins no more.
        world.loops["a"].dead = True
        endings.end(world.loops["a"], ())
        del tasks, world
        gc.collect()
    assert said == []


NEVER = """
import asyncio
from holdfast.clusters.backends.sim import endings
from tests.clusters.sim.small import SECOND, Small

async def never():
    while True:
        try:
            await asyncio.sleep(9)
        except BaseException:
            continue

world = Small()
world.start("a", never())
world.run(SECOND)
world.loops["a"].dead = True
endings.end(world.loops["a"], ())
"""


def test_a_coroutine_that_suppresses_its_end_does_not_stop_the_process_from_ending() -> None:
    words = [sys.executable, "-W", "always", "-c", NEVER]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
