"""Holdfast: find out whether a distributed lock can ever have two holders.

import holdfast as hf

run = hf.simulate(nemesis="pause:target=holder,for=3s", resource="unfenced", seed=1)
run.verdicts["no-stale-write"]
run.frame(ops=["acquire"]).groupby("client").latency.describe()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.harness.runs.version import VERSION

if TYPE_CHECKING:
    from holdfast.api.actions import check as check
    from holdfast.api.actions import judge as judge
    from holdfast.api.actions import run as run
    from holdfast.api.actions import simulate as simulate
    from holdfast.api.many import Campaign as Campaign
    from holdfast.api.many import runs as runs
    from holdfast.api.run import Run as Run
    from holdfast.api.run import read_parquet as read_parquet
    from holdfast.harness.core.errors import EnvironmentFailed as EnvironmentFailed
    from holdfast.harness.core.errors import HoldfastError as HoldfastError
    from holdfast.harness.core.errors import UsageError as UsageError
    from holdfast.harness.core.verdict import Verdict as Verdict
    from holdfast.reports.text.progress import State as State
    from holdfast.reports.text.progress import listening as listening

__version__ = VERSION

_PLACES = {
    "Campaign": "api.many",
    "EnvironmentFailed": "harness.core.errors",
    "HoldfastError": "harness.core.errors",
    "Run": "api.run",
    "UsageError": "harness.core.errors",
    "Verdict": "harness.core.verdict",
    "State": "reports.text.progress",
    "check": "api.actions",
    "judge": "api.actions",
    "listening": "reports.text.progress",
    "read_parquet": "api.run",
    "run": "api.actions",
    "runs": "api.many",
    "simulate": "api.actions",
}
__all__ = [
    "Campaign", "EnvironmentFailed", "HoldfastError", "Run", "State", "UsageError", "Verdict",
    "check", "judge", "listening", "read_parquet", "run", "runs", "simulate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used: this package is imported in every client."""
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
