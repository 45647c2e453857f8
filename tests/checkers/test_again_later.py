"""What happened once is found once; what happens again, much later and on the same locks, twice.

A history with a violation is followed by itself, with larger tokens, other attempts of other
clients, and so much later that nothing of the first part is in force. Every kind of finding is then
there twice, and verified (see conftest): no checker stops at the first of several on one lock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from tests.checkers.neighbours import ASKS, SERVED
from tests.checkers.test_near_misses import of_every_rule, specimens
from tests.checkers.test_two_parts import CHECKERS, MORE, other_node

LATER_NS = 1000 * SECOND
TOKENS = 1000
"""By so much tokens and versions are larger the second time."""


OF_A_WHOLE_RUN = (
    "no-lost-update", "exactly-once-job", "starvation-freedom", "no-multi-lock-deadlock",
)  # fmt: skip
"""Properties of all that happens to a lock: what follows changes what came before."""


def lasts(one: Case) -> bool:
    """Whether something of it may be in force however much later: a call without an answer, a hold
    that only a release ends, a condition on the newest token."""
    rows = one.history.rows
    open_asks = (rows["status"] == Status.INVOKED) & np.isin(rows["f"], ASKS)
    conditional = np.isin(rows["f"], ASKS) & (rows["op"] >> 8 > 0) & (rows["mode"] != Mode.PERMITS)
    return one.promises.bound == "none" or bool((open_asks | conditional).any())


def again(one: Case) -> Case:
    """The case followed by itself."""
    history = one.history
    rows = history.rows.copy()
    client = ~np.isin(rows["f"], SERVED)
    for column in ("t_inv", "t_ret"):
        rows[column][rows[column] > 0] += LATER_NS
    rows["process"][client] += MORE
    rows["attempt"][rows["attempt"] > 0] += MORE << 32
    rows["op"][~client] += MORE << 32
    rows["token"][rows["token"] > NO_TOKEN] += TOKENS
    rows["writer"] += len(history.writers)
    data = np.isin(rows["f"], (Op.WRITE, Op.READ, *SERVED))
    for column in ("arg", "res"):
        rows[column][data & (rows[column] >= 0)] += TOKENS
    both = np.concatenate((history.rows, rows))
    both = both[np.lexsort((both["row"], both["writer"], both["t_inv"]))]
    nodes = {process + MORE: other_node(node) for process, node in one.nodes.items()}
    windows = [
        replace(
            window,
            id=f"{window.id} again",
            from_ns=window.from_ns + LATER_NS,
            to_ns=window.to_ns + LATER_NS,
            nodes=tuple(map(other_node, window.nodes)),
            evidence={
                name: [t_ns + LATER_NS for t_ns in of] if isinstance(of, list) else of
                for name, of in window.evidence.items()
            },
        )
        for window in one.windows
    ]
    writers = (*history.writers, *(f"{other_node(name)} again" for name in history.writers))
    return replace(
        one,
        history=replace(history, rows=both, writers=writers),
        nodes={**one.nodes, **nodes},
        windows=(*one.windows, *windows),
        stop_ns=one.stop_ns + LATER_NS,
        end_ns=one.end_ns + LATER_NS,
        memo={},
    )


def kinds(prop: str, given: Case) -> Counter[str]:
    return Counter(finding.kind for finding in CHECKERS[prop](given).findings)


@pytest.mark.parametrize("every", [of_every_rule, specimens], ids=["every rule", "a few ops"])
def test_what_happens_again_is_found_again(every: Any) -> None:
    seen = Counter[str]()
    for prop, one in every():
        if prop in OF_A_WHOLE_RUN or lasts(one):
            continue
        once, twice = kinds(prop, one), kinds(prop, again(one))
        seen += once
        assert twice == once + once, (prop, once, twice)
    assert len(seen) > 8, seen
