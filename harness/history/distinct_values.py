"""The different values of a column: as `np.unique` has them, several times faster on many rows.

That hashes or sorts all values. Those of a history are numbers of clients and of locks, and
attempts, which each client counts from 1: dense, so that a place for every possible value costs
less.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
"""or of another type of whole numbers"""

SPARSE = 4
"""So many possible values per row are still worth a place each."""
LOW_32 = (1 << 32) - 1


def distinct(values: Ints) -> Ints:
    """The different values, sorted."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low > SPARSE * len(values):
        ordered: Ints = np.sort(values)
        return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return (np.flatnonzero(there) + low).astype(values.dtype)


def placed(values: Ints) -> tuple[Ints, Ints]:
    """(values in order, of each row the place of its one): of several clients, some of which may be
    in no row. Faster than `numbered`."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, -1)
    if high - low > SPARSE * len(values):
        different, _, of = numbered(values)
        return different, of
    return np.arange(low, high + 1), values - low


def numbered(attempts: Ints) -> tuple[Ints, Ints, Ints]:
    """(the different attempts, sorted; the first row of each; of each row the number of its one).

    As `np.unique` with `return_index` and `return_inverse`.
    """
    places = _places(attempts)
    if places is None:
        different, first, of = np.unique(attempts, return_index=True, return_inverse=True)
        return different, first, of.ravel()
    # Places 2 0 2 of three rows: written from the last row on, place 2 keeps row 0. First rows 1 -
    # 0: place 0 is number 0, place 2 number 1.
    rows = len(attempts)
    first = np.full(int(places.max(initial=-1)) + 1, rows)
    first[places[::-1]] = np.arange(rows)[::-1]
    there = first < rows
    first = first[there]
    return attempts[first], first, (np.cumsum(there) - 1)[places]


def _places(attempts: Ints) -> Ints | None:
    """A place for each attempt, in their order and nearly without gaps; None if there would be many
    more places than rows.

    Attempts 1:7 1:9 4:2, of clients 1 and 4: client 1 has the places 0 to 2, client 4 place 3.
    """
    if not len(attempts) or attempts.min() < 0:
        return None
    client, n = attempts >> 32, attempts & LOW_32
    clients = int(client.max()) + 1
    if clients > SPARSE * len(attempts):
        return None
    least, most = np.full(clients, LOW_32), np.full(clients, -1)
    np.minimum.at(least, client, n)
    np.maximum.at(most, client, n)
    width = np.maximum(most - least + 1, 0)
    if int(width.sum()) > SPARSE * len(attempts):
        return None
    return np.asarray((np.cumsum(width) - width - least)[client] + n)
