"""The JSON keys that older versions wrote, as the keys of today: the only place that knows both.

Standard library only: the rows of a run directory are read with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.json_value import Json

FORMER = {"bit": "effective"}
"""Former key -> key. Fault rows and judged faults of holdfast-run/1 and holdfast-verdict/1 and 2,
their evidence, and the results of campaigns."""
WITHIN = ("evidence", "faults")
"""Keys of the objects that may have former keys inside."""


def current(table: Mapping[str, Json]) -> dict[str, Json]:
    """A fault row, a result or a whole `verdicts.json` with the keys of today; others stay."""
    found = {FORMER.get(name, name): value for name, value in table.items()}
    for name in WITHIN:
        inner = found.get(name)
        if isinstance(inner, Mapping):
            found[name] = current(inner)
        elif isinstance(inner, list):
            found[name] = [current(one) if isinstance(one, Mapping) else one for one in inner]
    return found
