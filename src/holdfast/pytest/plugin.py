"""The pytest plugin: tests that gate a lock, through the fixture `lock_campaign`.

It is loaded by every pytest in an environment that has Holdfast, so it imports pytest and nothing
else; what a test needs is imported when a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.pytest.campaign import LockCampaign

NOTE = "holdfast"
"""The user property of a test under which stands what was violated and does not fail it."""
PROFILES = ("quick", "standard", "thorough")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Everything that a run of the tests may say about their campaigns."""
    group = parser.getgroup("holdfast", "correctness of distributed locks")
    group.addoption("--holdfast-seed", type=int, default=1, help="The first seed. Default: 1.")
    group.addoption("--holdfast-runs", type=int, help="Runs per cell, whatever a test says.")
    group.addoption(
        "--holdfast-profile",
        choices=PROFILES,
        default="standard",
        help="How many runs and how long, where a test does not say: 2 of 5s, 5 of 10s, 20 of 30s.",
    )
    group.addoption(
        "--holdfast-report-dir", default=".holdfast/pytest", help="Where campaigns are kept."
    )
    group.addoption("--holdfast-baseline", help="A baseline to compare with (holdfast gate).")
    group.addoption(
        "--holdfast-require-docker",
        action="store_true",
        help="Without a container engine fail instead of skip.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A baseline that is not there ends everything, with the exit code of the gate."""
    config.addinivalue_line(
        "markers", "holdfast(system, **plan): what the fixture lock_campaign shall carry out"
    )
    baseline = config.getoption("--holdfast-baseline")
    if baseline is not None and not (config.invocation_params.dir / baseline).is_file():
        pytest.exit(
            f"holdfast: {baseline}: there is no such baseline; make one with holdfast gate"
            f" {config.getoption('--holdfast-report-dir')} --baseline {baseline} --update-baseline",
            returncode=2,
        )


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """The seed, in every log in which it matters."""
    users = [item for item in items if "lock_campaign" in getattr(item, "fixturenames", ())]
    if not users:
        return []
    return [
        f"holdfast: {len(users)} campaigns from seed {config.getoption('--holdfast-seed')},"
        f" profile {config.getoption('--holdfast-profile')}"
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What green tests saw violated, for a limit that nobody reads is none that anybody knows."""
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
    """The campaign of a test: `lock_campaign.check()` carries out what its marker says."""
    from holdfast.pytest.campaign import LockCampaign

    return LockCampaign(request)
