"""Whether acquires were sent as often as planned."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.clock import SECOND

ENOUGH = 0.9


def due(options: Mapping[str, str], span_ns: int) -> int:
    """Number of acquires due in the span of a workload; 0 without a planned rate."""
    return int(options.get("rate", "0")) * span_ns // SECOND


def too_few(issued: int, wanted: int) -> str | None:
    """Why the acquires that were sent do not show the planned load, None if they do."""
    if issued >= ENOUGH * wanted:
        return None
    return (
        f"driven at {issued / wanted:.0%} of the planned rate, {issued} of {wanted} acquires:"
        " more clients, more cores or a lower --rate"
    )
