"""What a run's clocks were against each other. Apart from verdicts, which hold it: a driver, which
measures it, starts without them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockSummary:
    """The clock of a host against the driver's, over one run.

    offset_ns     at the end; drift_ppm: its rate over the run
    error_ns      largest half width of the bounds on its timestamps
    samples       measurements; contradicted: whether no steady clock explains them
    """

    offset_ns: int
    drift_ppm: int | float  # as it was written: 5 stays 5, and is not read as 5.0
    error_ns: int
    samples: int = 0
    contradicted: bool = False
