"""Ends a simulated run at its steps, each in a process forked there, and reports what is printed.

`python -m tests.clusters.sim.ended_at_each_step SYSTEM NEMESIS SECONDS EVERY SEED` tries
the steps of the deployment and each EVERYth of the others. It prints a JSON document:
{"steps": how many were tried, "left": {step: what was written, warned, or raised unseen}}.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import warnings
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from holdfast.clusters.backends.sim import run
from holdfast.clusters.backends.sim.scheduler import Engine
from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan, parse_nemesis
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve

DEPLOYMENT = 24
"""The first steps, of which each is tried."""


class Ending(Engine):
    """Forks at each step; the child ends the run after this step, as ^C does."""

    every = 1
    child = False
    writes = -1

    def __init__(self) -> None:
        self.tried = 0
        self.left: dict[int, str] = {}
        super().__init__()

    @property
    def events(self) -> int:
        """Callbacks that ran."""
        return self._count

    @events.setter
    def events(self, count: int) -> None:
        self._count = count
        if self.child or not count or (count > DEPLOYMENT and count % self.every):
            return
        self.tried += 1
        reads, writes = os.pipe()
        running = events._get_running_loop()
        child = os.fork()
        if not child:
            os.close(reads)
            self.child, self.writes = True, writes
            # asyncio forgets it in another process.
            events._set_running_loop(running)
            self.next(_interrupt)
            return
        os.close(writes)
        with open(reads, encoding="utf-8") as said:
            words = said.read()
        _, status = os.waitpid(child, 0)
        if words or status:
            self.left[count] = words or f"wait status {status}"


def _interrupt() -> None:
    raise KeyboardInterrupt


def collect_what_others_left() -> None:
    """Garbage of earlier tests of this process: its warnings say nothing of what is tested next."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@contextmanager
def all_said() -> Iterator[list[str]]:
    """What is written to stderr, warned, or raised where nobody catches it."""
    collect_what_others_left()
    said: list[str] = []
    text = io.StringIO()
    usual = sys.unraisablehook
    sys.unraisablehook = lambda seen: said.append(f"unraisable: {seen.exc_value!r} {seen.object!r}")
    try:
        with redirect_stderr(text), warnings.catch_warnings():
            warnings.simplefilter("always")
            yield said
    finally:
        sys.unraisablehook = usual
        said += text.getvalue().splitlines()


def ended(plan: Plan, engine: Ending) -> None:
    """Run the plan on the engine. The child ends here, with what was said in the pipe."""
    manifest = prepare.manifest(resolve(plan), "test", "")
    names = vars(run)
    with all_said() as said:
        usual, names["Engine"] = names["Engine"], lambda: engine
        try:
            run.simulate(manifest)
            outcome = "" if not engine.child else "the run went on to its end"
        except KeyboardInterrupt:
            outcome = ""
        finally:
            names["Engine"] = usual
        # The engine outlives the run here, and what waits in it would too.
        engine.ready.clear()
        engine.heap.clear()
        gc.collect()
    if engine.child:
        words = "\n".join([*said, *([outcome] if outcome else [])])
        os.write(engine.writes, words.encode()[:4000])
        os._exit(0)
    if said:
        engine.left[0] = "\n".join(said)


def main(system: str, nemeses: str, seconds: str, every: str, seed: str) -> None:
    """Print the outcome as JSON."""
    given: dict[str, Any] = {"system": system, "backend": "sim", "nodes": 0, "seed": int(seed)}
    given |= {"lease_ns": SECOND, "time_ns": int(float(seconds) * SECOND), "clients": 2}
    Ending.every = int(every)
    engine = Ending()
    ended(prepare.complete(Plan(**given, nemeses=tuple(parse_nemesis(nemeses)))), engine)
    print(json.dumps({"steps": engine.tried, "left": engine.left}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
