"""The lock state machine on paths: a lock of a tree stands for all that lies below it."""

from __future__ import annotations

import json

from holdfast.clusters.systems.reference.locks.hierarchy import on_line
from holdfast.clusters.systems.reference.locks.state import SHARED
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.service.request_validation import command
from tests.clusters.test_locks import Log


class Tree(Log):
    """Asks for paths; the answer's "is" alone."""

    def asks(self, session: int, attempt: int, lock: str, wait_ns: int = -1) -> str:
        return str(self.acquire(session, attempt, wait_ns, lock=lock)["is"])

    def frees(self, session: int, attempt: int, lock: str, token: int) -> list[tuple[int, str]]:
        self.ask("release", session, lock=lock, attempt=attempt, token=token)
        return self.settled()


def test_two_paths_are_on_one_line_if_one_lies_below_the_other() -> None:
    assert on_line("/a", "/a/b/c") and on_line("/a/b", "/a/b") and on_line("/a/b", "/a")
    assert not on_line("/a/b", "/a/bc") and not on_line("/a/b", "/a/c/b")


def test_a_held_path_keeps_others_from_all_above_and_below_it() -> None:
    log = Tree()
    one, two = log.open(), log.open()
    assert log.asks(one, 1, "/a/b") == "granted"
    tried = {
        path: log.asks(two, n, path, 0)
        for n, path in enumerate(("/a", "/a/b", "/a/b/c", "/a/c", "/a/bc", "a/b"), start=2)
    }
    assert tried == {
        "/a": "held", "/a/b": "held", "/a/b/c": "held",
        "/a/c": "granted", "/a/bc": "granted", "a/b": "granted",
    }  # fmt: skip


def test_the_end_of_a_hold_wakes_who_waits_elsewhere_on_its_line() -> None:
    log = Tree()
    sessions = [log.open() for _ in range(4)]
    log.asks(sessions[0], 1, "/a/b")
    log.asks(sessions[1], 2, "/a/c")
    assert log.asks(sessions[2], 3, "/a") == "queued"
    assert log.asks(sessions[3], 4, "/a/b/d") == "queued", "who waits is not passed by"
    assert log.frees(sessions[0], 1, "/a/b", 1) == []
    assert log.frees(sessions[1], 2, "/a/c", 2) == [(3, "granted")]
    assert log.frees(sessions[2], 3, "/a", 3) == [(4, "granted")]


def test_who_leaves_the_queue_makes_room_for_who_waited_behind_it() -> None:
    log = Tree()
    sessions = [log.open() for _ in range(3)]
    log.asks(sessions[0], 1, "/a/b")
    log.asks(sessions[1], 2, "/a")
    assert log.asks(sessions[2], 3, "/a/c") == "queued"
    log.ask("cancel", sessions[1], target=1, drop=False)
    assert log.settled() == [(2, "cancelled"), (3, "granted")]
    assert set(log.locks.locks) == {"/a/b", "/a/c"}, "nothing is kept of what nobody wants"


def test_a_circle_of_waits_is_seen_across_paths() -> None:
    log = Tree()
    one, two = log.open(), log.open()
    log.asks(one, 1, "/a/b")
    log.asks(two, 2, "/c")
    assert log.asks(one, 3, "/c/d") == "queued"
    assert log.asks(two, 4, "/a") == "deadlock"


def test_the_holder_of_a_path_is_named_for_all_that_it_stands_for() -> None:
    log = Tree()
    one = log.open()
    log.asks(one, 1, "/a")
    assert log.put("holder", lock="/a/b", attempt=0)["attempt"] == 1
    assert log.put("holder", lock="/b", attempt=0)["is"] == "free"


def test_who_races_for_a_path_is_told_when_its_line_is_free() -> None:
    log = Tree(racing=True)
    one, two = log.open(), log.open()
    log.asks(one, 1, "/a/b")
    log.asks(two, 2, "/a")
    log.frees(one, 1, "/a/b", 1)
    assert log.ask("acquire", two, seq=1)["is"] == "granted"


def test_a_tree_survives_a_snapshot() -> None:
    log = Tree()
    one, two = log.open(), log.open()
    log.asks(one, 1, "/a/b")
    log.asks(two, 2, "/a")
    state = json.loads(json.dumps(log.locks.dump()))
    log.locks = Locks.load(state)
    assert log.locks.dump() == state
    assert log.frees(one, 1, "/a/b", 1) == [(2, "granted")]


def test_a_path_is_not_shared() -> None:
    asked = {"op": "acquire", "session": 1, "seq": 1, "done": 0, "attempt": 1, "ttl_ns": 5}
    asked |= {"wait_ns": 0, "owner": "c1", "lock": "/a", "terms": {"mode": SHARED}}
    assert "is a path" in command(asked)[1]
    assert command({**asked, "lock": "a"})[1] == ""
