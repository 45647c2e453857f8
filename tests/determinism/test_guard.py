"""A call to the world outside is seen while a simulated run is on, and its caller named."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from holdfast.clusters.backends.sim.forbidden_calls import watched
from holdfast.engine.seed_search import one_seed
from holdfast.workloads.resource.server import Store


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("time.time", lambda: time.time()),
        ("time.monotonic_ns", lambda: time.monotonic_ns()),
        ("random.random", lambda: random.random()),
        ("os.urandom", lambda: os.urandom(4)),
        ("builtins.open", lambda: open(os.devnull).close()),
        ("threading.Thread.start", lambda: threading.Thread(target=len, args=((),)).start()),
    ],
)
def test_a_breach_is_noted_with_its_caller(what: str, act: object) -> None:
    assert callable(act)
    with watched(True) as breaches:
        act()
    (first, *_) = breaches
    assert first.startswith(f"{what}() by determinism/test_guard.py line ")
    before = dict(breaches)
    act()
    assert breaches == before, "outside the run all is as it was"


def test_streams_of_a_seed_are_no_breach(tmp_path: Path) -> None:
    with watched(True) as breaches:
        random.Random("a stream").random()
    assert not breaches
    with watched(False) as breaches:
        time.time()
    assert not breaches


def test_what_other_threads_of_the_process_do_is_no_breach() -> None:
    asked, over = threading.Event(), threading.Event()

    def beside() -> None:
        asked.wait(10)
        time.time()
        over.set()

    other = threading.Thread(target=beside)
    other.start()
    with watched(True) as breaches:
        asked.set()
        assert over.wait(10)
    other.join()
    assert not breaches


def test_a_run_that_keeps_the_bans_has_nothing_to_say() -> None:
    plain = one_seed(3, "reference", {})
    guarded = one_seed(3, "reference", {"sim_guard": "1"})
    assert guarded.problems == plain.problems == ()
    assert guarded.digest == plain.digest


def test_a_run_that_breaks_one_says_who(monkeypatch: pytest.MonkeyPatch) -> None:
    admit = Store.admit

    def late(self: Store, key: str, attempt: int, token: int) -> object:
        time.time()
        return admit(self, key, attempt, token)

    monkeypatch.setattr(Store, "admit", late)
    (problem,) = one_seed(3, "reference", {"sim_guard": "1"}).problems
    assert problem.startswith("time.time() by determinism/test_guard.py line ")
