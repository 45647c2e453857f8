"""The pytest plugin: tests that gate a lock, through the fixture `lock_campaign`.

It is loaded by every pytest in an environment that has Holdfast, so it imports pytest and nothing
else; everything else is imported when a test uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.pytest import NOTE

if TYPE_CHECKING:
    from collections.abc import Generator

    from holdfast.pytest.campaign import LockCampaign

PROFILES = ("quick", "standard", "thorough")


def pytest_addoption(parser: pytest.Parser) -> None:
    """pytest options about campaigns."""
    group = parser.getgroup("holdfast", "correctness of distributed locks")
    group.addoption("--holdfast-seed", type=int, default=1, help="First seed (default: 1).")
    group.addoption("--holdfast-runs", type=int, help="Runs per cell; overrides the tests.")
    group.addoption(
        "--holdfast-profile",
        choices=PROFILES,
        default="standard",
        help="Number and duration of runs, unless a test sets them: 2 x 5s, 5 x 10s, 20 x 30s.",
    )
    group.addoption(
        "--holdfast-report-dir", default=".holdfast/pytest", help="Folder for campaigns."
    )
    group.addoption("--holdfast-baseline", help="Baseline to compare with (holdfast gate).")
    group.addoption(
        "--holdfast-require-docker",
        action="store_true",
        help="Fail instead of skip without a container engine.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A missing baseline ends the session with the exit code of the gate."""
    config.addinivalue_line(
        "markers", "holdfast(system, **plan): the campaign that the fixture lock_campaign runs"
    )
    baseline = config.getoption("--holdfast-baseline")
    if baseline is not None and not (config.invocation_params.dir / baseline).is_file():
        pytest.exit(
            f"holdfast: {baseline}: no such baseline; create one with holdfast gate"
            f" {config.getoption('--holdfast-report-dir')} --baseline {baseline} --update-baseline",
            returncode=2,
        )


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """The seed and profile, in the header of the session."""
    users = [item for item in items if "lock_campaign" in getattr(item, "fixturenames", ())]
    if not users:
        return []
    seed, profile = (config.getoption(f"--holdfast-{name}") for name in ("seed", "profile"))
    campaigns = f"{len(users)} campaign{'s' * (len(users) != 1)}"
    return [f"holdfast: {campaigns} from seed {seed}, profile {profile}"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The summary at the end, and JUnit's message, have the first line of a failed campaign: in CI
    pytest would print the whole text a second time."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and "lock_campaign" in getattr(item, "fixturenames", ()):
        raised = getattr(call.excinfo, "value", None)
        if isinstance(raised, pytest.fail.Exception) and not raised.pytrace:
            crash.message = crash.message.partition("\n")[0]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Violations in tests that passed, in the summary, so that limits are visible."""
    lines = [
        f"{report.nodeid}: {text}"
        for report in terminalreporter.stats.get("passed", ())
        for name, text in getattr(report, "user_properties", ())
        if name == NOTE and report.when == "call"
    ]
    if not lines:
        return
    terminalreporter.section("holdfast: violated in tests that passed")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture
def lock_campaign(request: pytest.FixtureRequest) -> LockCampaign:
    """The campaign of a test: `lock_campaign.check()` runs the plan of its marker."""
    from holdfast.harness.runs import signals
    from holdfast.pytest.campaign import LockCampaign

    signals.end_here()
    return LockCampaign(request)
