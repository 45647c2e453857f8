"""The machines of a plan whose nodes are on other hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast import catalogue
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import Plan


def hosts_of(plan: Plan, path: str) -> Mapping[str, Json]:
    """Content of the hosts file, {} if none is needed; UsageError if it is missing."""
    if not catalogue.BACKENDS[plan.backend].hosts_file:
        if path:
            raise UsageError(f"--hosts {path} requires --backend ssh, not {plan.backend}")
        return {}
    if not path:
        raise UsageError("--backend ssh requires --hosts FILE (docs/howto/ssh-hosts.md)")
    found: Mapping[str, Json] = load(catalogue.HOSTS)(Path(path))
    return found


def on_this_machine(plan: Plan, what: str) -> None:
    """UsageError if a run of several would need a file that lists machines."""
    if catalogue.BACKENDS[plan.backend].hosts_file:
        raise UsageError(f"{what} run on this machine only, not on backend {plan.backend}")
