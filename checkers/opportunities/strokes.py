"""Strokes: the times at which a fault can have taken from servers what they had acknowledged.

What a minority of the servers forgets, the others still know. So a kill or a
power loss of some of them can take something only from one that decides alone, a leader, or a
majority. While a minority is down, the others have to agree without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.checkers.facts.fault_windows import servers_struck
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import Seen


class Stroke(NamedTuple):
    """One stroke.

    window    the fault
    from_ns   from then on, answers may come from a state that has lost something
    back_ns   from then on, the servers that it struck respond again
    """

    window: Window
    from_ns: int
    back_ns: int


def of_deciders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at so many servers that the others cannot decide: the only one, or a majority."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window) for window in windows if 2 * len(servers_struck(case, window)) > servers
    ]


def of_leaders(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at the leader and too few others to stop the rest: another server decides next."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window)
        for window in windows
        if window.leader in (struck := servers_struck(case, window)) and 2 * len(struck) < servers
    ]


def of_minorities(case: Case, windows: Sequence[Window]) -> list[Stroke]:
    """Strokes at fewer than half of the servers, the leader not known to be one of them: the others
    go on, and have to agree without them."""
    servers = int(case.options.get("servers", "0"))
    return [
        _stroke(window)
        for window in windows
        if 0 < 2 * len(struck := servers_struck(case, window)) < servers
        if window.leader not in struck
    ]


def _stroke(window: Window) -> Stroke:
    return Stroke(window, window.from_ns, window.to_ns)


def unstaged(windows: Sequence[Window], what: str) -> Seen:
    """What a row has seen of windows without a stroke. what: whom they would have had to strike."""
    kinds = " or ".join(dict.fromkeys(window.do for window in windows))
    return Seen(staged=False, nearest=f"no {kinds} struck {what}: 0 of {len(windows)}")
