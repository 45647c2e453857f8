"""Columns of numbers as text that a page can carry: small where neighbours are alike.

A number is kept as its difference from the one before it, differences of either sign as 2n or
-2n-1, the bytes of equal weight side by side, compressed by gzip, written in base64.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEVEL = 6
WIDEST = 1 << 31
EXACT = 1 << 53
"""From here on a script cannot tell neighbouring whole numbers apart."""


def packed(columns: Mapping[str, npt.NDArray[Any]]) -> tuple[list[tuple[str, int, int]], str]:
    """Where each column lies (name, bytes per number, how many), and all of them as one text.

    Columns hold whole numbers from 0 up to 2 ** 32 - 1; each gets the bytes that it needs.
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
    """Differences of either sign as numbers from 0 on; what is too wide is cut to what fits."""
    inside = np.clip(values, -WIDEST + 1, WIDEST - 1)
    return np.where(inside >= 0, 2 * inside, -2 * inside - 1)


def steps(values: Ints, lanes: Ints) -> Ints:
    """Differences, each from the value before it in its lane (from 0 for the first of a lane)."""
    order = np.argsort(lanes, kind="stable")
    mine, lane = values[order], lanes[order]
    apart = np.diff(mine, prepend=0)
    first = np.diff(lane, prepend=-1) != 0
    apart[first] = mine[first]
    found = np.empty_like(apart)
    found[order] = apart
    return found


def sparse_steps(values: Ints, there: Bools, lanes: Ints) -> Ints:
    """0 where there is none, else 1 + the signed difference from the one before it in its lane."""
    found = np.zeros(len(values), np.int64)
    found[there] = 1 + signed(steps(values[there], lanes[there]))
    return found


def ranked(values: Ints, there: Bools) -> tuple[Ints, list[str]]:
    """Numbers that a script can carry, and their names where these are not the numbers themselves.

    Tokens may use all 64 bits; if any does, each is told by its place among them.
    """
    real = values[there]
    if not len(real) or (real.max() < WIDEST // 2 and real.min() > -WIDEST // 2):
        return values, []
    names = np.unique(real)
    place = np.searchsorted(names, values).astype(np.int64)
    return np.where(there, place, -1), [str(name) for name in names.tolist()]
