"""The halves of kinds of fault: the agent imports those of Holdfast and of the run only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.loading import load
from holdfast.nemesis import user_nemesis
from holdfast.nemesis.agent.halves import loaded
from tests.nemesis.agent_process import SRC, AgentProcess

MINE = """
from pathlib import Path
Path(__file__).with_suffix(".imported").touch()
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.agent.signals import Pauses

def half(request, **takes):
    return Half(request=request, form=Form(says="", takes={"nodes": NODES, **takes}), make=Pauses)

MINE = half("mine", fault=FAULT)
KILL = half("kill", fault=FAULT)
HEAL = half("heal", fault=FAULT)
NO_FAULT = half("mine")
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The code of a run, with a module that it brings along."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "holdfast").symlink_to(SRC / "holdfast")
    (folder / "mine.py").write_text(MINE)
    return folder


def refused(code: Path, half: str, *beside: Path) -> str:
    path = ":".join(map(str, (code, *beside)))
    with AgentProcess(environ={"PYTHONPATH": path}) as agent:
        return agent.error("load", halves=[half])


@pytest.mark.parametrize(
    "half",
    [
        "elsewhere:MINE",
        "elsewhere.part:MINE",
        "antigravity:fly",
        "os:environ",
        "holdfast.harness.core.loading:load",
        "holdfast.nemesis.kinds.kill:NEMESIS",
        "MINE",
        ":MINE",
        "",
    ],
)
def test_a_half_from_elsewhere_is_refused_and_not_imported(
    code: Path, tmp_path: Path, half: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "elsewhere.py").write_text(MINE)
    assert "load: " in refused(code, half, other)
    assert not (other / "elsewhere.imported").exists()


def test_what_the_run_brings_along_is_loaded_and_its_request_is_known(code: Path) -> None:
    with AgentProcess(environ={"PYTHONPATH": str(code)}) as agent:
        assert "unknown request 'mine'" in agent.error("mine", fault="f1", nodes=["n1"])
        assert "mine" in agent.do("load", halves=["mine:MINE"])["requests"]
        assert "not adopted" in agent.error("mine", fault="f1", nodes=["n1"])
        assert "missing argument 'nodes'" in agent.error("mine", fault="f1")
    assert (code / "mine.imported").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("KILL", "two halves for the request kill"),
        ("HEAL", "two halves for the request heal"),
        ("NO_FAULT", "does not take `fault`"),
        ("half", "is no half of a kind of fault: function"),
        ("NONE", "is no half of a kind of fault: NoneType"),
    ],
)
def test_a_half_takes_no_request_of_another(code: Path, name: str, why: str) -> None:
    assert why in refused(code, f"mine:{name}")


@pytest.mark.parametrize("kind", sorted(catalogue.NEMESES))
def test_every_kind_names_halves_of_the_agent(kind: str) -> None:
    for half in load(catalogue.NEMESES[kind].entry).agent:
        assert half.startswith("holdfast.nemesis.agent.") and "fault" in loaded(half).form.takes


class _Mine:
    traits = Traits()

    def __init__(self, *agent: str) -> None:
        self.agent = agent

    def draw(self, *args: Any) -> list[Any]:
        return []

    requests = draw


def test_a_users_kind_brings_halves_of_its_own_package_besides_the_built_in_ones() -> None:
    made = user_nemesis.UserNemesis("mine", _Mine("PINNED", "own.part:HALF"), "own.kinds")
    assert made.agent[:2] == ["own.kinds:PINNED", "own.part:HALF"]
    assert "holdfast.nemesis.agent.signals:KILL" in made.agent
    for half in ("os:environ", "owner:HALF", "holdfast.harness.core.loading:load"):
        with pytest.raises(UsageError, match="nor in its own package"):
            user_nemesis.UserNemesis("mine", _Mine(half), "own.kinds")
