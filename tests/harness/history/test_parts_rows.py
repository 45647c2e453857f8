"""Steps of reading a history in parts, compared with plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, by_column
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import parts

OPS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RELEASE, Op.SERVED_READ, Op.SERVED_WRITE, Op.WAITING)
ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
SERVED = (Op.SERVED_READ, Op.SERVED_WRITE)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_moment_are_in_the_order_of_writer_and_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t_inv, writer = rng.integers(0, 40, 100), rng.integers(0, 3, 100)
    row = rng.permutation(100)
    expected = np.lexsort((row, writer, t_inv))
    assert parts._in_order(t_inv, writer, row).tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_attempts_of_each_lock_are_those_that_a_walk_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.zeros(60, MERGED_DTYPE)
    rows["f"] = rng.choice(np.array(OPS, np.uint8), 60)
    rows["status"] = rng.choice(np.array((Status.OK, Status.FAIL), np.uint8), 60)
    rows["key"] = rng.integers(1, 4, 60)
    rows["token"] = rng.integers(-1, 6, 60)
    rows["t_inv"] = np.sort(rng.integers(0, 30, 60))
    of = rng.integers(0, 25, 60)
    found = set[int]()
    for ops, ok_only in ((ASKS, False), (ASKS, True), (SERVED, True)):
        for key in range(1, 4):
            for column in ("t_inv", "token"):
                newest = -1
                for n, one in enumerate(rows):
                    if one["f"] not in ops or one["key"] != key:
                        continue
                    if ok_only and one["status"] != Status.OK:
                        continue
                    if newest < 0 or one[column] >= rows[newest][column]:
                        newest = n
                found |= {int(of[newest])} if newest >= 0 else set()
    kept = parts._newest_of_each_lock(by_column(rows), of, 25)
    assert set(np.flatnonzero(kept).tolist()) == found
