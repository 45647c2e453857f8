"""The parts of the fault agent: what a feature adds to every agent, whatever kinds it loads."""

from __future__ import annotations

from holdfast.nemesis.agent.halves import loaded
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.parts import parts
from holdfast.nemesis.agent.request_forms import REQUESTS
from holdfast.nemesis.agent.requests import FaultAgent
from tests.nemesis.agent_process import HALVES


def test_no_two_answer_one_request() -> None:
    names = [do for part in parts(World()) for do in part.forms]
    kinds = [half.request for half in map(loaded, HALVES)]
    assert len({*REQUESTS, *names, *kinds}) == len(REQUESTS) + len(names) + len({*kinds})


def test_an_agent_without_any_kind_of_fault_answers_the_requests_of_its_parts() -> None:
    agent = FaultAgent()
    wrong = agent.serve({"id": 1, "do": "disk", "node": "n1", "path": "relative", "bytes": 1})
    assert "needs an absolute path" in str(wrong["error"])
    assert agent.serve({"id": 2, "do": "sync_disks"})["evidence"] == {"disks": 0}


def test_what_an_agent_says_of_itself_and_undoes_is_that_of_all_parts() -> None:
    agent, known = FaultAgent(), ("cut", "link", "pause", "kill", "set_clock", "syscall", "disk")
    able = agent.serve({"id": 1, "do": "hello"})["evidence"]
    assert isinstance(able, dict) and {*known, "proxy", "pid"} == able.keys()
    undone = agent.serve({"id": 2, "do": "recover"})["evidence"]
    assert undone == {"continued": 0, "neighbours": 0, "thawed": 0}
