"""What all tests share: no example is timed, how many inputs are drawn (see draws.py), and a skip
is a failure under HOLDFAST_REQUIRE=all (needs.py) or where nobody would look for it (tools.py)."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from holdfast.harness.runs import signals
from tests import heavy, kept_times, left_behind, quick, shared_out, tools
from tests.draws import Draws, asked

# No test depends on how fast the machine is: neither an example nor the making of one is timed.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")


def pytest_configure(config: pytest.Config) -> None:
    """Whoever starts the tests may ignore signals that end servers: nohup, `&` in a script."""
    signals.end_here()
    config.pluginmanager.register(left_behind)
    config.pluginmanager.register(kept_times)
    config.pluginmanager.register(heavy)
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(shared_out)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that draw, before marks choose which tests run."""
    for item in items:
        if "draws" in getattr(item, "fixturenames", ()):
            item.add_marker("draws")


@pytest.fixture
def draws(request: pytest.FixtureRequest) -> Draws:
    """How many inputs of so many to draw. What is marked power is asked for by name: all."""
    return Draws(1) if request.node.get_closest_marker("power") else asked()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns every skip, however it came about, into a failure where nothing may be missing."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and (refused := refusal(item)):
        where = report.longrepr
        reason = where[2] if isinstance(where, tuple) else str(where)
        report.outcome = "failed"
        report.longrepr = f"{reason} ({refused})"
    return report


def refusal(item: pytest.Item) -> str:
    """Why this test may not be skipped, "" if it may."""
    if os.environ.get("HOLDFAST_REQUIRE") == "all":
        return "HOLDFAST_REQUIRE=all: nothing may be skipped"
    within = item.path.is_relative_to(quick.ROOT / "tests")
    if within and str(item.path.relative_to(quick.ROOT)) not in tools.asking():
        return "make test-tools does not run this file: no import of it leads to tests/needs.py"
    return ""
