"""The driver's end of the fault agent: answers are matched by number, and silence is no answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client import agent_link
from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.core.clock import MILLISECOND, now_ns
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, NoAnswer
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.ports import Fault, Node
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.runs.journal import FaultRow
from holdfast.nemesis.kinds.pause import NEMESIS
from tests.harness.schedule_parts import Nodes, NoHolders
from tests.nemesis.agent_process import ARGV, HALVES, SRC
from tests.nemesis.test_agent_signals import running, shown, soon

SHORT_S, LONG_S = 0.05, 30.0


async def started(log: Path) -> AgentLink:
    link = await AgentLink.start(ARGV, {"PYTHONPATH": str(SRC)}, log, LONG_S)
    await link.ask("load", halves=HALVES)
    return link


async def adopt(link: AgentLink, name: str, pid: int) -> None:
    await link.ask("adopt", node=name, pid=pid, address=f"10.0.0.{name[1:]}", processes=[pid])


def test_an_answer_that_comes_late_is_never_that_to_a_later_request(tmp_path: Path) -> None:
    async def work() -> None:
        link = await started(tmp_path / "agent.log")
        with running("sleep", "60") as one, running("sleep", "60") as two:
            await adopt(link, "n1", one.pid)
            await adopt(link, "n2", two.pid)
            os.kill(link.pid, signal.SIGSTOP)
            link.within_s = SHORT_S
            with pytest.raises(NoAnswer, match="no response to pause"):
                await link.ask("pause", fault="f1", nodes=["n1"])
            os.kill(link.pid, signal.SIGCONT)
            link.within_s = LONG_S
            second = await link.ask("pause", fault="f2", nodes=["n2"])
            assert second["evidence"]["states"] == {"n2": "T"}
            assert shown(one.pid) == "T"
            assert (await link.ask("heal", fault="f1"))["evidence"]["states"] == {"n1": "T"}
            assert soon(one.pid, "S")
        await link.close()

    asyncio.run(work())


def test_a_request_that_was_cancelled_shifts_nothing_either(tmp_path: Path) -> None:
    async def work() -> None:
        link = await started(tmp_path / "agent.log")
        asking = asyncio.ensure_future(link.ask("hello"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await link.ask("states"))["evidence"] == {}
        await link.close()

    asyncio.run(work())


def test_an_agent_that_is_gone_is_lost_and_not_late(tmp_path: Path) -> None:
    async def work() -> None:
        link = await started(tmp_path / "agent.log")
        os.kill(link.pid, signal.SIGKILL)
        with pytest.raises(AgentLost):
            await link.ask("hello")
        await link.close()

    asyncio.run(work())


TWO = (
    Node(name="n1", role="server", address="10.0.0.1"),
    Node(name="n2", role="server", address="10.0.0.2"),
)


@dataclass
class WithAgent(Nodes):
    """Two nodes and a real agent."""

    nodes: Sequence[Node] = TWO
    agent: AgentLink = field(kw_only=True)


def pause(ident: str, node: str, at_ns: int) -> Fault:
    return Fault(id=ident, do="pause", target=node, at_ns=at_ns, for_ns=MILLISECOND, params={})


def test_a_fault_that_was_not_answered_is_healed_and_is_evidence_of_nothing(
    tmp_path: Path,
) -> None:
    """The agent stands still while the first fault is asked for and goes on when that was given up:
    the evidence of the second is of its own node, and nothing stays stopped."""
    rows: list[dict[str, Any]] = []

    async def work() -> None:
        link = await started(tmp_path / "agent.log")

        def note(row: FaultRow) -> None:
            rows.append(plain(row))
            if row.event == "failed":
                link.within_s = LONG_S
                os.kill(link.pid, signal.SIGCONT)

        with running("sleep", "60") as one, running("sleep", "60") as two:
            await adopt(link, "n1", one.pid)
            await adopt(link, "n2", two.pid)
            schedule = Schedule(
                faults=(pause("f1", "n1", 0), pause("f2", "n2", 400 * MILLISECOND)),
                nemeses={"pause": NEMESIS},
                seed=1,
                cluster=WithAgent(agent=link),
                live=NoHolders(),
                note=note,
            )
            os.kill(link.pid, signal.SIGSTOP)
            link.within_s = SHORT_S
            await schedule.run(now_ns())
            assert soon(one.pid, "S") and soon(two.pid, "S")
            assert (schedule.active, schedule.paused) == (0, [])
        await link.close()

    asyncio.run(work())
    told = {(row["id"], row["event"]): row for row in rows}
    assert "no response to pause" in told["f1", "failed"]["reason"]
    assert told["f1", "injected"]["t_ns"] == told["f1", "injected"]["before_ns"]
    assert told["f1", "injected"]["nodes"] == ["n1"]
    assert told["f1", "healed"]["effective"] is False
    assert told["f1", "healed"]["evidence"]["states"] == {"n1": "T"}
    assert told["f2", "healed"]["effective"] is True
    assert told["f2", "healed"]["evidence"]["states"] == {"n2": "T"}


def test_an_agent_that_never_answers_again_ends_the_schedule(tmp_path: Path) -> None:
    async def work() -> None:
        link = await started(tmp_path / "agent.log")
        with running("sleep", "60") as one:
            await adopt(link, "n1", one.pid)
            schedule = Schedule(
                faults=(pause("f1", "n1", 0), pause("f2", "n1", 10**15)),
                nemeses={"pause": NEMESIS},
                seed=1,
                cluster=WithAgent(agent=link),
                live=NoHolders(),
                note=lambda row: None,
            )
            os.kill(link.pid, signal.SIGSTOP)
            link.within_s = SHORT_S
            with pytest.raises(AgentLost, match="3 times"):
                await schedule.run(now_ns())
        os.kill(link.pid, signal.SIGKILL)
        await link.close()

    asyncio.run(work())


def test_a_refused_request_is_neither_late_nor_lost(tmp_path: Path) -> None:
    async def work() -> None:
        link = await started(tmp_path / "agent.log")
        with pytest.raises(EnvironmentFailed, match="n1") as raised:
            await link.ask("pause", fault="f1", nodes=["n1"])
        assert type(raised.value) is EnvironmentFailed
        await link.close()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("read line; echo 'python3: no such module'", AgentLost, "no response, but 'python3: no"),
        (f"read line; echo {'x' * 99}", AgentLost, f"no response, but '{'x' * 80}'; see"),
        ("read line", AgentLost, "it exited; see "),
        ('read line; echo \'{"id": 1, "ok": false}\'', EnvironmentFailed,
         "hello: no reason given$"),
        ('read line; echo \'{"id": 1, "error": "busy"}\'', EnvironmentFailed, "hello: busy$"),
    ],
)  # fmt: skip
def test_what_is_no_good_response_is_one_message(
    tmp_path: Path, script: str, error: type[Exception], says: str
) -> None:
    async def work() -> None:
        link = await AgentLink.start(["sh", "-c", script], {}, tmp_path / "agent.log", LONG_S)
        try:
            with pytest.raises(error, match=f"^fault agent: {says}"):
                await link.ask("hello")
        finally:
            await link.close()

    asyncio.run(work())


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    start = AgentLink.start(["/no/python"], {}, tmp_path / "agent.log", LONG_S)
    with pytest.raises(EnvironmentFailed, match=r"^fault agent: cannot start /no/python: "):
        asyncio.run(start)


def test_an_agent_that_does_not_leave_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_link, "ANSWER_WITHIN_S", SHORT_S)

    async def work() -> int:
        stays = ["sh", "-c", "exec 0<&-; exec sleep 600"]
        link = await AgentLink.start(stays, {}, tmp_path / "agent.log", LONG_S)
        await link.close()
        return link.pid

    assert not Path(f"/proc/{asyncio.run(work())}").exists()
