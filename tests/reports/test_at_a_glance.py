"""The short lines beside the verdict."""

from __future__ import annotations

import pytest

from holdfast.reports.run import at_a_glance
from holdfast.reports.run.story import bound
from tests.reports import specimens
from tests.reports.rendered import read

KIND: dict[str, object] = {"do": "clock", "effective": True}
OTHER: dict[str, object] = {"do": "kill", "effective": True}
FAILED = KIND | {"effective": False}


@pytest.mark.parametrize(
    ("faults", "line", "part"),
    [
        ((), "none", "no effective fault"),
        ((KIND,) * 3, "3 (clock), all took effect", "3 effective faults (clock)"),
        ((FAILED,), "1 (clock), none took effect", "no effective fault, 1 fault without effect"),
        (
            (KIND, OTHER, KIND, FAILED),
            "4 (3 clock and 1 kill), 3 took effect",
            "3 effective faults (2 clock and 1 kill), 1 fault without effect",
        ),
    ],
)
def test_faults_are_counted_by_kind(
    faults: tuple[dict[str, object], ...], line: str, part: str
) -> None:
    made = specimens.clean()
    made["faults"] = [made["faults"][0] | fault for fault in faults]
    run = read(made)
    assert at_a_glance.faults(run) == line
    assert part in bound(run)
