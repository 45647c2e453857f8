"""Compresses columns of numbers into text for a page.

Numbers are delta-encoded, signed differences zigzag-encoded (2n or -2n-1), bytes of equal weight
grouped together, compressed by gzip, encoded in base64.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEVEL = 6
WIDEST = 1 << 31
EXACT = 1 << 53
"""From here on JavaScript cannot represent every whole number."""


def packed(
    columns: Mapping[str, npt.NDArray[np.generic]],
) -> tuple[list[tuple[str, int, int]], str]:
    """Layout of the columns (name, bytes per number, count), and all of them as one text.

    Columns have whole numbers from 0 to 2 ** 32 - 1, with as few bytes as needed.
    """
    layout, parts = [], []
    for name, column in columns.items():
        top = int(column.max(initial=0))
        width = 1 if top < 1 << 8 else 2 if top < 1 << 16 else 4
        planes = column.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
        parts.append(np.ascontiguousarray(planes.T).tobytes())
        layout.append((name, width, len(column)))
    whole = gzip.compress(b"".join(parts), LEVEL, mtime=0)
    return layout, base64.b64encode(whole).decode()


def signed(values: Ints) -> Ints:
    """Zigzag encoding of signed differences; values out of range are clipped."""
    inside = np.clip(values, -WIDEST + 1, WIDEST - 1)
    return np.where(inside >= 0, 2 * inside, -2 * inside - 1)


def steps(values: Ints, lanes: Ints) -> Ints:
    """Differences, each from its predecessor in its lane (from 0 for the first of a lane)."""
    order = np.argsort(lanes, kind="stable")
    mine, lane = values[order], lanes[order]
    apart = np.diff(mine, prepend=0)
    first = np.diff(lane, prepend=-1) != 0
    apart[first] = mine[first]
    differences = np.empty_like(apart)
    differences[order] = apart
    return differences


def sparse_steps(values: Ints, there: Bools, lanes: Ints) -> Ints:
    """0 for a missing value, else 1 + the zigzag difference from its predecessor in its lane."""
    coded = np.zeros(len(values), np.int64)
    coded[there] = 1 + signed(steps(values[there], lanes[there]))
    return coded


def ranked(values: Ints, there: Bools) -> tuple[Ints, list[str]]:
    """Numbers that JavaScript can represent, and their names if they are not the numbers.

    Tokens may use all 64 bits; if any does, each is replaced by its rank.
    """
    real = values[there]
    if not len(real) or (real.max() < WIDEST // 2 and real.min() > -WIDEST // 2):
        return values, []
    names = np.unique(real)
    place = np.searchsorted(names, values).astype(np.int64)
    return np.where(there, place, -1), [str(name) for name in names.tolist()]
