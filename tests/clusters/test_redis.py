"""Redis without a server: what errors mean, what each variant sends, what it may promise."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.redis.sentinel.system import SYSTEM as SENTINEL
from holdfast.clusters.systems.redis.system import SYSTEM
from holdfast.clusters.systems.redis.variants import FIXED, way
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs

FAULTS = ["partition", "pause"]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("BusyLoadingError", Status.FAIL),
        ("ReadOnlyError", Status.FAIL),
        ("ResponseError", Status.FAIL),
        ("TimeoutError", Status.INFO),
        ("ConnectionError", Status.INFO),
        ("InvalidResponse", Status.INFO),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(name: str, outcome: Status) -> None:
    sys.path.append(str(needs.libraries(SYSTEM.libraries)))
    client = importlib.import_module("holdfast.clusters.systems.redis.client")
    answer = client.answer_of(getattr(client.redis.exceptions, name)("why"))
    assert answer.outcome is outcome
    assert answer.error == f"{name}: why"


class Asked:
    """A connection that notes what it is asked; scripts and commands answer from a table."""

    def __init__(self, **answers: Any) -> None:
        self.log: list[tuple[Any, ...]] = []
        self._answers = answers

    def register_script(self, script: str) -> Callable[..., Any]:
        word = next(word for word in ("pexpire", "del", "set") if f"'{word}'" in script)

        def call(keys: Sequence[str], args: Sequence[Any]) -> Any:
            self.log.append((f"script {word}", keys[0], args[0]))
            return self._answers.get(f"script_{word}", 1)

        return call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.log.append((name, *args))
            return self._answers[name]

        return call


def test_the_published_way_tells_owners_apart() -> None:
    asked = Asked(script_set=0)
    lock = way("published", asked, "none")
    assert lock.take("l", 7, 1000) == NO_TOKEN
    assert lock.free("l", 7)
    assert asked.log == [("script set", "l", 7), ("script del", "l", 7)]
    assert way("published", Asked(script_set=-1), "none").take("l", 7, 1000) is None
    assert way("published", Asked(script_set=12), "counter").take("l", 7, 1000) == 12


def test_a_fixed_value_is_the_same_for_all() -> None:
    asked = Asked(script_set=0)
    lock = way("fixed-value", asked, "none")
    lock.take("l", 7, 1000)
    lock.renew("l", 8, 1000)
    lock.free("l", 9)
    assert {entry[2] for entry in asked.log} == {FIXED}


@pytest.mark.parametrize(("found", "freed"), [("7", True), ("8", False), (None, False)])
def test_get_then_del_compares_before_it_deletes(found: str | None, freed: bool) -> None:
    asked = Asked(get=found, delete=1)
    assert way("get-then-del", asked, "none").free("l", 7) is freed
    assert asked.log[0] == ("get", "l")
    assert (("delete", "l") in asked.log) is freed


def test_plain_del_does_not_look() -> None:
    asked = Asked(delete=1)
    assert way("plain-del", asked, "none").free("l", 7)
    assert asked.log == [("delete", "l")]


def test_setnx_expire_needs_two_commands_to_take_a_lock() -> None:
    asked = Asked(setnx=1, pexpire=1)
    assert way("setnx-expire", asked, "none").take("l", 7, 1000) == NO_TOKEN
    assert asked.log == [("setnx", "l", 7), ("pexpire", "l", 1000)]
    held = Asked(setnx=0)
    assert way("setnx-expire", held, "none").take("l", 7, 1000) is None
    assert held.log == [("setnx", "l", 7)]


@pytest.mark.parametrize("variant", ["fixed-value", "get-then-del", "plain-del"])
def test_who_frees_the_locks_of_others_promises_nothing_under_faults(variant: str) -> None:
    promises = with_kinds(SYSTEM.promises({"variant": variant}))
    assert promises.promised("mutual-exclusion", [])
    assert not promises.promised("mutual-exclusion", FAULTS)
    assert promises.promised("orphan-freedom", FAULTS)


def test_a_lock_without_an_end_promises_no_freedom_from_orphans() -> None:
    promises = with_kinds(SYSTEM.promises({"variant": "setnx-expire"}))
    assert promises.promised("mutual-exclusion", FAULTS)
    assert not promises.promised("orphan-freedom", FAULTS)


def test_tokens_go_with_the_published_way_only() -> None:
    with pytest.raises(UsageError, match="requires variant=published"):
        SYSTEM.promises({"variant": "plain-del", "tokens": "counter"})


def servers(count: int) -> list[Node]:
    return [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in range(1, count + 1)]


def test_two_nodes_hold_data_and_the_others_watch(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    nodes = servers(5)
    commands = [SENTINEL.command(node, nodes, place, {}) for node in nodes]
    files = [Path(command.argv[1]).read_text().splitlines() for command in commands]
    assert [command.argv[-1] == "--sentinel" for command in commands] == [False] * 2 + [True] * 3
    assert not any(line.startswith("replicaof") for line in files[0])
    assert "replicaof 10.0.0.1 6379" in files[1]
    assert "sentinel monitor lock 10.0.0.1 6379 2" in files[2]
    assert "appendfsync always" in files[0] and "appendfsync always" in files[1]


def test_a_file_that_sentinels_have_rewritten_is_left_alone(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    nodes = servers(3)
    file = Path(SENTINEL.command(nodes[0], nodes, place, {}).argv[1])
    file.write_text("replicaof 10.0.0.2 6379\n")
    assert Path(SENTINEL.command(nodes[0], nodes, place, {}).argv[1]) == file
    assert file.read_text() == "replicaof 10.0.0.2 6379\n"


def test_a_failover_needs_somebody_who_watches(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    nodes = servers(2)
    with pytest.raises(EnvironmentFailed, match="at least 3 nodes"):
        SENTINEL.command(nodes[0], nodes, place, {})
    assert not with_kinds(SENTINEL.promises({})).promised("mutual-exclusion", ["kill"])
