"""The specification of the Chubby mode: that of the reference service, with the mode's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.clusters.systems.chubby.options import DEFAULTS
from holdfast.clusters.systems.reference.specification import validation
from holdfast.harness.verdicts.judged import Departure
from holdfast.harness.verdicts.specification import Settled


def validate(
    events: Iterable[object],
    *,
    nodes: int,
    options: Mapping[str, str],
    settled: Settled | None = None,
) -> Departure | None:
    """As `validation.validate`."""
    given = {**DEFAULTS, **options}
    return validation.validate(events, nodes=nodes, options=given, settled=settled)
