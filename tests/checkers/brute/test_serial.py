"""Sections that make no cycle can be put in a row, tried row by row; the others cannot."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from itertools import permutations

import networkx
import pytest

from holdfast.checkers.evidence.serializability import Edge, edges, shortest_cycle
from holdfast.checkers.evidence.summary import evidence
from holdfast.checkers.facts.resource_log import Request
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case
from tests.checkers.test_lost_update import HANDED_OVER, OVERWRITTEN
from tests.draws import Draws

SUITE, POWER, SEED = 1500, 20_000, 12


def drawn(rng: random.Random) -> list[Request]:
    """What three or four sections did to two keys, mostly one after the other."""
    sections = rng.randint(3, 4)
    version, seen = {0: 0, 1: 0}, dict[tuple[int, int], int]()
    todo = [n for n in range(sections) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.choice((0, 1, 2, 3))):
        at = rng.randrange(len(todo))
        todo.insert(rng.randrange(len(todo)), todo.pop(at))
    made = []
    for row, section in enumerate(todo):
        key, write = int(rng.random() < 0.3), rng.random() < 0.6
        base = -1
        if write and rng.random() < 0.7:
            base = seen.get((section, key), version[key])
        version[key] += write
        seen[section, key] = version[key]
        made.append(
            Request(
                row=row,
                sent=-1,
                key=key,
                attempt=section,
                token=-1,
                name=row,
                write=write,
                accepted=True,
                base=base,
                version=version[key],
                from_ns=row,
                to_ns=row,
            )
        )
    return made


def in_a_row(order: tuple[int, ...], made: list[Request]) -> bool:
    """Whether the sections one after the other see and make the versions that they did."""
    version = {0: 0, 1: 0}
    for section in order:
        for request in made:
            if request.attempt != section:
                continue
            before = version[request.key]
            if request.version != before + request.write:
                return False
            mine = {one.version for one in made if one.attempt == section and one.write}
            passed = range(request.base + 1, before + 1) if request.base >= 0 else ()
            if any(one not in mine for one in passed):
                return False
            version[request.key] = request.version
    return True


def agree(count: int) -> None:
    said: Counter[bool] = Counter()
    for n in range(count):
        made = drawn(stream(41, "serial", n))
        sections = {request.attempt for request in made}
        right = any(in_a_row(order, made) for order in permutations(sections))
        cycle = shortest_cycle(edges(made))
        assert right is not bool(cycle), f"{n}: {cycle}\n" + "\n".join(map(str, made))
        for edge, after in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            assert edge.after.attempt == after.before.attempt
        said[right] += 1
    assert min(said.values()) >= 0.2 * count, said


def test_a_cycle_is_found_exactly_where_no_row_explains_the_log(draws: Draws) -> None:
    agree(draws(SUITE))


@pytest.mark.power
def test_a_cycle_is_found_exactly_where_it_is_in_many_more() -> None:
    agree(POWER)


def test_the_evidence_of_a_run_has_the_cycle_of_a_lost_update() -> None:
    found = plain(evidence(case(OVERWRITTEN)))["serialisability"]
    assert isinstance(found, dict)
    assert (found["sections"], found["entangled"]) == (2, 2)
    one, two = found["cycle"]
    assert {one["kind"], two["kind"]} == {"rw", "ww"}
    assert found["sentence"] == (
        "no order of the sections explains the resource's log:"
        f" {one['before']} {one['says']} {one['after']},"
        f" {two['before']} {two['says']} {two['after']}"
    )
    assert (one["after"], two["after"]) == (two["before"], one["before"])
    assert all("(token " in edge["before"] or "(from " in edge["before"] for edge in (one, two))


def test_the_cycle_is_a_shortest_one() -> None:
    """Against every simple cycle of small random graphs."""
    lengths = set()
    for n in range(300):
        rng = stream(SEED, "graph", n)
        of = rng.randint(3, 7)
        pairs = {(rng.randrange(of), rng.randrange(of)) for _ in range(rng.randint(2, 9))}
        pairs = {(a, b) for a, b in pairs if a != b}
        found = shortest_cycle(Edge("ww", request_of(a), request_of(b)) for a, b in sorted(pairs))
        cycles = list(networkx.simple_cycles(networkx.DiGraph(pairs)))
        assert len(found) == min(map(len, cycles), default=0)
        lengths.add(len(found))
    assert {0, 2, 3, 4} <= lengths


IMPORTED = """
import sys
from types import SimpleNamespace as Request
from holdfast.checkers.evidence.serializability import Edge, shortest_cycle

def cycle(*pairs):
    edges = (Edge("ww", Request(attempt=a), Request(attempt=b)) for a, b in pairs)
    return len(shortest_cycle(edges)), [x for x in ("networkx", "pandas") if x in sys.modules]

print(*cycle((1, 2), (2, 3), (1, 3)), *cycle((1, 2), (2, 3), (3, 1)))
"""


def test_sections_in_an_order_need_no_graph_and_a_cycle_no_table() -> None:
    """networkx takes 0.1 s to import; given all edges at once it imports pandas, another 0.5 s."""
    argv = [sys.executable, "-P", "-c", IMPORTED]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 [] 3 ['networkx']\n"


def request_of(attempt: int) -> Request:
    return Request(
        row=0, sent=0, key=0, attempt=attempt, token=-1, name=0, write=True, accepted=True,
        base=-1, version=0, from_ns=0, to_ns=0,
    )  # fmt: skip


def test_sections_that_follow_each_other_need_no_graph() -> None:
    found = plain(evidence(case(HANDED_OVER)))["serialisability"]
    assert isinstance(found, dict)
    assert (found["sections"], found["entangled"], found["cycle"]) == (2, 0, [])
