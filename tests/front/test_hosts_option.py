"""Every command that starts runs on other machines is told which, or says why it starts none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.engine import runner
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
PLAN = 'system = "reference"\nbackend = "ssh"\ntime = "1s"\nseed = 1\n'
HOSTS = '[[host]]\nname = "h1"\naddress = "192.0.2.11"\n'
MISSING = "--backend ssh requires --hosts FILE"
ON_HOSTS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "--backend", "ssh", "--system", "reference", "--seed", "1"),
    "scenario": ("scenario", "half-open-holder", "--backend", "ssh"),
    "replay": ("replay", "plan.toml"),
    "shrink": ("shrink", "plan.toml"),
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN)
    Path("hosts.toml").write_text(HOSTS)


@pytest.mark.parametrize("name", ON_HOSTS)
def test_without_a_file_of_hosts_nothing_is_started(capsys: Capture, name: str) -> None:
    said = holdfast(capsys, *ON_HOSTS[name])
    assert said.code == 2 and MISSING in said.err, said.err
    assert not Path(".holdfast").exists()


@pytest.mark.parametrize("name", ON_HOSTS)
def test_the_machines_of_the_file_are_those_of_the_run(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    seen: list[Json] = []

    def carry_out(*given: object, hosts: Mapping[str, Json], **others: object) -> object:
        seen.append(hosts["hosts"])
        raise EnvironmentFailed("enough")

    for module in (runner, *([] if name != "scenario" else [_scenario()])):
        monkeypatch.setattr(module, "carry_out", carry_out)
    said = holdfast(capsys, *ON_HOSTS[name], "--hosts", "hosts.toml")
    assert said.code == 4 and "enough" in said.err
    (hosts,) = seen[:1]
    assert isinstance(hosts, list) and [row["address"] for row in hosts] == ["192.0.2.11"]


def _scenario() -> object:
    from holdfast.commands import scenario_command

    return scenario_command


def test_hosts_of_a_settings_file_are_no_matter_of_plans_of_other_backends(
    capsys: Capture,
) -> None:
    Path("holdfast.toml").write_text('hosts = "hosts.toml"\n')
    assert holdfast(capsys, "scenario", "owner-pause", "--dry-run").code == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("campaign", "many.toml"), "campaigns run on this machine only, not on backend ssh"),
        (
            ("scenario", "ttl-sweep", "--backend", "ssh"),
            "sweeps run on this machine only, not on backend ssh",
        ),
    ],
)
def test_what_runs_on_this_machine_only_says_so(
    capsys: Capture, words: tuple[str, ...], what: str
) -> None:
    Path("many.toml").write_text('backend = "ssh"\ntime = "1s"\nsystems = ["reference"]\n')
    said = holdfast(capsys, *words)
    assert said.code == 2 and what in said.err, said.err
