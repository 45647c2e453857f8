"""What there is can be listed, and what is listed is there."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from holdfast import catalogue
from holdfast.catalogue import design_sheet
from holdfast.commands import COMMANDS, cli
from holdfast.commands.listing import KINDS
from holdfast.commands.options import Command
from holdfast.engine import seed_search
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import parse
from holdfast.harness.properties import PROPERTIES
from holdfast.planning import prepare
from tests import needs
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_is_listed_with_a_sentence_each(
    capsys: Capture, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "5000")
    table = json.loads(holdfast(capsys, "list", kind, "--json").out)
    lines = holdfast(capsys, "list", kind).out.splitlines()
    assert [line.split()[0] for line in lines] == list(table)
    assert all(len(row["summary"]) > 10 for row in table.values())


def test_every_entry_of_the_catalogue_loads() -> None:
    for row in catalogue.SYSTEMS.values():
        assert load(row.entry).promises({}).sheet
    for place in catalogue.BACKENDS.values():
        assert callable(load(place.entry)) and callable(load(place.precheck))
    for nemesis in catalogue.NEMESES.values():
        assert load(nemesis.entry).requests
    for workload in catalogue.WORKLOADS.values():
        assert set(load(f"{workload.entry}:ASKS")) <= set(catalogue.CHECKERS)
        assert callable(load(f"{workload.entry}:client"))


def test_the_protected_resource_is_a_field_of_every_design_sheet() -> None:
    for name, row in catalogue.SYSTEMS.items():
        system = load(row.entry)
        promises = system.promises({})
        mode = design_sheet.suited_to(system, promises)
        sheet = design_sheet.with_resource(promises, mode).sheet
        assert sheet[design_sheet.RESOURCE].startswith(f"{mode}: "), name
        assert set(sheet) >= set(promises.sheet)


def test_every_property_has_its_checker_and_every_checker_its_property() -> None:
    assert set(catalogue.CHECKERS) == set(PROPERTIES)
    for entry in catalogue.CHECKERS.values():
        assert callable(load(entry))


def test_every_property_that_a_system_promises_is_known() -> None:
    for row in catalogue.SYSTEMS.values():
        assert set(load(row.entry).promises({}).keeps) <= set(PROPERTIES)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_the_options_of_every_example_are_known(command: str) -> None:
    outer = click.Context(cli, info_name="holdfast")
    found = cli.get_command(outer, command)
    examples = [text for part in parts(found) for text in part.examples]
    assert examples
    for text in examples:
        words = text.partition(" holdfast ")[2] or text.removeprefix("holdfast ")
        name, *rest = shlex.split(words.partition(" > ")[0])
        assert name == command
        leaf = found
        assert leaf is not None
        while isinstance(leaf, click.Group):
            leaf, rest = leaf.commands[rest[0]], rest[1:]
        with leaf.make_context(name, rest):
            pass


def parts(found: click.Command | None) -> list[Command]:
    """A command, or the commands of a group."""
    if isinstance(found, click.Group):
        return [part for one in found.commands.values() for part in parts(one)]
    assert isinstance(found, Command)
    return [found]


@pytest.mark.parametrize(
    ("words", "begun", "names"),
    [
        (["run", "--system"], "re", {"reference", "redis", "redlock"}),
        (["list"], "mut", {"mutants"}),
        (["scenario"], "redlock-c", {"redlock-clock-step"}),
    ],
)
def test_the_shell_completes_names(words: list[str], begun: str, names: set[str]) -> None:
    complete = ShellComplete(cli, {}, "holdfast", "_HOLDFAST_COMPLETE")
    found = {item.value for item in complete.get_completions(words, begun)}
    assert names <= found
    assert all(name.startswith(begun) for name in found)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(capsys: Capture, command: str) -> None:
    said = holdfast(capsys, command, "--help")
    assert said.code == 0
    assert "Usage: holdfast" in said.out


def plan_text(capsys: Capture, *words: str) -> str:
    said = holdfast(capsys, "run", "--dry-run", *words)
    assert said.code == 0
    return said.out


def test_the_same_seed_gives_the_same_plan_and_another_another(capsys: Capture) -> None:
    words = ("--nemesis", "partition,pause,kill,clock", "--time", "60s")
    first = plan_text(capsys, *words, "--seed", "7")
    assert plan_text(capsys, *words, "--seed", "7") == first
    assert plan_text(capsys, *words, "--seed", "8") != first


def test_a_dry_run_prints_a_plan_that_can_be_run(capsys: Capture) -> None:
    from holdfast.planning.prepare import KNOWN

    text = plan_text(capsys, "--nemesis", "pause:target=holder", "--seed", "3")
    plan = parse(tomllib.loads(text), KNOWN)
    assert plan.faults and not plan.nemeses
    assert {fault.do for fault in plan.faults} == {"pause"}
    assert plan.resource == "fenced"


def test_the_list_says_which_systems_are_simulated_and_what_of_them_is_real(
    capsys: Capture,
) -> None:
    table = json.loads(holdfast(capsys, "list", "systems", "--json").out)
    assert table["redlock"]["simulated"] is True
    assert "the client" in table["redlock"]["real_in_simulator"]
    assert "not redis-server" in table["redlock"]["real_in_simulator"]
    assert table["etcd"]["real_in_simulator"] == ""
    assert {name for name, row in table.items() if row["simulated"]} == {
        name for name, row in catalogue.SYSTEMS.items() if row.runs_in_simulator
    }
    for control in ("none", "cas", "idempotent"):
        plan = parse({"system": control, "backend": "sim", "time": "1s"}, prepare.KNOWN)
        full = prepare.prepared(replace(plan, nodes=0))
        ran = seed_search.in_memory(prepare.manifest(full, control, ""))
        assert table[control]["real_in_simulator"] == "clients"
        assert len(ran.case.history.rows), control


def test_functions_of_a_program_are_listed_by_a_part_of_their_names(
    capsys: Capture, tmp_path: Path
) -> None:
    compiler = needs.binary("gcc")
    (tmp_path / "one.c").write_text("int first_step(void) { return 1; } int main(void) {}")
    program = tmp_path / "one"
    subprocess.run([compiler, "-o", str(program), str(tmp_path / "one.c")], check=True)
    said = holdfast(capsys, "list", "functions", program, "--like", "STEP", "--json")
    assert list(json.loads(said.out)) == ["first_step"]
    said = holdfast(capsys, "list", "functions", tmp_path / "one.c")
    assert (said.code, "not a 64-bit little-endian ELF file" in said.err) == (2, True)
    for words in (["functions"], ["systems", program]):
        said = holdfast(capsys, "list", *words)
        assert (said.code, "holdfast list functions PROGRAM" in said.err) == (2, True)
