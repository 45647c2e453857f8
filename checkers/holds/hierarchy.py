"""Which locks exclude each other: those of one name, and in a hierarchy those on an ancestor chain.

If a system declares that paths are subtrees, a lock whose name begins with "/" covers all paths
below it. A maximal ancestor chain runs from the root to a path below which no path was requested:
any two holds on it exclude each other, so that every rule for one lock is valid for a chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Op


@memoised
def paths(case: Case) -> Mapping[int, str]:
    """Index into history.strings -> path, of all names that are paths; memoised."""
    strings = case.history.strings if case.promises.subtrees else ()
    return {n: name for n, name in enumerate(strings) if name.startswith("/")}


def on_line(path: str, other: str) -> bool:
    """Whether two paths are equal, or one of them lies below the other."""
    return below(path, other) or below(other, path)


def below(path: str, other: str) -> bool:
    """Whether `path` is `other` or lies in its subtree; all paths lie in that of "/"."""
    return path == other or path.startswith(other.rstrip("/") + "/")


def root(case: Case, path: str) -> str:
    """The first part of a path, "/a" of "/a/b/c"; "/" if that is a lock of the run itself."""
    if "whole tree" not in case.memo:
        keys = [key for key, known in paths(case).items() if known == "/"]
        asked = column(case, "key")[rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)] if keys else ()
        case.memo["whole tree"] = bool(np.isin(keys, asked).any())
    return "/" if case.memo["whole tree"] else "/" + path.split("/")[1]


def lines(case: Case, keys: Sequence[int]) -> dict[int, list[int]]:
    """The last lock of each maximal ancestor chain -> all requested locks on it."""
    known = paths(case)
    among = [key for key in keys if key in known]
    chains = {key: [key] for key in keys if key not in known}
    for key in among:
        if not any(other != key and below(known[other], known[key]) for other in among):
            chains[key] = [other for other in among if below(known[key], known[other])]
    return chains


def families(case: Case, keys: Sequence[int]) -> dict[int, list[int]]:
    """One lock of each hierarchy -> all its locks; any other lock is its own family."""
    known = paths(case)
    members: dict[int, list[int]] = {}
    first: dict[str, int] = {}
    for key in keys:
        name = first.setdefault(root(case, known[key]), key) if key in known else key
        members.setdefault(name, []).append(key)
    return members
