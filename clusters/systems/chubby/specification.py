"""The specification of the Chubby mode: that of the reference service, with the mode's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.clusters.systems.chubby.options import DEFAULTS
from holdfast.clusters.systems.reference.specification import validation
from holdfast.harness.verdicts.departure import Departure


def validate(
    events: Iterable[object], *, nodes: int, options: Mapping[str, str]
) -> Departure | None:
    """As `validation.validate`."""
    return validation.validate(events, nodes=nodes, options={**DEFAULTS, **options})
