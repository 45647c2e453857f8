"""The resource's admission rule beside a plain one, and what each planted bug changes in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.recording import segments
from holdfast.harness.recording.segments import Recorder
from holdfast.workloads.resource import server as server_module
from holdfast.workloads.resource.mutants import STORES
from holdfast.workloads.resource.process import store_type
from holdfast.workloads.resource.server import Server, Store, replay

META = {"node": "resource", "processes": []}
Request = tuple[str, int, int]
"""Key, attempt, token."""


def admitted(store: Store, requests: list[Request]) -> list[bool]:
    return [store.admit(*request)[0] for request in requests]


def plainly(mode: str, requests: list[Request]) -> list[bool]:
    """The admission rule, from all earlier requests of the key."""
    found = list[bool]()
    for n, (key, attempt, token) in enumerate(requests):
        before = [one for one, ok in zip(requests[:n], found, strict=True) if ok and one[0] == key]
        highest = max((token for _, _, token in before), default=NO_TOKEN)
        owners = [attempt for _, attempt, token in before if token == highest]
        refused = mode in ("fenced", "strict") and token < highest
        refused |= mode == "strict" and token == highest and bool(owners) and owners[-1] != attempt
        found.append(not refused)
    return found


def requests(rng: random.Random, keys: str = "ab") -> list[Request]:
    return [
        (rng.choice(keys), rng.randrange(1, 4), rng.randrange(-1, 13))
        for _ in range(rng.randrange(1, 9))
    ]


@pytest.mark.parametrize("mode", catalogue.RESOURCES)
def test_requests_are_admitted_by_the_plain_rule(mode: str) -> None:
    rng = random.Random(mode)
    for _ in range(200):
        made = requests(rng)
        store = Store(mode)
        assert admitted(store, made) == plainly(mode, made), made
        for key, register in store.registers.items():
            accepted = [r for r, ok in zip(made, plainly(mode, made), strict=True) if ok]
            assert register.highest == max((t for k, _, t in accepted if k == key), default=-1)


def untouched(requests: list[Request]) -> list[bool]:
    return plainly("fenced", requests)


def tolerant(requests: list[Request]) -> list[bool]:
    """Compared with the token admitted last, less one."""
    last, found = dict[str, int](), []
    for key, _, token in requests:
        found.append(token + 1 >= last.get(key, NO_TOKEN))
        if found[-1]:
            last[key] = token
    return found


def as_text(requests: list[Request]) -> list[bool]:
    last, found = dict[str, int](), []
    for key, _, token in requests:
        newest = last.get(key, NO_TOKEN)
        found.append(newest == NO_TOKEN or not str(token) < str(newest))
        if found[-1]:
            last[key] = token
    return found


def short_memory(requests: list[Request]) -> list[bool]:
    """Of the requests of a key, only those since the last one of another key count."""
    found = []
    for n in range(len(requests)):
        begun = n
        while begun and requests[begun - 1][0] == requests[n][0]:
            begun -= 1
        found.append(plainly("fenced", requests[begun : n + 1])[-1])
    return found


def jealous(requests: list[Request]) -> list[bool]:
    last, found = dict[str, int](), []
    for key, _, token in requests:
        found.append(token > last.get(key, NO_TOKEN))
        if found[-1]:
            last[key] = token
    return found


RULES: dict[str, Callable[[list[Request]], list[bool]]] = {
    "unchecked-tokens": lambda requests: [True] * len(requests),
    "tolerant-tokens": tolerant,
    "tokens-as-text": as_text,
    "short-memory": short_memory,
    "jealous-tokens": jealous,
    "forgotten-commands": untouched,
    "forgotten-jobs": untouched,
}


@pytest.mark.parametrize("name", STORES)
def test_a_planted_bug_is_the_rule_with_one_mistake(name: str) -> None:
    rng, differ = random.Random(name), 0
    for _ in range(300):
        made = requests(rng)
        found = admitted(store_type(name)("fenced"), made)
        assert found == RULES[name](made), made
        differ += found != untouched(made)
    assert (differ > 0) == (RULES[name] is not untouched)


def test_a_resource_without_checks_still_logs_the_highest_token() -> None:
    store = store_type("unchecked-tokens")("fenced")
    admitted(store, [("a", 1, 5), ("a", 2, 9), ("a", 1, 5)])
    assert store.registers["a"].highest == 9


def test_a_store_without_a_bug_has_no_name() -> None:
    assert store_type("") is Store
    with pytest.raises(KeyError):
        store_type("no-such-bug")


def write(server: Server, op: int, *, key: str = "db", once: int = 0) -> dict[str, object]:
    request = {"do": "write", "key": key, "attempt": 1, "token": 5, "base": -1}
    return server.decide({**request, "op": op, "once": once})


@pytest.mark.parametrize(("name", "version"), [("", 1), ("forgotten-commands", 2)])
def test_a_repeated_write_is_a_new_one_only_where_commands_are_forgotten(
    tmp_path: Path, name: str, version: int
) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(store_type(name)("fenced"), recorder)
        write(server, 7)
        assert write(server, 7)["version"] == version


@pytest.mark.parametrize(("name", "version"), [("", 2), ("forgotten-jobs", 0)])
def test_a_restart_loses_versions_only_where_jobs_are_forgotten(
    tmp_path: Path, name: str, version: int
) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("fenced"), recorder)
        for op, key in ((7, "db"), (8, "db"), (9, "other")):
            write(server, op, key=key)
    again = store_type(name)("fenced")
    replay(tmp_path, "resource", again)
    assert again.done == {7: 1, 8: 2, 9: 1}
    again.restarted()
    assert [one.version for one in again.registers.values()] == [version, min(version, 1)]
    assert bool(again.done) == bool(version) and again.registers["db"].highest == 5


def test_a_restart_reads_all_parts_and_nothing_that_was_refused_or_never_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 2)
    store = Store("fenced")
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(store, recorder)
        for op, token in ((1, 3), (2, 6), (3, 4), (4, 6), (5, 9)):
            request = {"do": "write", "key": f"k{op % 2}", "attempt": token, "base": -1}
            server.decide({**request, "token": token, "op": op})
        request = {"do": "read", "key": "k1", "attempt": 20, "base": -1, "token": 20, "op": 6}
        server.decide(request)
    assert len(list(tmp_path.glob("resource*.seg"))) == 3
    again = Store("fenced")
    replay(tmp_path, "resource", again)
    assert again.registers == store.registers and again.done == store.done


def test_the_oldest_of_many_writes_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REMEMBERED", 3)
    store = Store("fenced")
    for op in range(1, 6):
        store.note(op, op * 10)
        assert len(store.done) == min(op, 3)
    assert [store.applied(op) for op in range(1, 6)] == [None, None, 30, 40, 50]
