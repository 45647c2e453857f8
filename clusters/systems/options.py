"""Validates what is asked of a system: its options, and the addresses of its servers."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from holdfast.clusters.systems.config_files import CONFIG
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.ports import Node
from holdfast.harness.plans.plan import RUNNING

LOOPBACK = "127."


def choose(
    system: str, options: Mapping[str, str], known: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Every known option with its value; the first of its values is the default.

    UsageError lists all errors at once.
    """
    problems = []
    for name, value in options.items():
        if name in (CONFIG, RUNNING):
            continue  # of every system: the plan's checks read them
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            names = ", ".join(sorted(known)) or "none"
            problems.append(f"{system}: unknown option {name}{hint} (known: {names})")
        elif value not in known[name]:
            values = ", ".join(known[name])
            problems.append(f"{system}: invalid {name}={value}: expected one of {values}")
    if problems:
        raise UsageError(*problems)
    return {name: options.get(name, values[0]) for name, values in known.items()}


def refuse_loopback(system: str, node: Node, servers: Sequence[Node]) -> None:
    """EnvironmentFailed if servers that need each other reach each other through proxies only."""
    if len(servers) > 1 and node.address.startswith(LOOPBACK):
        raise EnvironmentFailed(
            f"{system}: its servers must reach each other by the same addresses, which proxies on"
            " loopback cannot provide; use --backend docker, or --nodes 1"
        )
