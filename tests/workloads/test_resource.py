"""The protected resource admits what it should, and remembers it after its death."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import reader
from holdfast.harness.recording.segments import Recorder
from holdfast.workloads.resource.server import Server, Store, replay

META = {"node": "resource", "processes": []}


def admitted(mode: str, *requests: tuple[int, int]) -> list[bool]:
    """Whether each (attempt, token) in turn is admitted."""
    store = Store(mode)
    return [store.admit("db", attempt, token)[0] for attempt, token in requests]


def test_a_fenced_resource_refuses_an_older_token() -> None:
    assert admitted("fenced", (1, 5), (2, 6), (1, 5), (2, 6)) == [True, True, False, True]


def test_a_fenced_resource_takes_an_equal_token_from_anybody() -> None:
    assert admitted("fenced", (1, 5), (2, 5)) == [True, True]


def test_a_strict_resource_takes_an_equal_token_from_one_attempt_only() -> None:
    assert admitted("strict", (1, 5), (1, 5), (2, 5)) == [True, True, False]


def test_an_unfenced_resource_refuses_nobody() -> None:
    assert admitted("unfenced", (1, 5), (2, 6), (1, 5), (3, -1)) == [True] * 4


def test_keys_do_not_fence_each_other() -> None:
    store = Store("fenced")
    assert store.admit("a", 1, 9)[0]
    assert store.admit("b", 2, 1)[0]


def ask(server: Server, do: str, token: int, *, base: int = -1, op: int = 1) -> dict[str, object]:
    return server.decide(
        {"do": do, "key": "db", "attempt": token, "token": token, "base": base, "op": op}
    )


def test_what_was_decided_is_on_record_in_order(tmp_path: Path) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("fenced"), recorder)
        assert ask(server, "write", 5, op=3 << 32 | 8) == {"ok": True, "version": 1, "error": ""}
        assert ask(server, "read", 6)["version"] == 1
        assert ask(server, "write", 5, base=1)["ok"] is False
    rows = reader.load(tmp_path).history.rows
    assert rows["f"].tolist() == [Op.SERVED_WRITE, Op.SERVED_READ, Op.SERVED_WRITE]
    assert rows["status"].tolist() == [Status.OK, Status.OK, Status.FAIL]
    assert rows["process"].tolist() == [3, 0, 0]
    assert rows["aux"].tolist()[2] == 6, "the highest token before it is what refused it"


def test_compare_and_swap_refuses_a_write_on_an_old_version(tmp_path: Path) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("cas"), recorder)

        def write(base: int, op: int) -> dict[str, Any]:
            request = {"do": "write", "key": "db", "op": op, "attempt": 1, "token": -1}
            return server.decide({**request, "base": base})

        assert write(0, 1) == {"ok": True, "version": 1, "error": ""}
        assert write(0, 2) == {"ok": False, "version": 1, "error": "version 0 is older than 1"}
        assert write(-1, 3)["ok"], "a write that names no version follows any"
        assert write(2, 4)["version"] == 3
        assert write(0, 1) == {"ok": True, "version": 1, "error": ""}, "the first, sent again"


def test_a_command_that_its_key_names_is_carried_out_once(tmp_path: Path) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("idempotent"), recorder)

        def write(key: str, op: int, *, once: int) -> dict[str, Any]:
            request = {"do": "write", "key": key, "op": op, "attempt": op, "token": -1, "base": -1}
            return server.decide({**request, "once": once})

        first = write("job", 1, once=1)
        assert write("job", 2, once=1) == first == {"ok": True, "version": 1, "error": ""}
        assert write("db", 3, once=0)["version"] == 1
        assert write("db", 4, once=0)["version"] == 2, "two updates are two commands"
    assert reader.load(tmp_path).history.rows["op"].tolist() == [1, 3, 4]


def test_a_restarted_resource_still_refuses_the_old_token(tmp_path: Path) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("fenced"), recorder)
        ask(server, "write", 5)
        ask(server, "write", 9, op=2)
    again = Store("fenced")
    replay(tmp_path, "resource", again)
    assert again.registers["db"].highest == 9
    assert again.registers["db"].version == 2
    assert not again.admit("db", 5, 5)[0]


def test_a_write_that_comes_again_is_answered_as_before_and_not_applied(tmp_path: Path) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("fenced"), recorder)
        first = ask(server, "write", 5, op=7)
        assert ask(server, "write", 5, op=8)["version"] == 2
        assert ask(server, "write", 5, op=7) == first
    assert len(reader.load(tmp_path).history.rows) == 2
    with Recorder(tmp_path, "resource-2", META) as recorder:
        again = Store("fenced")
        replay(tmp_path, "resource", again)
        assert ask(Server(again, recorder), "write", 5, op=7) == first, "after a restart too"


@pytest.mark.parametrize("request_", [{}, {"do": "write"}, [], "x", {"do": "write", "key": 1}])
def test_garbage_is_no_request(tmp_path: Path, request_: object) -> None:
    with Recorder(tmp_path, "resource", META) as recorder:
        server = Server(Store("fenced"), recorder)
        with pytest.raises((ValueError, KeyError, TypeError)):
            server.decide(cast(Any, request_))
