"""An owner builds on what it read only while it knows of all that it wrote."""

from __future__ import annotations

import pytest

from holdfast.engine import seed_search
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.plans.plan import parse
from holdfast.planning import prepare

TABLE = {
    "system": "reference",
    "backend": "sim",
    "workload": "lost-update",
    "resource": "unfenced",
    "time": "8s",
    "lease": "5s",
    "clients": 2,
    "nemesis": [{"name": "freeze", "target": "holder", "every": "3s", "for": "2500ms"}],
    "options": {"writes": "6", "gap_ms": "50", "hold_leases": "3", "renew_pct": "98"},
}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_owner_stops_after_a_write_that_may_still_be_on_its_way(seed: int) -> None:
    plan = prepare.prepared(parse({**TABLE, "seed": seed}, prepare.KNOWN, "plan"))
    case = seed_search.in_memory(prepare.manifest(plan, "own", "")).case
    rows = case.history.rows
    unknown = rows[(rows["f"] == Op.WRITE) & (rows["status"] == Status.INFO)]
    after = [
        (rows["f"] == Op.WRITE)
        & (rows["attempt"] == write["attempt"])
        & (rows["t_inv"] > write["t_ret"])
        for write in unknown
    ]
    assert len(unknown) and not any(later.any() for later in after)
