"""Numbers that only name something do not matter: clients, writers, attempts, locks, rows.

Each violation is judged again with its clients and writers numbered the other way round, attempts
counted from elsewhere, locks numbered otherwise, and unrelated rows before it. The findings are the
same, and verified (see conftest): no checker takes attempt 1, lock 1, client 0 or row 0 for
something else.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from tests.checkers.neighbours import SERVED
from tests.checkers.small_histories import small
from tests.checkers.test_near_misses import later, of_every_rule, specimens
from tests.checkers.test_two_parts import CHECKERS

CARRIED = re.compile(r"process (\d+), acquire (\d+)")
MORE_ATTEMPTS = 7
OF_THE_TRY = ("no-false-rejection", "starvation-freedom", "bounded-bypass")
"""The try before may be a finding of theirs, or they allow more where there are more clients."""


def renamed(one: Case, chance: random.Random) -> Case:
    """The same history by other names."""
    history, rows = one.history, one.history.rows.copy()
    clients = sorted({*rows["process"][~np.isin(rows["f"], SERVED)].tolist(), *one.nodes})
    other = dict(zip(clients, chance.sample(range(9), len(clients)), strict=True))
    served = np.isin(rows["f"], SERVED)
    of = np.vectorize(lambda process: other.get(int(process), int(process)), otypes=[np.int64])
    if len(rows):
        rows["process"][~served] = of(rows["process"][~served])
        ids = rows["attempt"].astype(np.int64)
        rows["attempt"] = np.where(
            ids > 0, of(ids >> 32) << 32 | (ids & 0xFFFFFFFF) + MORE_ATTEMPTS, 0
        )
        sent = rows["op"].astype(np.int64)
        rows["op"] = np.where(served, of(sent >> 32) << 32 | sent & 0xFFFFFFFF, sent)
        rows["key"][rows["key"] > 0] += 2
        rows["err"][rows["err"] > 0] += 2
        rows["res"][(rows["f"] == Op.LOST) & (rows["res"] > 0)] += 2
        rows["writer"] = len(history.writers) - 1 - rows["writer"]
    strings = ["", "nobody's", "nor this", *(_carried(text, other) for text in history.strings[1:])]
    rows = rows[np.lexsort((rows["row"], rows["writer"], rows["t_inv"]))]
    nodes = {other[process]: node for process, node in one.nodes.items()}
    again = replace(history, rows=rows, strings=strings, writers=history.writers[::-1])
    return replace(one, history=again, nodes=nodes, memo={})


def _carried(text: str, other: dict[int, int]) -> str:
    def anew(found: re.Match[str]) -> str:
        return f"process {other[int(found[1])]}, acquire {int(found[2]) + MORE_ATTEMPTS}"

    return CARRIED.sub(anew, text)


def preceded(one: Case) -> Case:
    """The same after a try of somebody else, for another lock, that was rejected."""
    history, first = one.history, one.history.rows[:1].copy()
    first["f"], first["status"], first["process"], first["attempt"] = Op.TRY, Status.FAIL, 50, 50
    first["attempt"] = 50 << 32 | 1
    first["key"], first["token"], first["writer"] = len(history.strings), -1, len(history.writers)
    first["t_inv"], first["t_ret"], first["row"], first["err"] = SECOND, SECOND + 1, 0, 0
    for column in ("arg", "res", "op", "mode", "aux"):
        first[column] = 0
    history = replace(
        history,
        rows=np.concatenate((first, history.rows)),
        strings=[*history.strings, "elsewhere"],
        writers=(*history.writers, "c50"),
    )
    return replace(one, history=history, nodes={**one.nodes, 50: "c50"}, memo={})


def kinds(prop: str, given: Case) -> Counter[tuple[str, str, int]]:
    found = CHECKERS[prop](given).findings
    cycle = prop == "no-multi-lock-deadlock"  # any of its locks may be named
    return Counter((one.kind, "" if cycle else one.lock, one.t_ns) for one in found)


def histories(chance: random.Random) -> Iterator[Case]:
    for _, one in (*of_every_rule(), *specimens()):
        yield one
    for _ in range(30):
        yield later(small(chance))


@pytest.mark.slow
def test_names_do_not_matter() -> None:
    chance, seen = random.Random("names"), Counter[str]()
    for one in histories(chance):
        other = renamed(one, chance)
        for prop in CHECKERS:
            found = kinds(prop, one)
            seen[prop] += len(found)
            assert kinds(prop, other) == found, prop
            if prop not in OF_THE_TRY:
                assert kinds(prop, preceded(one)) == found, prop
    assert min(seen.values()) > 0, seen
